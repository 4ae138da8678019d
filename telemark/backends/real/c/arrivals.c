/* Receives the packets of an application's socket in batches. Written in C, because Python has no
 * recvmmsg(). */
#define _GNU_SOURCE
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "arrival.h"
#include "flow.h"

enum {
    CONTROL_ROOM = 128,
    MAC_ADDRESSES = 12, /* length of both MAC addresses; the VLAN tag follows them */
    VLAN_TAG = 4,
    FRAME_ROOM = 9216 + VLAN_TAG,
    MAX_BATCH = 256
};

/* Control data of a datagram or frame. */
struct control {
    uint64_t realtime_ns; /* receive timestamp */
    uint8_t tos;
    uint8_t ttl;
    uint8_t tag[VLAN_TAG];
    bool is_tagged; /* whether the kernel removed an outer VLAN tag */
};

int arrivals_max_batch(void)
{
    return MAX_BATCH;
}

int arrivals_bytes(void)
{
    return MAX_BATCH * FRAME_ROOM;
}

static void read_tag(const struct tpacket_auxdata *auxiliary, struct control *control)
{
    uint16_t protocol = auxiliary->tp_status & TP_STATUS_VLAN_TPID_VALID ? auxiliary->tp_vlan_tpid
                                                                         : 0x8100;
    uint16_t tag[2] = {htobe16(protocol), htobe16(auxiliary->tp_vlan_tci)};

    control->is_tagged = auxiliary->tp_status & TP_STATUS_VLAN_VALID;
    memcpy(control->tag, tag, sizeof tag);
}

static struct control read_control(struct msghdr *message)
{
    struct control control = {0};

    for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at; at = CMSG_NXTHDR(message, at)) {
        if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec stamp;

            memcpy(&stamp, CMSG_DATA(at), sizeof stamp);
            control.realtime_ns = (uint64_t)stamp.tv_sec * 1000000000u + (uint64_t)stamp.tv_nsec;
        } else if (at->cmsg_level == SOL_PACKET && at->cmsg_type == PACKET_AUXDATA) {
            struct tpacket_auxdata auxiliary;

            memcpy(&auxiliary, CMSG_DATA(at), sizeof auxiliary);
            read_tag(&auxiliary, &control);
        } else if (at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_TOS) {
            control.tos = *CMSG_DATA(at);
        } else if (at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_TTL) {
            int ttl;

            memcpy(&ttl, CMSG_DATA(at), sizeof ttl);
            control.ttl = (uint8_t)ttl;
        }
    }
    return control;
}

/* Copies a frame to `to` and inserts its VLAN tag; returns the new length. `to` must not be a
 * higher address than that of the frame. */
static uint32_t copy(uint8_t *to, const struct mmsghdr *message, const struct control *control)
{
    const uint8_t *from = message->msg_hdr.msg_iov->iov_base;
    uint32_t length = message->msg_len;

    if (!control->is_tagged || length < MAC_ADDRESSES) {
        memmove(to, from, length);
        return length;
    }
    memmove(to, from, MAC_ADDRESSES);
    /* the buffer has room for a VLAN tag before each frame */
    memcpy(to + MAC_ADDRESSES, control->tag, VLAN_TAG);
    memmove(to + MAC_ADDRESSES + VLAN_TAG, from + MAC_ADDRESSES, length - MAC_ADDRESSES);
    return length + VLAN_TAG;
}

/* Receives up to arrivals_max_batch() packets. Writes one record per packet, and the concatenated
 * bytes of all packets (at most arrivals_bytes()). Returns the number of packets, or -errno. */
int arrivals_take(int fd, struct arrival_record *records, uint8_t *bytes)
{
    static uint8_t controls[MAX_BATCH][CONTROL_ROOM];
    static union {
        struct sockaddr_in in;
        struct sockaddr_ll packet;
    } names[MAX_BATCH];
    static struct mmsghdr messages[MAX_BATCH];
    static struct iovec vectors[MAX_BATCH];
    uint8_t *next = bytes;
    uint64_t offset_ns;
    int number;

    for (int i = 0; i < MAX_BATCH; i++) {
        vectors[i] = (struct iovec){bytes + i * FRAME_ROOM + VLAN_TAG, FRAME_ROOM - VLAN_TAG};
        messages[i].msg_hdr = (struct msghdr){
            .msg_name = &names[i], .msg_namelen = sizeof names[i], .msg_iov = &vectors[i],
            .msg_iovlen = 1, .msg_control = controls[i], .msg_controllen = CONTROL_ROOM};
    }
    number = recvmmsg(fd, messages, MAX_BATCH, MSG_DONTWAIT, NULL);
    if (number < 0) /* with ENETDOWN, the interface is down, but may come up again */
        return errno == EAGAIN || errno == EINTR || errno == ENETDOWN ? 0 : -errno;
    /* read the offset for each batch, because the system may adjust the wall clock */
    offset_ns = wall_clock_offset_ns();
    for (int i = 0; i < number; i++) {
        struct control control = read_control(&messages[i].msg_hdr);
        bool is_datagram = names[i].in.sin_family == AF_INET;

        records[i] = (struct arrival_record){.time_ns = control.realtime_ns - offset_ns};
        records[i].address = is_datagram ? names[i].in.sin_addr.s_addr : 0;
        records[i].port = is_datagram ? names[i].in.sin_port : 0;
        records[i].tos = control.tos;
        records[i].ttl = control.ttl;
        records[i].length = copy(next, &messages[i], &control);
        next += records[i].length;
    }
    return number;
}
