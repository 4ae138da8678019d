/* Creation and receive side of a nic: a packet socket (packet(7)) with a TPACKET_V2 ring. */
#include "nic.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A frame that does not fit into a slot arrives complete in the socket's own queue
 * (PACKET_COPY_THRESH). Memory of this queue is allocated as needed. */
enum {
    SLOT_SIZE = 256, /* 66 bytes for the kernel's headers and 190 bytes for the frame */
    FETCH_AHEAD = 2, /* number of slots that are prefetched */
    FETCHED = 192,   /* prefetched bytes of a slot: kernel headers and a 64-byte frame */
    BLOCK_SIZE = 64 * 1024,
    /* the kernel doubles this; about 14,000 frames of 1,500 bytes */
    RECEIVE_QUEUE = 16 * 1024 * 1024,
    SEND_QUEUE = 4 * 1024 * 1024,
    MAC_ADDRESSES = 12,
    VLAN_TAG = 4
};

static int set_option(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value);
}

/* The socket is created without a protocol, so that no frame arrives before the ring exists. */
static int make_ring(struct nic *nic)
{
    struct tpacket_req ring = {
        .tp_block_size = BLOCK_SIZE,
        .tp_block_nr = nic->ring_size / BLOCK_SIZE,
        .tp_frame_size = SLOT_SIZE,
        .tp_frame_nr = nic->slots,
    };
    if (set_option(nic->fd, SOL_PACKET, PACKET_VERSION, TPACKET_V2) ||
        set_option(nic->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1) ||
        set_option(nic->fd, SOL_PACKET, PACKET_COPY_THRESH, 1) ||
        /* at a veth end, take the timestamp during the sender's call, not in the receive path */
        set_option(nic->fd, SOL_SOCKET, SO_TIMESTAMPNS, 1) ||
        set_option(nic->fd, SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_QUEUE) ||
        set_option(nic->fd, SOL_SOCKET, SO_SNDBUFFORCE, SEND_QUEUE) ||
        setsockopt(nic->fd, SOL_PACKET, PACKET_RX_RING, &ring, sizeof ring))
        return -1;
    nic->ring = mmap(NULL, nic->ring_size, PROT_READ | PROT_WRITE, MAP_SHARED, nic->fd, 0);
    return nic->ring == MAP_FAILED ? -1 : 0;
}

static int attach(struct nic *nic, int interface)
{
    struct packet_mreq promiscuous = {.mr_ifindex = interface, .mr_type = PACKET_MR_PROMISC};
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET,
        .sll_protocol = __builtin_bswap16(ETH_P_ALL),
        .sll_ifindex = interface,
    };
    if (setsockopt(nic->fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous))
        return -1;
    return bind(nic->fd, (struct sockaddr *)&address, sizeof address);
}

struct nic *nic_open(const char *interface, unsigned ring_size, struct memory_end *memory,
                     FILE *log)
{
    unsigned index = if_nametoindex(interface);
    struct nic *nic = index ? calloc(1, sizeof *nic) : NULL;
    if (!nic)
        return NULL;
    nic->log = log;
    snprintf(nic->name, sizeof nic->name, "%s", interface);
    for (int i = 0; i < NIC_BATCH; i++) {
        nic->messages[i].msg_hdr.msg_iov = &nic->parts[i];
        nic->messages[i].msg_hdr.msg_iovlen = 1;
    }
    nic->ring_size = ring_size / BLOCK_SIZE * BLOCK_SIZE;
    nic->slots = nic->ring_size / SLOT_SIZE;
    nic->ring = MAP_FAILED;
    nic->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (nic->fd < 0 || make_ring(nic) || attach(nic, (int)index)) {
        int error = errno;
        nic_close(nic);
        errno = error;
        return NULL;
    }
    nic->memory = memory;
    nic->trains = memory ? NULL : trains_open((int)index, interface);
    return nic;
}

void nic_close(struct nic *nic)
{
    trains_close(nic->trains);
    memory_end_close(nic->memory);
    if (nic->ring != MAP_FAILED)
        munmap(nic->ring, nic->ring_size);
    if (nic->fd >= 0)
        close(nic->fd);
    free(nic);
}

void nic_set_train_mtu(struct nic *nic, unsigned mtu)
{
    trains_set_mtu(nic->trains, mtu);
}

struct memory_end *nic_memory_end(const struct nic *nic)
{
    return nic->memory;
}

int nic_fd(const struct nic *nic)
{
    return nic->fd;
}

