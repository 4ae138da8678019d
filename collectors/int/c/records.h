/* Output of the decoder: a record for each datagram, report and hop. Numbers are in host byte
 * order.
 *
 * "TR" is the Telemetry Report Format Specification, "INT" the INT Dataplane Specification, both
 * of p4lang/p4-applications: versions 2.0 and 2.1, or 1.0 where stated. */
#ifndef COLLECTORS_INT_RECORDS_H
#define COLLECTORS_INT_RECORDS_H

#include <stdint.h>

/* Parse errors. */
enum parse_status {
    PARSE_NONE,
    /* errors of a datagram; the rest of the datagram is not read */
    PARSE_GROUP_HEADER,  /* too short for a group header */
    PARSE_VERSION,       /* version is neither 1 nor 2 */
    PARSE_NO_REPORT,     /* no report after the group header */
    PARSE_REPORT_LENGTH, /* a report extends past the end */
    PARSE_TRAILING,      /* bytes after the last report, too few for a further report */
    /* errors of a report, which is skipped */
    PARSE_REPORT_TYPE,     /* report type is reserved, or is IOAM, which has no format yet */
    PARSE_METADATA_LENGTH, /* MD Length extends past the report, or contradicts the bitmaps */
    /* errors in a report's content; the metadata of the report are valid */
    PARSE_INNER_TYPE, /* reserved */
    PARSE_TLV_LENGTH, /* a TLV extends past the report */
    PARSE_PACKET_CUT, /* truncated before the ports; ports are then 0 */
    PARSE_IP_HEADER,  /* invalid version or length */
    /* errors of the INT header in the packet */
    PARSE_SHIM,        /* the type is neither MD nor MX, or NPT is invalid */
    PARSE_INT_VERSION, /* header version */
    PARSE_INT_LENGTH,  /* shim length too short for a header */
    PARSE_HOP_LENGTH,  /* Hop ML differs from the bitmap */
    PARSE_STACK,       /* stack length is not a multiple of the hop length */
    PARSE_INT_CUT,     /* packet is truncated within the stack, so the oldest hops are missing */
    PARSE_STATUSES
};

/* Flags of a report, as in TR, 3.3. */
enum { REPORT_DROPPED = 8, REPORT_CONGESTED = 4, REPORT_TRACKED = 2, REPORT_INTERMEDIATE = 1 };

/* Flags of an INT header. */
enum { INT_DISCARD = 4, INT_HOPS_EXCEEDED = 2, INT_MTU_EXCEEDED = 1 };

/* Types of INT headers (INT, 5.1). INT 1.0 calls INT-MD "hop-by-hop". */
enum { INT_NONE = 0, INT_MD = 1, INT_MX = 3 };

/* Bits of metadata. Their order is the same in RepMdBits (TR, 3.3.1) and in the instruction bitmap
 * (INT, 5.7). Bit 0 is the most significant bit. */
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
    BIT_LAST = 0x0001 /* queue and drop reason in a report, checksum complement in INT */
};

/* Parameters that the specifications leave open. */
struct int_settings {
    uint64_t timestamp_ns; /* unit of 64-bit timestamps */
    uint64_t latency_ns;   /* unit of hop latencies */
    uint64_t marker;       /* probe marker after TCP or UDP; 0 means none */
    uint16_t port;         /* UDP destination port that indicates INT; 0 means none */
    uint8_t dscp;          /* DSCP that indicates INT; only bits in dscp_mask are compared */
    /* mask of compared DSCP bits; 0 means that the DSCP does not indicate INT */
    uint8_t dscp_mask;
    uint8_t long_times;    /* if not 0, INT 1.0 has GEANT's format FORMAT_1_LONG_TIMES */
    uint8_t none[3];
};

/* A datagram with a valid group header (TR, 3.2) or, in version 1.0, report header. */
struct int_group {
    uint64_t time_ns;  /* arrival time */
    uint32_t datagram; /* index in the input */
    uint32_t reporter; /* IPv4 source address */
    uint32_t node;
    uint32_t sequence; /* 22 bits (32 bits in version 1.0) */
    uint32_t reports;  /* number of valid reports */
    uint8_t version;
    uint8_t hw_id;
    uint16_t content;  /* hash of the datagram's bytes, never 0 */
};

