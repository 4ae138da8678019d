/* TCP on virtual hosts: declarations shared by its source files. An end (struct tcp) sends,
 * receives, or both. Positions in a stream are 64-bit offsets: 0 is the SYN, and data start at 1.
 * On the wire they are sequence numbers, namely the initial one (ISN) plus the offset (RFC 9293,
 * 3.4). Congestion windows are counted in whole segments, as in Linux. */
#ifndef MINIP4_TCP_H
#define MINIP4_TCP_H

#include "virtual_internal.h"

enum {
    /* header length and maximum length of options, in bytes */
    TCP_HEADER = 20, TCP_OPTIONS = 40,
    /* bytes in each segment, including padding (RFC 7323) */
    TIMESTAMP_OPTION = 12,
    SACK_BLOCKS = 3,                        /* maximum in a segment with timestamps (RFC 2018) */
    /* for 8-MB receive windows, unless the peer cannot scale */
    WINDOW_SCALE = 7,
    INITIAL_WINDOW = 10,                    /* in segments (RFC 6928) */
    /* number of later segments that must arrive before a segment counts as lost (RFC 5681) */
    DUPLICATES = 3
};

enum tcp_flag { FIN = 1, SYN = 2, RST = 4, PSH = 8, ACK = 16, ECE = 64, CWR = 128 };

/* As in the Linux kernel, so that real and virtual time agree; RFC 6298 recommends at least one
 * second. */
#define MIN_RTO_NS 200000000ull
#define FIRST_RTO_NS 1000000000ull
#define RTO_AFTER_SYN_NS 3000000000ull
#define MAX_RTO_NS 120000000000ull
#define DELAYED_ACK_NS 40000000ull
/* after this time without progress, the flow counts as failed, as in real time */
#define STALL_NS 10000000000ull
#define RECORD_NS 10000000ull
enum { SYN_RETRIES = 3 };
#define NEVER UINT64_MAX

enum tcp_end { OPENS, LISTENS };

enum tcp_state { TCP_CLOSED, TCP_LISTEN, TCP_SYN_SENT, TCP_SYN_RECEIVED, TCP_ESTABLISHED };

/* State of the sender's congestion window: open; reduced because of ECN; reduced in loss recovery;
 * restarted after a timeout. */
enum tcp_recovery { TCP_OPEN, TCP_REDUCES, TCP_RECOVERS, TCP_LOSS };

enum tcp_timer { TIMER_APPLICATION, TIMER_RETRANSMIT, TIMER_PROBE, TIMER_REORDERING, TIMER_ACK, TIMERS };

/* A segment that was sent and is not acknowledged yet. */
struct segment {
    uint64_t begin, sent_ns;
    /* number of this transmission; defines the order of transmissions at the same time */
    uint64_t transmission;
    uint32_t length; /* bytes of sequence space; a SYN or FIN counts 1 */
    bool is_sacked, is_lost;
    bool is_again;   /* the last copy is a retransmission that counts as in flight */
    bool was_again;  /* it was retransmitted, so an acknowledgement may refer to any copy (Karn) */
};

/* A ring whose size is a power of two; segment number i is at index i & (room - 1). */
struct sending {
    struct segment *segment;
    uint64_t first, end;      /* number of the first segment, and number after the last one */
    uint32_t room;
    /* number of segments in each state; a lost segment is not sacked */
    uint32_t sacked, lost, again;
    /* number of duplicate acknowledgements, used if the peer does not support SACK */
    uint32_t duplicates;
    uint32_t snd_wnd;         /* SEG.WND of the last segment, not scaled */
    uint64_t una, next, limit; /* first offset not acknowledged, not sent, not written */
    uint64_t window_end;      /* first offset after the peer's window */
    uint64_t look_at;         /* every lost segment with a lower number has been retransmitted */
    uint64_t highest_sacked;  /* number of the highest sacked segment, plus 1 */
    /* bytes of data per sent segment (SMSS); limit for received segments, including options */
    uint32_t mss, own_mss;
    bool has_fin;             /* offset `limit - 1` is a FIN */
};