static struct tpacket2_hdr *slot_header(const struct nic *nic, unsigned slot)
{
    return (struct tpacket2_hdr *)(nic->ring + (size_t)slot * SLOT_SIZE);
}

static bool slot_is_full(const struct tpacket2_hdr *header)
{
    return __atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER;
}

unsigned nic_unread(const struct nic *nic)
{
    unsigned count = 0;
    while (count < nic->slots && slot_is_full(slot_header(nic, (nic->slot + count) % nic->slots)))
        count++;
    return count + (nic->memory ? memory_end_unread(nic->memory) : 0);
}

const char *nic_name(const struct nic *nic)
{
    return nic->name;
}

void nic_tell(const struct nic *nic, const char *what)
{
    fprintf(nic->log, "minip4: %s: %s\n", nic->name, what);
}

void nic_tell_down(struct nic *nic, int error)
{
    if (error == ENETDOWN && !nic->down)
        nic_tell(nic, "the interface went down; frames to it are lost until it is up");
    if (error != ENETDOWN && !nic->gone)
        nic_tell(nic, "the interface is gone; frames for it are lost");
    nic->down = true;
    nic->gone |= error != ENETDOWN;
}

struct nic *nic_reopen(struct nic *old)
{
    struct nic *nic = nic_open(old->name, old->ring_size, old->memory, old->log);
    if (!nic) {
        fprintf(old->log, "minip4: %s: the new interface of this name cannot be used: %s\n", old->name,
                strerror(errno));
        return old;
    }
    nic->counters = *nic_counters(old);
    old->memory = NULL; /* `nic` owns it now */
    nic->sending = old->sending;
    nic->sent = old->sent;
    nic->reported_checksum = old->reported_checksum;
    nic->reported_too_long = old->reported_too_long;
    nic->reported_not_sent = old->reported_not_sent;
    nic_close(old);
    nic_tell(nic, "attached to the new interface of this name");
    return nic;
}

void nic_clear_error(struct nic *nic)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (!getsockopt(nic->fd, SOL_SOCKET, SO_ERROR, &error, &size) && error)
        nic_tell_down(nic, error);
}

const struct nic_counters *nic_counters(struct nic *nic)
{
    struct tpacket_stats statistics; /* reading resets the kernel's counters to 0 */
    socklen_t size = sizeof statistics;
    if (!getsockopt(nic->fd, SOL_PACKET, PACKET_STATISTICS, &statistics, &size))
        nic->counters.receive_kernel_drops += statistics.tp_drops;
    return &nic->counters;
}

/* Receiving */

/* Copy the frame of a slot. Returns its length, a value above PACKET_MAX_FRAME if the frame does
 * not fit, or 0 if the kernel lost the frame. */
static size_t copy_frame(struct nic *nic, const struct tpacket2_hdr *header, struct packet *packet)
{
    if (header->tp_status & TP_STATUS_COPY) {
        ssize_t length = recv(nic->fd, packet->data, PACKET_MAX_FRAME, MSG_DONTWAIT | MSG_TRUNC);
        return length < 0 ? 0 : (size_t)length;
    }
    if (header->tp_snaplen < header->tp_len)
        /* the slot has only the start of the frame, because the socket's queue had no room for the
         * whole frame */
        return 0;
    memcpy(packet->data, (const uint8_t *)header + header->tp_mac, header->tp_snaplen);
    return header->tp_snaplen;
}

/* Insert the outer VLAN tag that the kernel removed from the frame. Uses bytes before the frame. */
static void restore_vlan_tag(const struct tpacket2_hdr *header, struct packet *packet)
{
    uint16_t protocol = header->tp_status & TP_STATUS_VLAN_TPID_VALID ? header->tp_vlan_tpid
                                                                      : ETH_P_8021Q;
    uint16_t tag[] = {__builtin_bswap16(protocol), __builtin_bswap16(header->tp_vlan_tci)};
    memmove(packet->data - VLAN_TAG, packet->data, MAC_ADDRESSES);
    packet->data -= VLAN_TAG;
    packet->length += VLAN_TAG;
    memcpy(packet->data + MAC_ADDRESSES, tag, VLAN_TAG);
}

static void tell_checksum(struct nic *nic)
{
    nic->counters.unfinished_checksums++;
    if (!nic->reported_checksum)
        nic_tell(nic, "received frames have unfinished checksums, which are forwarded unchanged; turn"
                  " off the sender's offload (ethtool -K <its interface> tx off)");
    nic->reported_checksum = true;
}

