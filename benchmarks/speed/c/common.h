/* Shared by the benchmark programs: packet sockets, the clock, and pinning to a core. */
#ifndef COMMON_H
#define COMMON_H

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline void fail(const char *what)
{
    perror(what);
    exit(2);
}

/* Pins the thread to a core; `core` < 0 means any core. */
static inline void pin(int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (core < 0)
        return;
    CPU_SET((unsigned)core, &set);
    if (sched_setaffinity(0, sizeof set, &set))
        fail("sched_setaffinity");
}

static inline void set_option(int fd, int level, int option, int value)
{
    if (setsockopt(fd, level, option, &value, sizeof value))
        fail("setsockopt");
}

/* Binds a socket to an interface. The socket gets frames of `protocol`: ETH_P_ALL means all frames,
 * and 0 means no frames. */
static inline void bind_packets(int fd, const char *interface, uint16_t protocol)
{
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(protocol),
                                  .sll_ifindex = (int)if_nametoindex(interface)};
    if (!address.sll_ifindex || bind(fd, (struct sockaddr *)&address, sizeof address))
        fail(interface);
}

enum { SLOT_SIZE = 2048, SLOTS = 8192, RING_SIZE = SLOT_SIZE * SLOTS };

/* Opens a TPACKET_V2 ring for frames that arrive at the interface. */
static inline uint8_t *open_ring(int fd, const char *interface)
{
    struct tpacket_req ring = {.tp_block_size = 65536, .tp_block_nr = RING_SIZE / 65536,
                               .tp_frame_size = SLOT_SIZE, .tp_frame_nr = SLOTS};
    set_option(fd, SOL_PACKET, PACKET_VERSION, TPACKET_V2);
    set_option(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
    if (setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &ring, sizeof ring))
        fail("PACKET_RX_RING");
    uint8_t *slots = mmap(NULL, RING_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (slots == MAP_FAILED)
        fail("mmap");
    bind_packets(fd, interface, ETH_P_ALL);
    return slots;
}

/* Returns whether the slot contains a frame that is not yet processed. */
static inline int is_full(const struct tpacket2_hdr *slot)
{
    return (int)(__atomic_load_n(&slot->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER);
}

static inline void give_back(struct tpacket2_hdr *slot)
{
    __atomic_store_n(&slot->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
}

#endif
