/* TCP at the virtual hosts: what its source files share. An end (struct tcp) sends, receives, or both.
 * Positions in a stream are 64-bit offsets: 0 is the SYN's, data begin at 1; on the wire they are
 * sequence numbers, the initial one (ISN) plus the offset (RFC 9293, 3.4). Congestion windows are
 * whole segments, as in Linux. */
#ifndef MINIP4_TCP_H
#define MINIP4_TCP_H

#include "virtual_internal.h"

enum {
    TCP_HEADER = 20, TCP_OPTIONS = 40,      /* bytes; of options at most */
    TIMESTAMP_OPTION = 12,                  /* bytes in each segment, padding included (RFC 7323) */
    SACK_BLOCKS = 3,                        /* that fit beside timestamps (RFC 2018) */
    WINDOW_SCALE = 7,                       /* of receive windows: 8 MB, unless the peer cannot scale */
    INITIAL_WINDOW = 10,                    /* segments (RFC 6928) */
    DUPLICATES = 3                          /* segments that came, after which one is lost (RFC 5681) */
};

enum tcp_flag { FIN = 1, SYN = 2, RST = 4, PSH = 8, ACK = 16, ECE = 64, CWR = 128 };

/* As in the kernel, so that real and virtual time agree; RFC 6298 has at least one second. */
#define MIN_RTO_NS 200000000ull
#define FIRST_RTO_NS 1000000000ull
#define RTO_AFTER_SYN_NS 3000000000ull
#define MAX_RTO_NS 120000000000ull
#define DELAYED_ACK_NS 40000000ull
#define STALL_NS 10000000000ull    /* without progress: the flow has failed, as in real time */
#define RECORD_NS 10000000ull
enum { SYN_RETRIES = 3 };
#define NEVER UINT64_MAX

enum tcp_end { OPENS, LISTENS };

enum tcp_state { TCP_CLOSED, TCP_LISTEN, TCP_SYN_SENT, TCP_SYN_RECEIVED, TCP_ESTABLISHED };

/* What the sender does about its window: nothing; it reduces it for ECN; it repairs losses; it begins
 * again after a timeout. */
enum tcp_recovery { TCP_OPEN, TCP_REDUCES, TCP_RECOVERS, TCP_LOSS };

enum tcp_timer { TIMER_APPLICATION, TIMER_RETRANSMIT, TIMER_PROBE, TIMER_REORDERING, TIMER_ACK, TIMERS };

/* Sent and not acknowledged. */
struct segment {
    uint64_t begin, sent_ns;
    uint64_t transmission; /* its number, of all: here many are sent at the same time */
    uint32_t length; /* in the stream: a SYN or FIN is 1 */
    bool is_sacked, is_lost;
    bool is_again;   /* its last copy is a retransmission, which is on its way as far as is known */
    bool was_again;  /* some copy was: whose acknowledgement comes is not known (Karn) */
};

/* A ring of a power of two; segment number i lies at i & (room - 1). */
struct sending {
    struct segment *segment;
    uint64_t first, end;      /* numbers */
    uint32_t room;
    uint32_t sacked, lost, again; /* segments that are; a lost one is not sacked */
    uint32_t duplicates;      /* acknowledgements that came twice, where no SACK tells what came */
    uint32_t snd_wnd;         /* as the last segment had it, not scaled */
    uint64_t una, next, limit; /* offsets: not acknowledged, not sent, not written */
    uint64_t window_end;      /* offset that the peer allows */
    uint64_t look_at;         /* number before which no lost segment waits for its repetition */
    uint64_t highest_sacked;  /* number after that segment */
    uint32_t mss, own_mss;    /* bytes of data in a segment; what it can take itself, with options */
    bool has_fin;             /* the offset `limit - 1` is that of a FIN */
};

/* RFC 8985: the segment sent last of those that have come. */
struct rack {
    uint64_t transmission, rtt_ns;
    uint64_t fack; /* offset: the end of the furthest that has come */
    bool reordering_seen;
};