/* Flow key, made of fields that are the same at all nodes. */
struct int_key {
    uint8_t source[16], destination[16]; /* IPv4 addresses are in the first four bytes */
    uint16_t source_port, destination_port;
    uint8_t protocol;
    uint8_t ip_version; /* 4 or 6; 0 if there is no valid packet */
    uint8_t none[2];
};

/* A report (TR, 3.3). */
struct int_report {
    uint64_t time_ns;
    struct int_key key;    /* flow key, with the ports before INT changed them */
    uint64_t flow;         /* hash of the key; 0 means none */
    uint32_t group;        /* index of the group (datagram) that contains the report */
    uint32_t node;         /* reporting node */
    uint32_t packet;       /* hash that distinguishes packets of a flow; 0: not available */
    uint32_t first_hop;    /* index of the first hop, which is the INT source */
    uint32_t at;           /* offset of the report in the input */
    uint32_t ds_at;        /* offset of the report's domain specific metadata */
    /* offset of the metadata that only the source inserts into an INT header */
    uint32_t int_ds_at;
    uint16_t hops;
    uint16_t ds_words;     /* 4 bytes each */
    uint16_t int_ds_words;
    uint16_t bits;         /* RepMdBits; RepMdBits of 1.0 are converted to 2.0 */
    uint16_t domain, ds_bits, ds_status;
    uint16_t int_bits, int_domain, int_ds_bits, int_ds_flags;
    uint16_t ip_length;    /* Total Length of IPv4, or Payload Length of IPv6 */
    uint8_t report_type, inner_type;
    uint8_t flags;
    uint8_t parse_status;       /* parse error of the content */
    uint8_t queue, reason; /* queue and reason of a drop; valid if bit 15 of `bits` is set */
    uint8_t int_type, int_version, int_flags;
    uint8_t hop_words;     /* Hop ML */
    uint8_t remaining_hops;
    uint8_t dscp;          /* DSCP of the reported packet */
    uint8_t original_dscp; /* original DSCP in the shim; some sources leave it 0 */
    uint8_t ttl;           /* TTL or Hop Limit */
    uint8_t is_local;      /* the last hop is the reporting node: metadata of the report itself */
    uint8_t none[5];
};

/* Metadata of a node, from a stack or from the report itself. */
struct int_hop {
    uint64_t latency_ns;
    uint64_t ingress_ns, egress_ns; /* times according to the node's clock */
    uint32_t report;                /* index */
    uint32_t node;
    uint32_t ingress2, egress2;     /* level 2 interfaces */
    uint32_t occupancy;             /* occupancy of the queue, 24 bits */
    uint32_t utilisation;
    uint32_t buffer_occupancy;      /* 24 bits */
    uint32_t complement;            /* checksum complement */
    uint32_t ds_at;                 /* offset of the hop's domain specific metadata in the input */
    uint16_t ingress, egress;       /* level 1 interfaces */
    uint16_t has;                   /* available fields, as bits of the instruction bitmap:
                                     * requested, and not all ones ("not available") */
    uint8_t queue, buffer;
    uint16_t ds_words;
    uint8_t none[2];
};

/* A parse error and its location. */
struct int_fault {
    uint32_t datagram;
    uint32_t offset; /* offset in the datagram */
    uint8_t parse_status;
    uint8_t none[3];
};

/* Received datagrams, as records and bytes, in the format passed to applications. */
struct int_input {
    const struct arrival_record *arrivals;
    uint32_t count;
    const uint8_t *bytes;
};

/* Buffers for decoded records. The decoder increments `*_used`. */
struct int_output {
    struct int_group *groups;
    struct int_report *reports;
    struct int_hop *hops;
    struct int_fault *faults;
    uint32_t groups_room, reports_room, hops_room, faults_room;
    uint32_t groups_used, reports_used, hops_used, faults_used;
};

#endif