static void tell_too_long(struct nic *nic)
{
    nic->counters.receive_too_long++;
    if (!nic->reported_too_long)
        nic_tell(nic, "received frames longer than 9216 bytes are dropped; turn off the sender's"
                  " offloads (ethtool -K <its interface> tso off gso off)");
    nic->reported_too_long = true;
}

static uint64_t stamp_of(const struct tpacket2_hdr *header)
{
    return header->tp_sec * UINT64_C(1000000000) + header->tp_nsec;
}

/* Fill the packet from a slot. Returns false if the frame is lost, and counts the loss. */
static bool take_frame(struct nic *nic, const struct tpacket2_hdr *header, struct packet *packet)
{
    size_t length = copy_frame(nic, header, packet);
    bool tagged = header->tp_status & TP_STATUS_VLAN_VALID;
    if (length < MAC_ADDRESSES) {
        nic->counters.receive_kernel_drops++;
        return false;
    }
    if (length + (tagged ? VLAN_TAG : 0) > PACKET_MAX_FRAME) {
        tell_too_long(nic);
        return false;
    }
    packet->length = (uint32_t)length;
    packet->time_ns = stamp_of(header);
    if (tagged)
        restore_vlan_tag(header, packet);
    if (header->tp_status & TP_STATUS_CSUMNOTREADY)
        tell_checksum(nic);
    nic->down = false;
    nic->counters.received_packets++;
    nic->counters.received_bytes += packet->length;
    return true;
}

static void lose_frame(struct nic *nic, const struct tpacket2_hdr *header)
{
    uint8_t byte;
    if (header->tp_status & TP_STATUS_COPY)
        recv(nic->fd, &byte, sizeof byte, MSG_DONTWAIT | MSG_TRUNC);
    nic->counters.receive_memory_drops++;
}

/* Prefetch a slot. The kernel fills slots on the sender's core, so their data is moved to this core
 * while earlier frames are processed. */
static void fetch_slot(const struct nic *nic, unsigned slot)
{
    const char *start = (const char *)slot_header(nic, slot < nic->slots ? slot : slot - nic->slots);
    for (unsigned at = 0; at < FETCHED; at += 64)
        __builtin_prefetch(start + at);
}

static bool peek_slot(const struct nic *nic, uint64_t *stamp_ns)
{
    const struct tpacket2_hdr *header = slot_header(nic, nic->slot);
    bool is_full = slot_is_full(header);
    *stamp_ns = is_full ? stamp_of(header) : UINT64_MAX;
    return is_full;
}

bool nic_peek(const struct nic *nic, uint64_t *stamp_ns)
{
    uint64_t memory_ns;
    bool is_queued = peek_slot(nic, stamp_ns);
    if (!nic->memory || !memory_end_peek(nic->memory, &memory_ns))
        return is_queued;
    *stamp_ns = memory_ns < *stamp_ns ? memory_ns : *stamp_ns;
    return true;
}

/* Receive a frame from the memory link, if it has one that arrived before those in the slots. */
static struct packet *receive_from_memory(struct nic *nic, struct packet_pool *pool)
{
    uint64_t slot_ns, memory_ns;
    while (memory_end_peek(nic->memory, &memory_ns)) {
        if (peek_slot(nic, &slot_ns) && slot_ns < memory_ns)
            return NULL;
        struct packet *packet = packet_take(pool);
        if (!packet) {
            memory_end_receive(nic->memory, NULL);
            nic->counters.receive_memory_drops++;
            continue;
        }
        packet->length = memory_end_receive(nic->memory, packet->data);
        packet->time_ns = memory_ns;
        nic->counters.received_packets++;
        nic->counters.received_bytes += packet->length;
        return packet;
    }
    return NULL;
}

struct packet *nic_receive(struct nic *nic, struct packet_pool *pool)
{
    struct packet *received = nic->memory ? receive_from_memory(nic, pool) : NULL;
    if (received)
        return received;
    for (;;) {
        struct tpacket2_hdr *header = slot_header(nic, nic->slot);
        if (!slot_is_full(header))
            return NULL;
        fetch_slot(nic, nic->slot + FETCH_AHEAD);
        struct packet *packet = packet_take(pool);
        bool good = packet && take_frame(nic, header, packet);
        if (!packet)
            lose_frame(nic, header);
        __atomic_store_n(&header->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        nic->slot = nic->slot + 1 < nic->slots ? nic->slot + 1 : 0;
        if (good)
            return packet;
        if (packet)
            packet_give(pool, packet);
    }
}
