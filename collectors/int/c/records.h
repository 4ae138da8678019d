/* What decoding leaves: a record for each datagram, report and hop. Numbers are the machine's.
 *
 * "TR" is the Telemetry Report Format Specification, "INT" the INT Dataplane Specification, both of
 * p4lang/p4-applications: versions 2.0 and 2.1, or 1.0 where that is said. */
#ifndef COLLECTORS_INT_RECORDS_H
#define COLLECTORS_INT_RECORDS_H

#include <stdint.h>

/* Why something could not be read. */
enum parse_status {
    PARSE_NONE,
    /* of a datagram: what is left of it is not read */
    PARSE_GROUP_HEADER,  /* it has no room for one */
    PARSE_VERSION,       /* neither 1 nor 2 */
    PARSE_NO_REPORT,     /* only a group header */
    PARSE_REPORT_LENGTH, /* a report runs past the end */
    PARSE_TRAILING,      /* bytes after the last report, too few for another */
    /* of a report: it is skipped */
    PARSE_REPORT_TYPE,     /* IOAM, which has no format yet, or reserved */
    PARSE_METADATA_LENGTH, /* MD Length runs past the report, or contradicts the bitmaps */
    /* of what a report has within: its metadata stand */
    PARSE_INNER_TYPE, /* reserved */
    PARSE_TLV_LENGTH, /* a TLV runs past the report */
    PARSE_PACKET_CUT, /* before the ports, which are 0 then */
    PARSE_IP_HEADER,  /* its version or its length is none */
    /* of the INT header within */
    PARSE_SHIM,        /* its type is neither MD nor MX, or its NPT does not fit */
    PARSE_INT_VERSION, /* of the header */
    PARSE_INT_LENGTH,  /* of the shim: no room for a header */
    PARSE_HOP_LENGTH,  /* Hop ML is not what the bitmap asks for */
    PARSE_STACK,       /* not a whole number of hops */
    PARSE_INT_CUT,     /* the packet was cut within the stack: the oldest hops are missing */
    PARSE_STATUSES
};

/* Flags of a report, as in TR, 3.3. */
enum { REPORT_DROPPED = 8, REPORT_CONGESTED = 4, REPORT_TRACKED = 2, REPORT_INTERMEDIATE = 1 };

/* Flags of an INT header. */
enum { INT_DISCARD = 4, INT_HOPS_EXCEEDED = 2, INT_MTU_EXCEEDED = 1 };

/* Types of INT headers (INT, 5.1), and of 1.0 "hop-by-hop". */
enum { INT_NONE = 0, INT_MD = 1, INT_MX = 3 };

/* RepMdBits and instruction bits have one order (TR, 3.3.1; INT, 5.7): bit 0 is the most significant. */
enum {
    BIT_NODE = 0x8000,
    BIT_INTERFACES = 0x4000,
    BIT_LATENCY = 0x2000,
    BIT_QUEUE = 0x1000,
    BIT_INGRESS = 0x0800,
    BIT_EGRESS = 0x0400,
    BIT_INTERFACES2 = 0x0200,
    BIT_UTILISATION = 0x0100,
    BIT_BUFFER = 0x0080,
    BIT_LAST = 0x0001 /* of a report queue and drop reason, of INT the checksum complement */
};

/* How to read what the specifications leave open. */
struct int_settings {
    uint64_t timestamp_ns; /* unit of timestamps */
    uint64_t latency_ns;   /* unit of hop latencies */
    uint64_t marker;       /* probe marker after TCP or UDP; 0: none is used */
    uint16_t port;         /* UDP destination port that means INT; 0: none does */
    uint8_t dscp;          /* DSCP that means INT, */
    uint8_t dscp_mask;     /* where these bits count; 0: none does */
    uint8_t long_times;    /* not 0: INT 1.0 has GEANT's format, FORMAT_1_LONG_TIMES */
    uint8_t none[3];
};

