/* forward IN OUT CORE: a minimal forwarder without P4: TPACKET_V2 ring, memory copy, sendmmsg().
 * The forwarder never sleeps and needs a core of its own. */
#define _GNU_SOURCE
#include "common.h"

enum { BATCH = 64 };

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    pin(atoi(argv[3]));
    int in = socket(AF_PACKET, SOCK_RAW, 0), out = socket(AF_PACKET, SOCK_RAW, 0);
    uint8_t *ring = open_ring(in, argv[1]);
    set_option(out, SOL_SOCKET, SO_SNDBUFFORCE, 4 << 20);
    bind_packets(out, argv[2], 0);
    static uint8_t frames[BATCH][SLOT_SIZE];
    static struct iovec parts[BATCH];
    static struct mmsghdr messages[BATCH];
    puts("ready");
    fflush(stdout);
    for (unsigned at = 0;;) {
        unsigned count = 0;
        for (; count < BATCH; count++, at = (at + 1) % SLOTS) {
            struct tpacket2_hdr *slot = (void *)(ring + (size_t)at * SLOT_SIZE);
            if (!is_full(slot))
                break;
            memcpy(frames[count], (uint8_t *)slot + slot->tp_mac, slot->tp_snaplen);
            parts[count] = (struct iovec){frames[count], slot->tp_snaplen};
            messages[count].msg_hdr.msg_iov = &parts[count];
            messages[count].msg_hdr.msg_iovlen = 1;
            give_back(slot);
        }
        for (unsigned done = 0; done < count;) {
            int sent = sendmmsg(out, messages + done, count - done, MSG_DONTWAIT);
            done += sent > 0 ? (unsigned)sent : 1; /* the frame for which the call failed is lost */
        }
    }
}