struct cubic {
    uint64_t epoch_ns, k_ms;
    uint32_t w_max, origin, w_est; /* windows: RFC 9438; the origin is that of this epoch */
    uint32_t counted;                   /* segments acknowledged since W_est last grew */
    uint32_t each, looked_at;           /* segments that a step takes; the window for which that is */
    uint64_t looked_ns;
};

struct hystart { /* RFC 9406 */
    uint64_t round_end, last_round_min_rtt_ns, current_round_min_rtt_ns, css_baseline_min_rtt_ns;
    uint32_t rtt_sample_count, css_rounds; /* rounds of conservative slow start; 0: not in it */
};

struct dctcp { /* RFC 8257; `alpha` of 65,536 */
    uint64_t acked, marked, round_end;
    uint32_t alpha;
};

struct congestion {
    uint8_t kind; /* enum virtual_congestion */
    uint32_t cwnd, ssthresh;    /* segments */
    uint32_t counted;           /* segments acknowledged since the window last grew */
    uint64_t limited_until;     /* offset: until it is acknowledged `most` holds */
    uint32_t most;              /* segments on their way at once */
    bool is_limited;            /* by the window, when last something was sent */
    struct cubic cubic;
    struct hystart hystart;
    struct dctcp dctcp;
};

/* Whether a timeout was spurious: RFC 3522. What there was before it: RFC 4015. */
struct eifel {
    bool is_open;          /* the first acknowledgement after it will tell */
    uint32_t timestamp;    /* RetransmitTS: that of the first retransmission */
    uint32_t flight;       /* segments */
    uint64_t srtt_ns, rttvar_ns;
    struct congestion congestion;
};

struct repair {
    enum tcp_recovery state;
    uint64_t recovery_point; /* offset with which it ends (RFC 6675) */
    uint64_t prr_delivered, prr_out, recover_fs; /* segments (RFC 6937) */
    uint64_t tlp_end_seq;  /* offset; 0: no tail loss probe is out (RFC 8985, 7) */
    bool tlp_is_retrans; /* it was a retransmission */
    uint32_t timeouts;   /* one after the other */
    uint32_t backoff;    /* times that the RTO is doubled, until there is a sample (RFC 6298, 5) */
    struct eifel eifel;
};

/* Came out of order: from..end - 1; the last touched is reported first. */
struct range {
    uint64_t begin, end, touched;
};

struct receiving {
    uint64_t next; /* offset */
    struct range *range; /* ascending, apart */
    uint32_t ranges, room;
    uint64_t touched;
    struct range duplicate; /* to be reported once (RFC 2883); empty: none */
    uint64_t fin;           /* the offset of the FIN; UINT64_MAX: not known */
    uint32_t waiting;       /* bytes that came in order and are not acknowledged yet */
    uint32_t quick;         /* acknowledgements that are not delayed */
    uint32_t ts_recent;     /* TS.Recent (RFC 7323) */
    uint32_t rcv_wnd;       /* bytes, always the whole window */
    bool is_marked;         /* marked packets (ECN) were received; echo this to the sender */
};

struct connection;

struct tcp {
    struct connection *connection;
    struct node *host;
    struct tcp *next; /* of those whose port has the same hash */
    uint32_t number;  /* twice the connection's, + 1 for the end that listens */
    uint32_t peer_address;
    const uint8_t *peer_mac;
    uint16_t port, peer_port;
    uint8_t tos, peer_scale, own_scale; /* Snd.Wind.Shift, Rcv.Wind.Shift (RFC 7323, 2.3) */
    bool has_ecn, wants_cwr;
    bool has_timestamps, has_sack, has_scale; /* both SYNs offer it; before: this end does */
    enum tcp_state state;
    uint32_t isn, peer_isn;
    uint64_t due_ns[TIMERS], queued_ns;
    uint64_t srtt_ns, rttvar_ns, rto_ns, min_rtt_ns; /* 0: none yet */
    uint64_t progress_ns; /* when something was last acknowledged */
    uint64_t timed_ns;    /* from when on the retransmission timeout counts */
    uint64_t last_sent_ns, transmissions; /* of segments that are acknowledged */
    uint64_t retransmitted; /* segments */
    struct sending out;
    struct receiving in;
    struct rack rack;
    struct congestion congestion;
    struct repair repair;
};