/* A datagram whose group header (TR, 3.2; of 1.0: whose header) could be read. */
struct int_group {
    uint64_t time_ns;  /* when it came */
    uint32_t datagram; /* which one of those given, from 0 */
    uint32_t reporter; /* IPv4 address that it came from */
    uint32_t node;
    uint32_t sequence; /* 22 bits; of 1.0 32 bits */
    uint32_t reports;  /* of it that could be read */
    uint8_t version;
    uint8_t hw_id;
    uint16_t content;  /* hash of the datagram's bytes, never 0 */
};

/* Of a packet, what all nodes see alike. */
struct int_key {
    uint8_t source[16], destination[16]; /* IPv4: the first four bytes */
    uint16_t source_port, destination_port;
    uint8_t protocol;
    uint8_t ip_version; /* 0: there is no packet, or it could not be read */
    uint8_t none[2];
};

/* A report (TR, 3.3). */
struct int_report {
    uint64_t time_ns;
    struct int_key key;    /* with the ports before INT changed them */
    uint64_t flow;         /* hash of the key; 0: none */
    uint32_t group;        /* index of its group */
    uint32_t node;         /* that reports */
    uint32_t packet;       /* hash of what tells packets of a flow apart; 0: not enough of it is there */
    uint32_t first_hop;    /* index of its first hop: that of the source */
    uint32_t at;           /* where the report begins, in the bytes given */
    uint32_t ds_at;        /* where its domain specific metadata begin, */
    uint32_t int_ds_at;    /* and those that only the source inserts in an INT header */
    uint16_t hops;
    uint16_t ds_words;     /* 4 bytes each */
    uint16_t int_ds_words;
    uint16_t bits;         /* RepMdBits; of 1.0 the same in their places of 2.0 */
    uint16_t domain, ds_bits, ds_status;
    uint16_t int_bits, int_domain, int_ds_bits, int_ds_flags;
    uint16_t ip_length;    /* Total Length, of IPv6 Payload Length */
    uint8_t report_type, inner_type;
    uint8_t flags;
    uint8_t parse_status;       /* with what is within */
    uint8_t queue, reason; /* of a drop; with bit 15 of `bits` */
    uint8_t int_type, int_version, int_flags;
    uint8_t hop_words;     /* Hop ML */
    uint8_t remaining_hops;
    uint8_t dscp;          /* as it came */
    uint8_t original_dscp; /* of the shim, whose sources may leave it 0 */
    uint8_t ttl;           /* or Hop Limit */
    uint8_t is_local;      /* the last hop is the reporting node's, of the report's own metadata */
    uint8_t none[5];
};

/* What a node says of itself: from a stack, or of the report's own metadata. */
struct int_hop {
    uint64_t latency_ns;
    uint64_t ingress_ns, egress_ns; /* of the node's clock */
    uint32_t report;                /* index */
    uint32_t node;
    uint32_t ingress2, egress2;     /* level 2 interfaces */
    uint32_t occupancy;             /* of the queue: 24 bits */
    uint32_t utilisation;
    uint32_t buffer_occupancy;      /* 24 bits */
    uint32_t complement;            /* of the checksum */
    uint32_t ds_at;                 /* where its domain specific metadata begin, in the bytes given */
    uint16_t ingress, egress;       /* level 1 interfaces */
    uint16_t has;                   /* what is known, by bits of the instruction bitmap: what was asked for,
                                     * and is not all ones, which says that it was not available */
    uint8_t queue, buffer;
    uint16_t ds_words;
    uint8_t none[2];
};

/* Something malformed, and where. */
struct int_fault {
    uint32_t datagram;
    uint32_t offset; /* in it */
    uint8_t parse_status;
    uint8_t none[3];
};

/* Datagrams that came: records and bytes as applications get them. */
struct int_input {
    const struct arrival_record *arrivals;
    uint32_t count;
    const uint8_t *bytes;
};

/* Room for what they have in them. `*_used` are counted on. */
struct int_output {
    struct int_group *groups;
    struct int_report *reports;
    struct int_hop *hops;
    struct int_fault *faults;
    uint32_t groups_room, reports_room, hops_room, faults_room;
    uint32_t groups_used, reports_used, hops_used, faults_used;
};

#endif
