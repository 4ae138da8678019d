/* Takes what waits in a socket of an application, many at once: Python has no recvmmsg(). */
#define _GNU_SOURCE
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "arrival.h"
#include "flow.h"

enum {
    CONTROL_ROOM = 128,
    MAC_ADDRESSES = 12, /* bytes of the two, before which a VLAN tag goes */
    VLAN_TAG = 4,
    FRAME_ROOM = 9216 + VLAN_TAG,
    MOST = 256 /* at once */
};

/* What the kernel says beside a datagram or a frame. */
struct beside {
    uint64_t realtime_ns; /* when it came */
    uint8_t tos;
    uint8_t tag[VLAN_TAG];
    bool is_tagged; /* the kernel took an outer VLAN tag out of the frame */
};

int arrivals_most(void)
{
    return MOST;
}

int arrivals_bytes(void)
{
    return MOST * FRAME_ROOM;
}

static void read_tag(const struct tpacket_auxdata *auxiliary, struct beside *beside)
{
    uint16_t protocol = auxiliary->tp_status & TP_STATUS_VLAN_TPID_VALID ? auxiliary->tp_vlan_tpid
                                                                         : 0x8100;
    uint16_t tag[2] = {htobe16(protocol), htobe16(auxiliary->tp_vlan_tci)};

    beside->is_tagged = auxiliary->tp_status & TP_STATUS_VLAN_VALID;
    memcpy(beside->tag, tag, sizeof tag);
}

static struct beside read_control(struct msghdr *message)
{
    struct beside beside = {0};

    for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at; at = CMSG_NXTHDR(message, at)) {
        if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec stamp;

            memcpy(&stamp, CMSG_DATA(at), sizeof stamp);
            beside.realtime_ns = (uint64_t)stamp.tv_sec * 1000000000u + (uint64_t)stamp.tv_nsec;
        } else if (at->cmsg_level == SOL_PACKET && at->cmsg_type == PACKET_AUXDATA) {
            struct tpacket_auxdata auxiliary;

            memcpy(&auxiliary, CMSG_DATA(at), sizeof auxiliary);
            read_tag(&auxiliary, &beside);
        } else if (at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_TOS) {
            beside.tos = *CMSG_DATA(at);
        }
    }
    return beside;
}

/* Puts the bytes of one at `to`, which is not behind them; returns how many. */
static uint32_t keep(uint8_t *to, const struct mmsghdr *message, const struct beside *beside)
{
    const uint8_t *from = message->msg_hdr.msg_iov->iov_base;
    uint32_t length = message->msg_len;

    if (!beside->is_tagged || length < MAC_ADDRESSES) {
        memmove(to, from, length);
        return length;
    }
    memmove(to, from, MAC_ADDRESSES);
    memcpy(to + MAC_ADDRESSES, beside->tag, VLAN_TAG); /* there is room for it before each frame */
    memmove(to + MAC_ADDRESSES + VLAN_TAG, from + MAC_ADDRESSES, length - MAC_ADDRESSES);
    return length + VLAN_TAG;
}

/* Takes up to arrivals_most() of them: a record for each, and all their bytes one after the other, in
 * room for arrivals_bytes(). Returns how many; 0: none waits; -errno. */
int arrivals_take(int fd, struct arrival_record *records, uint8_t *bytes)
{
    static uint8_t controls[MOST][CONTROL_ROOM];
    static union {
        struct sockaddr_in in;
        struct sockaddr_ll packet;
    } names[MOST];
    static struct mmsghdr messages[MOST];
    static struct iovec vectors[MOST];
    uint8_t *next = bytes;
    uint64_t offset_ns;
    int number;

    for (int i = 0; i < MOST; i++) {
        vectors[i] = (struct iovec){bytes + i * FRAME_ROOM + VLAN_TAG, FRAME_ROOM - VLAN_TAG};
        messages[i].msg_hdr = (struct msghdr){
            .msg_name = &names[i], .msg_namelen = sizeof names[i], .msg_iov = &vectors[i],
            .msg_iovlen = 1, .msg_control = controls[i], .msg_controllen = CONTROL_ROOM};
    }
    number = recvmmsg(fd, messages, MOST, MSG_DONTWAIT, NULL);
    if (number < 0) /* an interface that is down has nothing, until it is up again */
        return errno == EAGAIN || errno == EINTR || errno == ENETDOWN ? 0 : -errno;
    offset_ns = wall_clock_offset_ns(); /* each time: the wall clock may be adjusted */
    for (int i = 0; i < number; i++) {
        struct beside beside = read_control(&messages[i].msg_hdr);
        bool is_datagram = names[i].in.sin_family == AF_INET;

        records[i] = (struct arrival_record){.time_ns = beside.realtime_ns - offset_ns};
        records[i].address = is_datagram ? names[i].in.sin_addr.s_addr : 0;
        records[i].port = is_datagram ? names[i].in.sin_port : 0;
        records[i].tos = beside.tos;
        records[i].length = keep(next, &messages[i], &beside);
        next += records[i].length;
    }
    return number;
}