/* RFC 8985: the delivered segment that was sent last. */
struct rack {
    uint64_t transmission, rtt_ns;
    uint64_t fack; /* offset of the end of the highest delivered data */
    bool reordering_seen;
};

struct cubic {
    uint64_t epoch_ns, k_ms;
    uint32_t w_max, origin, w_est; /* windows in RFC 9438; `origin` belongs to the current epoch */
    uint32_t counted;                   /* segments acknowledged since the last growth of W_est */
    /* number of acknowledged segments per growth step; the window for which it was computed */
    uint32_t each, looked_at;
    uint64_t looked_ns;
};

struct hystart { /* Variables of HyStart++ (RFC 9406). */
    uint64_t round_end, last_round_min_rtt_ns, current_round_min_rtt_ns, css_baseline_min_rtt_ns;
    /* `css_rounds`: number of rounds of conservative slow start; 0 in other phases */
    uint32_t rtt_sample_count, css_rounds;
};

struct dctcp { /* Variables of DCTCP (RFC 8257); `alpha` is in units of 1/65,536. */
    uint64_t acked, marked, round_end;
    uint32_t alpha;
};

struct congestion {
    uint8_t kind; /* enum virtual_congestion */
    uint32_t cwnd, ssthresh;    /* segments */
    uint32_t counted;           /* segments acknowledged since the last growth of the window */
    uint64_t limited_until;     /* offset; `most` is valid until this offset is acknowledged */
    uint32_t most;              /* maximum number of segments in flight */
    bool is_limited;            /* whether the window limited the last transmission */
    struct cubic cubic;
    struct hystart hystart;
    struct dctcp dctcp;
};

/* Detection of spurious timeouts (RFC 3522). The fields contain the state before the timeout. This
 * state is restored after a spurious timeout (RFC 4015). */
struct eifel {
    bool is_open;          /* the first acknowledgement after the timeout has not arrived yet */
    uint32_t timestamp;    /* RetransmitTS: timestamp of the first retransmission */
    uint32_t flight;       /* segments */
    uint64_t srtt_ns, rttvar_ns;
    struct congestion congestion;
};

struct repair {
    enum tcp_recovery state;
    uint64_t recovery_point; /* offset at which recovery ends (RFC 6675) */
    uint64_t prr_delivered, prr_out, recover_fs; /* in segments (RFC 6937) */
    uint64_t tlp_end_seq;  /* offset; 0 if no tail loss probe is in flight (RFC 8985, 7) */
    bool tlp_is_retrans; /* the probe was a retransmission */
    uint32_t timeouts;   /* consecutive timeouts */
    uint32_t backoff;    /* doublings of the RTO since the last RTT sample (RFC 6298, 5) */
    struct eifel eifel;
};

/* Data received out of order: offsets begin to end - 1. The range that changed last is reported
 * first. */
struct range {
    uint64_t begin, end, touched;
};

struct receiving {
    uint64_t next; /* offset */
    struct range *range; /* in ascending order, not adjacent */
    uint32_t ranges, room;
    uint64_t touched;
    /* duplicate data, reported once (RFC 2883); an empty range means no duplicate data */
    struct range duplicate;
    uint64_t fin;           /* offset of the FIN, or UINT64_MAX if unknown */
    uint32_t waiting;       /* number of bytes received in order and not acknowledged yet */
    uint32_t quick;         /* number of acknowledgements that must not be delayed */
    uint32_t ts_recent;     /* TS.Recent (RFC 7323) */
    uint32_t rcv_wnd;       /* receive window in bytes; it never shrinks */
    bool is_marked;         /* ECN-marked packets arrived; acknowledgements must have ECE */
};

struct connection;

