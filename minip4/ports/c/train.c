/* Detection and transmission of trains. The kernel's skb_segment() splits a train. For each frame,
 * the kernel sets the IPv4 length, the identification (incremented by 1 per frame), the checksums
 * and the TCP sequence number. */
#include "train.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    /* offset of the IPv4 header; later offsets are relative to the IPv4 or the L4 header */
    IPV4 = 14,
    IPV4_LENGTH = 2,
    IPV4_ID = 4,
    IPV4_FRAGMENT = 6,
    IPV4_PROTOCOL = 9,
    IPV4_CHECKSUM = 10,
    IPV4_SOURCE = 12,
    IPV4_SIZE = 20,
    L4 = IPV4 + IPV4_SIZE,
    UDP_LENGTH = 4,
    UDP_CHECKSUM = 6,
    UDP_SIZE = 8,
    TCP_SEQUENCE = 4,
    TCP_ACKNOWLEDGEMENT = 8,
    TCP_OFFSET = 12,
    TCP_FLAGS = 13,
    TCP_WINDOW = 14,
    TCP_CHECKSUM = 16,
    TCP_URGENT = 18,
    TCP_SIZE = 20,
    FLAGS_ACK = 0x10,
    FLAGS_PUSH = 0x08,
    MAX_BYTES = 65535, /* maximum length of the IPv4 packet of a train */
    GSO_UDP_L4 = 5,    /* defined in the kernel's virtio header, but not on older systems */
    TRAINS_QUEUE = 4 * 1024 * 1024
};

/* Header properties of a frame that may belong to a train. */
struct shape {
    const uint8_t *frame;
    unsigned headers, payload; /* bytes */
};

static unsigned get16(const uint8_t *at)
{
    return (unsigned)at[0] << 8 | at[1];
}

static uint32_t get32(const uint8_t *at)
{
    return (uint32_t)get16(at) << 16 | get16(at + 2);
}

