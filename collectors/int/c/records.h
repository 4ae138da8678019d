/* Output of the decoder: one record per datagram, report and hop. Numbers are in host byte order.
 *
 * "TR" is the Telemetry Report Format Specification 2.0, and "INT" is the INT Dataplane
 * Specification 2.1, both of p4lang/p4-applications. Comments on version 1.0 name the version. */
#ifndef COLLECTORS_INT_RECORDS_H
#define COLLECTORS_INT_RECORDS_H

#include <stdint.h>

/* Parse errors. */
enum parse_status {
    PARSE_NONE,
    /* errors of a datagram; the rest of the datagram is then not read */
    PARSE_GROUP_HEADER,  /* too short for the group header */
    PARSE_VERSION,       /* version is neither 1 nor 2 */
    PARSE_NO_REPORT,     /* no report after the group header */
    PARSE_REPORT_LENGTH, /* a report is longer than the rest of the datagram */
    PARSE_TRAILING,      /* the rest after the last report is too short for another report */
    /* errors of a report; the report is then skipped */
    PARSE_REPORT_TYPE,     /* report type is reserved */
    PARSE_METADATA_LENGTH, /* MD Length is longer than the report, or contradicts the bitmaps */
    /* errors in the content of a report; the metadata of the report are still valid */
    PARSE_INNER_TYPE, /* reserved */
    PARSE_TLV_LENGTH, /* a TLV is longer than the rest of the report */
    PARSE_PACKET_CUT, /* packet ends before the ports, which are then 0 */
    PARSE_IP_HEADER,  /* invalid version or length */
    /* errors of the INT header in a packet */
    PARSE_SHIM,        /* the type is neither MD nor MX, or NPT is invalid */
    PARSE_INT_VERSION, /* header version */
    PARSE_INT_LENGTH,  /* shim length is too short for an INT header */
    PARSE_HOP_LENGTH,  /* Hop ML does not match the bitmap */
    PARSE_STACK,       /* stack length is not a multiple of the hop length */
    PARSE_INT_CUT,     /* packet ends within the stack, so the oldest hops are missing */
    /* errors of the IOAM option in a packet; PARSE_STACK and PARSE_INT_CUT also apply to it */
    PARSE_IOAM_OPTION,      /* the option of the report is missing, or too short */
    PARSE_NODE_LENGTH,      /* NodeLen does not match the trace type */
    PARSE_REMAINING_LENGTH, /* RemainingLen is longer than the option */
    PARSE_STATUSES
};

/* Flags of a report, as in TR, 3.3. */
enum { REPORT_DROPPED = 8, REPORT_CONGESTED = 4, REPORT_TRACKED = 2, REPORT_INTERMEDIATE = 1 };

/* Flags of an INT header. */
enum { INT_DISCARD = 4, INT_HOPS_EXCEEDED = 2, INT_MTU_EXCEEDED = 1 };

/* Types of INT headers (INT, 5.1). INT 1.0 has the name "hop-by-hop" for INT-MD. */
enum { INT_NONE = 0, INT_MD = 1, INT_MX = 3 };

/* IOAM-Option-Type of a report (RFC 9197, 9326), and the fields that its option has. */
enum { IOAM_PREALLOCATED = 0, IOAM_INCREMENTAL = 1, IOAM_E2E = 3, IOAM_DEX = 4 };
enum { IOAM_HAS_SEQUENCE = 1, IOAM_HAS_TIME = 2, IOAM_HAS_FLOW = 4 };
enum { IOAM_OVERFLOW = 8 }; /* flag of a trace option */

/* Bits of metadata. RepMdBits (TR, 3.3.1) and the instruction bitmap (INT, 5.7) have the same order
 * of bits. Bit 0 is the most significant bit. */
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
    BIT_HOP_LIMIT = 0x0002, /* only in IOAM; reserved in a report and in INT */
    BIT_LAST = 0x0001 /* in a report: queue and drop reason; in INT: checksum complement */
};

/* Parameters that the specifications leave to the deployment. */
struct int_settings {
    uint64_t timestamp_ns; /* unit of 64-bit timestamps */
    uint64_t latency_ns;   /* unit of hop latencies */
    uint64_t fraction_ns;  /* unit of the fraction of a second in IOAM; 0 means 2^-32 s (NTP) */
    uint64_t marker;       /* probe marker that follows TCP or UDP; 0 means none */
    uint16_t port;         /* UDP destination port that indicates INT; 0 means none */
    uint8_t dscp;          /* DSCP that indicates INT; it is compared under dscp_mask */
    /* mask of the DSCP bits that are compared; 0 means that the DSCP does not indicate INT */
    uint8_t dscp_mask;
    uint8_t long_times;    /* not 0: INT 1.0 has GEANT's format FORMAT_1_LONG_TIMES */
    uint8_t none[3];
};