struct tcp {
    struct connection *connection;
    struct node *host;
    struct tcp *next; /* next end with the same hash of the port */
    uint32_t number;  /* 2 * number of the connection; plus 1 for the end that listens */
    uint32_t peer_address;
    const uint8_t *peer_mac;
    uint16_t port, peer_port;
    uint8_t tos, peer_scale, own_scale; /* Snd.Wind.Shift and Rcv.Wind.Shift (RFC 7323, 2.3) */
    bool has_ecn, wants_cwr;
    /* after the handshake: both SYNs offered it; before the handshake: this end offers it */
    bool has_timestamps, has_sack, has_scale;
    enum tcp_state state;
    uint32_t isn, peer_isn;
    uint64_t due_ns[TIMERS], queued_ns;
    uint64_t srtt_ns, rttvar_ns, rto_ns, min_rtt_ns; /* 0 means no sample yet */
    uint64_t progress_ns; /* time of the latest acknowledgement of new data */
    uint64_t timed_ns;    /* start of the retransmission timeout */
    /* last_sent_ns: latest sending time of an acknowledged segment */
    uint64_t last_sent_ns, transmissions;
    uint64_t retransmitted; /* segments */
    struct sending out;
    struct receiving in;
    struct rack rack;
    struct congestion congestion;
    struct repair repair;
};

struct connection {
    struct virtual_tcp_config config;
    struct tcp end[2]; /* the end that opens the connection, and the end that listens */
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

/* Return the number of segments in flight, as far as the sender knows (RFC 6675: pipe; RFC 6582
 * without SACK). */
static inline uint32_t tcp_pipe(const struct sending *out)
{
    return (uint32_t)(out->end - out->first) - out->sacked - out->duplicates - out->lost +
           out->again;
}

/* Return the clock for timestamps (RFC 7323, 4.1), in milliseconds. */
static inline uint32_t tcp_timestamp(const struct tcp *t)
{
    return (uint32_t)(t->host->partition->now_ns / 1000000);
}

/* tcp.c */
void tcp_set(struct tcp *t, enum tcp_timer timer, uint64_t due_ns);
void tcp_fail(struct tcp *t);
/* Handle a reset (RST) by the peer or by a device on the path. */
void tcp_reset(struct tcp *t);
/* Return the end at a host's port that a segment belongs to, or NULL. */
struct tcp *tcp_find(struct virtual *v, uint32_t node, uint16_t port, uint32_t address,
                     uint16_t peer_port);
/* tcp_application.c */
/* Wake the application: it can write, data have arrived, or all data are acknowledged. */
void tcp_application(struct tcp *t);
/* Notify the application that `bytes` arrived in order. */
void tcp_delivered(struct tcp *t, uint64_t bytes);

/* tcp_receiver.c */
/* Receive the data of a segment. The data start at offset `begin`. */
void tcp_take_data(struct tcp *t, uint64_t begin, uint32_t length, bool is_fin);
/* Write the SACK blocks to report, at most SACK_BLOCKS. Returns their number. */
uint32_t tcp_sack_blocks(struct tcp *t, struct range *blocks);

/* tcp_output.c */
void tcp_send_syn(struct tcp *t);
void tcp_send_ack(struct tcp *t);
/* Send a segment without data or options, at the start of the stream. */
void tcp_send_bare(struct tcp *t, uint8_t flags);
/* Send the segments that the windows allow, lost segments first. */
void tcp_send(struct tcp *t);
/* Retransmit a segment now. */
void tcp_send_again(struct tcp *t, struct segment *segment);
/* Send a new segment regardless of the congestion window. Returns false if there is nothing to
 * send. */
bool tcp_send_new(struct tcp *t);

/* tcp_recovery.c */
/* The content of an acknowledgement: all data before `una`, and the SACK blocks. */
struct acknowledgement {
    uint64_t una;
    const struct range *blocks;
    uint32_t count;
    bool is_echoed;    /* the segment has ECE */
    bool is_duplicate; /* as defined in RFC 5681, 2 */
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
/* Reduce the window after an idle period of `silent_ns`, when all data are acknowledged. */
void congestion_idle(struct tcp *t, uint64_t silent_ns);
/* Return the slow start threshold after a loss, or after ECN marks. */
uint32_t congestion_reduced(struct tcp *t, bool is_marked);
void congestion_timed_out(struct tcp *t);
/* Grow the window after `segments` were acknowledged while the window was in use. */
void congestion_grow(struct tcp *t, uint32_t segments);
void congestion_sample(struct tcp *t, uint64_t rtt_ns);
/* Count acknowledged bytes for DCTCP; is_echoed is true if the receiver reported ECN marks. */
void congestion_marks(struct tcp *t, uint64_t bytes, bool is_echoed);

#endif