static void put16(uint8_t *at, unsigned value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static bool same(const struct shape *a, const struct shape *b, unsigned offset, unsigned size)
{
    return !memcmp(a->frame + offset, b->frame + offset, size);
}

/* Add 16-bit words as RFC 1071 does, in host byte order, without the final inversion. */
static uint16_t sum_of(const uint8_t *at, size_t size, uint64_t sum)
{
    uint64_t low = 0, high = 0, word = 0;
    for (; size >= sizeof word; at += sizeof word, size -= sizeof word) {
        memcpy(&word, at, sizeof word);
        low += (uint32_t)word;
        high += word >> 32;
    }
    word = 0;
    memcpy(&word, at, size);
    sum += (low & 0xffffffff) + (low >> 32) + (high & 0xffffffff) + (high >> 32);
    sum += (uint32_t)word + (word >> 32);
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

/* Return the sum of the TCP or UDP pseudo-header: addresses, protocol and length. */
static uint64_t pseudo_header(const uint8_t *ip, unsigned size)
{
    return (uint64_t)sum_of(ip + IPV4_SOURCE, 8, 0) + htons(ip[IPV4_PROTOCOL]) + htons((uint16_t)size);
}

/* Return whether the checksums of a frame equal those that the kernel will compute. Otherwise, the
 * frame cannot be in a train. For UDP, the kernel writes a sum of 0 as 0xffff, because 0 means no
 * checksum. */
static bool sums_are_right(const struct shape *shape)
{
    const uint8_t *ip = shape->frame + IPV4, *l4 = shape->frame + L4;
    unsigned size = shape->headers - L4 + shape->payload;
    bool udp = ip[IPV4_PROTOCOL] == IPPROTO_UDP;
    return get16(ip + IPV4_CHECKSUM) != 0xffff &&
           get16(l4 + (udp ? UDP_CHECKSUM : TCP_CHECKSUM)) != (udp ? 0 : 0xffff) &&
           sum_of(ip, IPV4_SIZE, 0) == 0xffff &&
           sum_of(l4, size, pseudo_header(ip, size)) == 0xffff;
}

/* Parse a frame. Returns true for IPv4 without options or fragments, with UDP or TCP, some payload
 * and no padding. */
static bool shape_of(const struct packet *packet, struct shape *shape)
{
    static const uint8_t ipv4[] = {8, 0, 0x45};
    const uint8_t *frame = packet->data, *ip = frame + IPV4;
    if (packet->length <= L4 + UDP_SIZE || memcmp(frame + IPV4 - 2, ipv4, sizeof ipv4) ||
        get16(ip + IPV4_FRAGMENT) & 0xbfff || get16(ip + IPV4_LENGTH) != packet->length - IPV4)
        return false;
    unsigned size = 0;
    if (ip[IPV4_PROTOCOL] == IPPROTO_UDP)
        size = get16(frame + L4 + UDP_LENGTH) == packet->length - L4 ? UDP_SIZE : 0;
    else if (ip[IPV4_PROTOCOL] == IPPROTO_TCP && packet->length > L4 + TCP_SIZE)
        size = (frame[L4 + TCP_OFFSET] >> 4) * 4u;
    if (!size || (size < TCP_SIZE && size != UDP_SIZE) || packet->length <= L4 + size)
        return false;
    *shape = (struct shape){frame, L4 + size, packet->length - L4 - size};
    return true;
}

static bool tcp_follows(const struct shape *first, const struct shape *last, const struct shape *next)
{
    const uint8_t *before = last->frame + L4, *now = next->frame + L4;
    return before[TCP_FLAGS] == FLAGS_ACK && (now[TCP_FLAGS] & ~FLAGS_PUSH) == FLAGS_ACK &&
           get32(now + TCP_SEQUENCE) == get32(before + TCP_SEQUENCE) + last->payload &&
           same(first, next, L4 + TCP_ACKNOWLEDGEMENT, TCP_FLAGS - TCP_ACKNOWLEDGEMENT) &&
           same(first, next, L4 + TCP_WINDOW, TCP_CHECKSUM - TCP_WINDOW) &&
           same(first, next, L4 + TCP_URGENT, first->headers - L4 - TCP_URGENT);
}

/* Return whether segmentation of a train that starts with `first` would produce `next` after
 * `last`. */
static bool follows(const struct shape *first, const struct shape *last, const struct shape *next)
{
    return last->payload == first->payload && next->payload <= first->payload &&
           next->headers == first->headers && same(first, next, 0, IPV4 + IPV4_LENGTH) &&
           same(first, next, IPV4 + IPV4_FRAGMENT, IPV4_CHECKSUM - IPV4_FRAGMENT) &&
           /* also compares the ports */
           same(first, next, IPV4 + IPV4_SOURCE, L4 + 4 - (IPV4 + IPV4_SOURCE)) &&
           (uint16_t)(get16(next->frame + IPV4 + IPV4_ID) - get16(last->frame + IPV4 + IPV4_ID)) == 1 &&
           (first->headers == L4 + UDP_SIZE || tcp_follows(first, last, next));
}

unsigned train_length(struct packet *const *frames, unsigned count)
{
    struct shape first, last, next;
    if (count < 2 || !shape_of(frames[0], &first))
        return 1;
    unsigned length = 1, bytes = first.headers - IPV4 + first.payload;
    if (count > TRAIN_MAX_FRAMES)
        count = TRAIN_MAX_FRAMES;
    for (last = first; length < count; last = next, length++) {
        if (!shape_of(frames[length], &next) || !follows(&first, &last, &next))
            break;
        bytes += next.payload;
        if (bytes > MAX_BYTES || !sums_are_right(&next) || (length == 1 && !sums_are_right(&first)))
            break;
    }
    return length;
}

void train_compose(struct packet *const *frames, unsigned count, struct train_headers *headers,
                   struct iovec *parts)
{
    struct shape first, last;
    shape_of(frames[0], &first);
    shape_of(frames[count - 1], &last);
    unsigned payload = first.payload * (count - 1) + last.payload;
    bool udp = first.headers == L4 + UDP_SIZE;
    uint8_t *ip = headers->bytes + IPV4, *l4 = headers->bytes + L4;
    unsigned size = first.headers - L4 + payload;
    memcpy(headers->bytes, first.frame, first.headers);
    put16(ip + IPV4_LENGTH, IPV4_SIZE + size);
    if (udp)
        put16(l4 + UDP_LENGTH, size);
    else
        /* the kernel sets PSH only in the last segment */
        l4[TCP_FLAGS] = last.frame[L4 + TCP_FLAGS];
    unsigned checksum = udp ? UDP_CHECKSUM : TCP_CHECKSUM;
    /* the kernel computes the checksum of each segment from this sum */
    uint16_t sum = sum_of(l4, 0, pseudo_header(ip, size));
    memcpy(l4 + checksum, &sum, sizeof sum);
    headers->offload = (struct virtio_net_hdr){
        .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
        .gso_type = udp ? GSO_UDP_L4 : VIRTIO_NET_HDR_GSO_TCPV4,
        .hdr_len = (uint16_t)first.headers,
        .gso_size = (uint16_t)first.payload,
        .csum_start = L4,
        .csum_offset = (uint16_t)checksum,
    };
    parts[0] = (struct iovec){headers, sizeof headers->offload + first.headers};
    for (unsigned i = 0; i < count; i++)
        parts[i + 1] = (struct iovec){frames[i]->data + first.headers,
                                      frames[i]->length - first.headers};
}

struct trains {
    int fd;
    unsigned mtu; /* 0 means no trains, because the interface would not segment them */
    bool unknown_udp, unknown_tcp;
};

/* Let the kernel segment trains to a veth. It leaves segmentation to an interface with checksum
 * offload. A veth has no hardware for it, so the peer would receive the whole train. Returns the
 * MTU, or 0 if the interface would not segment trains. */
static unsigned set_up_interface(int fd, const char *name)
{
    struct ethtool_drvinfo driver = {.cmd = ETHTOOL_GDRVINFO};
    struct ethtool_value off = {.cmd = ETHTOOL_STXCSUM}, state = {.cmd = ETHTOOL_GTXCSUM};
    struct ifreq request = {.ifr_data = (char *)&driver};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (!ioctl(fd, SIOCETHTOOL, &request) && !strcmp(driver.driver, "veth")) {
        request.ifr_data = (char *)&off;
        ioctl(fd, SIOCETHTOOL, &request);
    }
    request.ifr_data = (char *)&state;
    if (ioctl(fd, SIOCETHTOOL, &request) || state.data || ioctl(fd, SIOCGIFMTU, &request))
        return 0;
    return (unsigned)request.ifr_mtu;
}

struct trains *trains_open(int interface, const char *name)
{
    const int yes = 1, queue = TRAINS_QUEUE;
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_ifindex = interface};
    struct trains *trains = calloc(1, sizeof *trains);
    if (!trains)
        return NULL;
    trains->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (trains->fd < 0 ||
        setsockopt(trains->fd, SOL_PACKET, PACKET_VNET_HDR, &yes, sizeof yes) ||
        setsockopt(trains->fd, SOL_SOCKET, SO_SNDBUFFORCE, &queue, sizeof queue) ||
        bind(trains->fd, (struct sockaddr *)&address, sizeof address)) {
        trains_close(trains);
        return NULL;
    }
    trains->mtu = set_up_interface(trains->fd, name);
    return trains;
}

void trains_set_mtu(struct trains *trains, unsigned mtu)
{
    if (trains)
        trains->mtu = mtu;
}

void trains_close(struct trains *trains)
{
    if (!trains)
        return;
    if (trains->fd >= 0)
        close(trains->fd);
    free(trains);
}

static bool is_udp(const struct packet *frame)
{
    return frame->data[IPV4 + IPV4_PROTOCOL] == IPPROTO_UDP;
}

unsigned trains_length(const struct trains *trains, struct packet *const *frames, unsigned count)
{
    if (!trains || frames[0]->length > trains->mtu + IPV4)
        return 1;
    unsigned length = train_length(frames, count);
    if (length == 1 || (is_udp(frames[0]) ? trains->unknown_udp : trains->unknown_tcp))
        return 1;
    return length;
}

int trains_send(struct trains *trains, struct packet *const *frames, unsigned count)
{
    struct train_headers headers;
    struct iovec parts[TRAIN_MAX_FRAMES + 1];
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count + 1};
    train_compose(frames, count, &headers, parts);
    if (sendmsg(trains->fd, &message, MSG_DONTWAIT) >= 0)
        return 0;
    if (errno == EINVAL)
        *(is_udp(frames[0]) ? &trains->unknown_udp : &trains->unknown_tcp) = true;
    return errno;
}