/* A datagram with a valid group header (TR, 3.2); in version 1.0, with a valid report header. */
struct int_group {
    uint64_t time_ns;  /* arrival time */
    uint32_t datagram; /* index of the datagram in the input */
    uint32_t reporter; /* IPv4 address of the sender */
    uint32_t node;
    uint32_t sequence; /* 22 bits (in version 1.0: 32 bits) */
    uint32_t reports;  /* number of valid reports */
    uint8_t version;
    uint8_t hw_id;
    uint16_t content;  /* hash of the bytes of the datagram; never 0 */
};

/* Flow key. It consists of fields that are the same at all nodes. */
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
    struct int_key key;    /* flow key; with the original ports, if INT changed them */
    uint64_t flow;         /* hash of the flow key; 0 means that there is none */
    uint32_t group;        /* index of the group (datagram) in which the report is */
    uint32_t node;         /* reporting node */
    /* hash that distinguishes the packets of a flow; 0 means that there is none */
    uint32_t packet;
    uint32_t first_hop;    /* index of the first hop of the report; this hop is the INT source */
    uint32_t at;           /* offset of the report in the input */
    uint32_t ds_at;        /* offset of the domain specific metadata of the report */
    /* offset of the metadata that only the source inserts, in the INT header */
    uint32_t int_ds_at;
    uint16_t hops;
    uint16_t ds_words;     /* number of 4-byte words */
    uint16_t int_ds_words;
    uint16_t bits;         /* RepMdBits; those of version 1.0 are converted to version 2.0 */
    uint16_t domain, ds_bits, ds_status;
    uint16_t int_bits, int_domain, int_ds_bits, int_ds_flags;
    uint16_t ip_length;    /* Total Length of IPv4, or Payload Length of IPv6 */
    uint16_t ioam_namespace;
    uint8_t report_type, inner_type;
    uint8_t flags;
    uint8_t parse_status;       /* parse error in the content of the report */
    uint8_t queue, reason; /* queue and reason of a drop, if bit 15 of `bits` is set */
    uint8_t int_type, int_version, int_flags;
    uint8_t hop_words;     /* Hop ML */
    uint8_t remaining_hops;
    uint8_t dscp;          /* DSCP of the reported packet */
    /* original DSCP according to the shim; it is 0 if the source does not set it */
    uint8_t original_dscp;
    uint8_t ttl;           /* TTL or Hop Limit */
    /* whether the metadata of the last hop are from the report itself; this hop is the reporting
     * node */
    uint8_t is_local;
    uint8_t ioam_type;     /* IOAM-Option-Type of a report of type IOAM */
    uint8_t ioam_flags;    /* of a trace option */
    uint8_t ioam_has;      /* IOAM_HAS_...: fields of the option that have values */
    uint32_t trace_type;   /* of the trace option, or of the report if there is no trace option */
    uint32_t ioam_flow;    /* Flow ID of DEX */
    uint64_t ioam_sequence; /* sequence number of DEX, or of the edge-to-edge option */
    uint64_t ioam_time_ns; /* edge-to-edge option: time at the encapsulating node */
};

/* Metadata of one node. They are from a stack, or from the report itself. */
struct int_hop {
    uint64_t latency_ns;
    uint64_t ingress_ns, egress_ns; /* times by the clock of the node */
    uint32_t report;                /* index of the report of this hop */
    uint32_t node;
    uint32_t ingress2, egress2;     /* level 2 interfaces */
    uint32_t occupancy;             /* occupancy of the queue; 24 bits in INT, 32 in IOAM */
    uint32_t utilisation;
    uint32_t buffer_occupancy;      /* as occupancy */
    uint32_t complement;            /* checksum complement */
    /* offset of the domain specific metadata of this hop; it counts from the start of the input */
    uint32_t ds_at;
    uint16_t ingress, egress;       /* level 1 interfaces */
    uint16_t has;                   /* bits (as in the instruction bitmap) of the fields that have
                                     * values: these were requested, and are not all ones, which
                                     * means "not available" */
    uint8_t queue, buffer;
    uint16_t ds_words;
    uint8_t hop_limit;              /* Hop Limit that an IOAM node received */
    uint8_t none;
};

/* A parse error, and where it occurred. */
struct int_fault {
    uint32_t datagram;
    uint32_t offset; /* offset in the datagram */
    uint8_t parse_status;
    uint8_t none[3];
};

/* Received datagrams: records and bytes, in the format that applications receive. */
struct int_input {
    const struct arrival_record *arrivals;
    uint32_t count;
    const uint8_t *bytes;
};

/* Buffers for decoded records. The decoder increases the numbers `*_used`. */
struct int_output {
    struct int_group *groups;
    struct int_report *reports;
    struct int_hop *hops;
    struct int_fault *faults;
    uint32_t groups_room, reports_room, hops_room, faults_room;
    uint32_t groups_used, reports_used, hops_used, faults_used;
};

#endif