struct connection {
    struct virtual_tcp_config config;
    struct tcp end[2]; /* the one that opens, and the one that listens */
    struct virtual_tcp_result result;
    struct virtual_tcp_progress *progress;
    struct virtual_tcp_received *received;
    struct virtual_tcp_answer *answers;
    uint32_t progress_room, received_room, answers_room;
    uint32_t asked; /* requests */
    uint64_t next_record_ns, next_ask_ns;
};

static inline struct segment *segment_at(const struct sending *out, uint64_t number)
{
    return &out->segment[number & (out->room - 1)];
}

/* Segments on their way, as far as is known (RFC 6675: pipe; RFC 6582 without SACK). */
static inline uint32_t tcp_pipe(const struct sending *out)
{
    return (uint32_t)(out->end - out->first) - out->sacked - out->duplicates - out->lost +
           out->again;
}

/* The clock of timestamps (RFC 7323, 4.1): milliseconds. */
static inline uint32_t tcp_timestamp(const struct tcp *t)
{
    return (uint32_t)(t->host->partition->now_ns / 1000000);
}

/* tcp.c */
void tcp_set(struct tcp *t, enum tcp_timer timer, uint64_t due_ns);
void tcp_fail(struct tcp *t);
/* The peer, or a device on the path, has reset the connection (RST). */
void tcp_reset(struct tcp *t);
/* The end at a host's port that a segment is for; NULL: none. */
struct tcp *tcp_find(struct virtual *v, uint32_t node, uint16_t port, uint32_t address,
                     uint16_t peer_port);
/* tcp_application.c */
/* The application goes on: it has room to write, something came, or all was acknowledged. */
void tcp_application(struct tcp *t);
/* `bytes` came in order. */
void tcp_delivered(struct tcp *t, uint64_t bytes);

/* tcp_receiver.c */
/* Takes the data of a segment, which begin at an offset, in. */
void tcp_take_data(struct tcp *t, uint64_t begin, uint32_t length, bool is_fin);
/* Writes what is to be reported, SACK_BLOCKS at most; returns how many. */
uint32_t tcp_sack_blocks(struct tcp *t, struct range *blocks);

/* tcp_output.c */
void tcp_send_syn(struct tcp *t);
void tcp_send_ack(struct tcp *t);
/* Sends a segment without data or options, at the stream's beginning. */
void tcp_send_bare(struct tcp *t, uint8_t flags);
/* Sends what windows allow, what is lost first. */
void tcp_send(struct tcp *t);
/* Sends a segment again, now. */
void tcp_send_again(struct tcp *t, struct segment *segment);
/* Sends a new segment in spite of the congestion window; false: there is nothing to send. */
bool tcp_send_new(struct tcp *t);

/* tcp_recovery.c */
/* What a segment acknowledges: all before `una`, and what the blocks say. */
struct acknowledgement {
    uint64_t una;
    const struct range *blocks;
    uint32_t count;
    bool is_echoed;    /* it has ECE */
    bool is_duplicate; /* RFC 5681, 2 */
    bool has_timestamp;
    uint32_t echoed;   /* TSecr */
};

void tcp_take_ack(struct tcp *t, const struct acknowledgement *ack);
void tcp_arm(struct tcp *t);
void tcp_on_timeout(struct tcp *t);
void tcp_on_probe(struct tcp *t);
void tcp_on_reordering(struct tcp *t);

/* tcp_congestion.c */
void congestion_begin(struct tcp *t);
/* Nothing was sent for so long, and all is acknowledged. */
void congestion_idle(struct tcp *t, uint64_t silent_ns);
/* The threshold after a loss, or after marks (ECN). */
uint32_t congestion_reduced(struct tcp *t, bool is_marked);
void congestion_timed_out(struct tcp *t);
/* So many segments were acknowledged while the window was in use. */
void congestion_grow(struct tcp *t, uint32_t segments);
void congestion_sample(struct tcp *t, uint64_t rtt_ns);
/* So many bytes were acknowledged, the receiver telling of marks or not (DCTCP). */
void congestion_marks(struct tcp *t, uint64_t bytes, bool is_echoed);

#endif
