/* Responder on a packet socket. The socket has a mapped ring (packet(7), TPACKET_V2). */
#define _GNU_SOURCE
#include "raw_socket.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "nic_internal.h"

enum { SLOTS = 4096, SMALLEST_SLOT = 2048, BATCH = 64, NAP_NS = 50000 };

struct roce_socket {
    struct roce_nic *nic;
    int socket;
    uint8_t *ring;
    /* a power of 2; with small slots, a larger part of the ring fits into the CPU caches */
    uint32_t slot_bytes;
    uint32_t head;
    struct roce_reply replies[BATCH];
    struct iovec parts[BATCH];
    struct mmsghdr messages[BATCH];
};

static size_t ring_bytes(const struct roce_socket *sock)
{
    return (size_t)sock->slot_bytes * SLOTS;
}

/* A slot must have room for the kernel's header and for the largest frame of the interface. */
static int choose_slots(struct roce_socket *sock, const char *interface)
{
    struct ifreq request = {0};

    strncpy(request.ifr_name, interface, sizeof request.ifr_name - 1);
    if (ioctl(sock->socket, SIOCGIFMTU, &request))
        return -1;
    sock->slot_bytes = SMALLEST_SLOT;
    while (sock->slot_bytes < (uint32_t)request.ifr_mtu + ETHERNET + TPACKET2_HDRLEN + 16)
        sock->slot_bytes *= 2;
    return 0;
}

static int bind_ring(struct roce_socket *sock, const char *interface)
{
    struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_protocol = __builtin_bswap16(ETH_P_ALL)};
    struct tpacket_req request = {.tp_frame_nr = SLOTS};
    int version = TPACKET_V2, yes = 1;

    to.sll_ifindex = (int)if_nametoindex(interface);
    if (!to.sll_ifindex || choose_slots(sock, interface))
        return -1;
    request.tp_frame_size = sock->slot_bytes;
    request.tp_block_size = BATCH * sock->slot_bytes;
    request.tp_block_nr = SLOTS / BATCH;
    if (setsockopt(sock->socket, SOL_PACKET, PACKET_VERSION, &version, sizeof version) ||
        setsockopt(sock->socket, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof yes) ||
        setsockopt(sock->socket, SOL_PACKET, PACKET_RX_RING, &request, sizeof request))
        return -1;
    sock->ring = mmap(NULL, ring_bytes(sock), PROT_READ | PROT_WRITE, MAP_SHARED, sock->socket, 0);
    if (sock->ring == MAP_FAILED)
        return -1;
    return bind(sock->socket, (const struct sockaddr *)&to, sizeof to);
}

struct roce_socket *roce_socket_open(struct roce_nic *nic, const char *interface)
{
    struct roce_socket *sock = calloc(1, sizeof *sock);
    int error;

    if (!sock)
        return NULL;
    sock->nic = nic;
    sock->ring = MAP_FAILED;
    sock->socket = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (sock->socket >= 0 && !bind_ring(sock, interface))
        return sock;
    error = errno;
    roce_socket_close(sock);
    errno = error;
    return NULL;
}

void roce_socket_close(struct roce_socket *sock)
{
    if (sock->ring != MAP_FAILED)
        munmap(sock->ring, ring_bytes(sock));
    if (sock->socket >= 0)
        close(sock->socket);
    free(sock);
}

static struct tpacket2_hdr *slot(const struct roce_socket *sock)
{
    return (void *)(sock->ring + (size_t)(sock->head % SLOTS) * sock->slot_bytes);
}

static bool is_filled(const struct roce_socket *sock)
{
    return __atomic_load_n(&slot(sock)->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER;
}

/* Processes one frame from the ring. The kernel removes VLAN tags. The responder rejects frames
 * that had a tag, and counts them as empty frames. */
static bool take_slot(struct roce_socket *sock, uint64_t now_ns, struct roce_reply *reply)
{
    struct tpacket2_hdr *header = slot(sock);

    reply->length = 0;
    receive_frame(sock->nic, (const uint8_t *)header + header->tp_mac,
                  header->tp_status & TP_STATUS_VLAN_VALID ? 0 : header->tp_snaplen, now_ns, reply);
    __atomic_store_n(&header->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    sock->head++;
    return reply->length;
}

struct batch {
    uint32_t taken, answered;
    bool is_reported; /* whether completions or management frames are waiting */
};

static struct batch take_batch(struct roce_socket *sock)
{
    struct batch batch = {0};
    uint64_t before;
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    pthread_mutex_lock(&sock->nic->lock);
    before = sock->nic->completions_put + sock->nic->managed_put;
    for (; batch.taken < BATCH && is_filled(sock); batch.taken++)
        batch.answered += take_slot(
            sock, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
            &sock->replies[batch.answered]);
    batch.is_reported = sock->nic->completions_put + sock->nic->managed_put != before;
    pthread_mutex_unlock(&sock->nic->lock);
    return batch;
}

static int send_replies(struct roce_socket *sock, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        sock->parts[i] = (struct iovec){sock->replies[i].frame, sock->replies[i].length};
        sock->messages[i].msg_hdr = (struct msghdr){.msg_iov = &sock->parts[i], .msg_iovlen = 1};
    }
    for (uint32_t sent = 0; sent < count;) {
        int done = sendmmsg(sock->socket, sock->messages + sent, count - sent, 0);

        if (done > 0)
            sent += (uint32_t)done;
        else if (errno == ENOBUFS) /* this response is lost, but peers resend their requests */
            sent++;
        else if (errno != EINTR)
            return errno;
    }
    return 0;
}

/* Returns 0 if the interface delivers frames. Otherwise returns an errno, e.g. if the interface is
 * down. */
static int socket_error(const struct roce_socket *sock)
{
    int error = 0;
    socklen_t size = sizeof error;

    getsockopt(sock->socket, SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
}

/* Waits until frames may have arrived, or until `stop` is readable. If frames arrived recently, it
 * first sleeps for a short time, so that one wakeup handles several frames (like interrupt
 * moderation of NICs). If a frame causes a wakeup, its sender needs many times more CPU time for
 * the wakeup than for the frame. */
static int await_frames(const struct roce_socket *sock, int stop, bool some_came, bool *is_over)
{
    struct pollfd waiting[] = {{stop, POLLIN, 0}, {sock->socket, POLLIN, 0}};
    struct timespec nap = {.tv_nsec = is_filled(sock) ? 0 : NAP_NS};

    if (ppoll(waiting, some_came ? 1 : 2, some_came ? &nap : NULL, NULL) < 0 && errno != EINTR)
        return errno;
    *is_over = waiting[0].revents;
    return waiting[1].revents & POLLERR ? socket_error(sock) : 0;
}

int roce_socket_run(struct roce_socket *sock, int stop, int wake)
{
    bool is_over = false;
    int error = 0;

    while (!error && !is_over) {
        struct batch batch = take_batch(sock);
        uint64_t one = 1;

        error = send_replies(sock, batch.answered);
        if (!error && batch.is_reported && write(wake, &one, sizeof one) < 0)
            error = errno;
        if (!error)
            error = await_frames(sock, stop, batch.taken, &is_over);
    }
    return error;
}

int roce_socket_send(struct roce_socket *sock, const uint8_t *frame, uint32_t length)
{
    return send(sock->socket, frame, length, 0) < 0 ? errno : 0;
}

uint64_t roce_socket_drops(struct roce_socket *sock)
{
    struct tpacket_stats found = {0};
    socklen_t size = sizeof found;

    getsockopt(sock->socket, SOL_PACKET, PACKET_STATISTICS, &found, &size);
    return found.tp_drops;
}
