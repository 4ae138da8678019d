/* tna.p4: the Tofino Native Architecture, as its public interface describes it. Names, parameters and
 * the order of fields are those of the interface, because programs and controllers rely on them.
 * docs/reference/tna.md lists what minip4 runs. t2na.p4 includes this file for Tofino 2. */
#ifndef _TOFINO1_NATIVE_ARCHITECTURE_
#define _TOFINO1_NATIVE_ARCHITECTURE_

#include <core.p4>

/* ---- identifiers ---- */

#define PORT_ID_WIDTH            9
#define MULTICAST_GROUP_ID_WIDTH 16
#if defined(MINIP4_TOFINO2) || __TARGET_TOFINO__ == 2
#define QUEUE_ID_WIDTH           7
#define MIRROR_TYPE_WIDTH        4
#define MIRROR_ID_WIDTH          8
#define PORT_METADATA_WIDTH      192
#else
#define QUEUE_ID_WIDTH           5
#define MIRROR_TYPE_WIDTH        3
#define MIRROR_ID_WIDTH          10
#define PORT_METADATA_WIDTH      64
#endif
#define RESUBMIT_TYPE_WIDTH      3
#define DIGEST_TYPE_WIDTH        3
#define REPLICATION_ID_WIDTH     16
#define L1_EXCLUSION_ID_WIDTH    16
#define L2_EXCLUSION_ID_WIDTH    9

typedef bit<PORT_ID_WIDTH> PortId_t;
typedef bit<MULTICAST_GROUP_ID_WIDTH> MulticastGroupId_t;
typedef bit<QUEUE_ID_WIDTH> QueueId_t;
typedef bit<MIRROR_TYPE_WIDTH> MirrorType_t;
typedef bit<MIRROR_ID_WIDTH> MirrorId_t;
typedef bit<RESUBMIT_TYPE_WIDTH> ResubmitType_t;
typedef bit<DIGEST_TYPE_WIDTH> DigestType_t;
typedef bit<REPLICATION_ID_WIDTH> ReplicationId_t;
typedef bit<L1_EXCLUSION_ID_WIDTH> L1ExclusionId_t;
typedef bit<L2_EXCLUSION_ID_WIDTH> L2ExclusionId_t;
typedef error ParserError_t;

// A port number is a pipe (2 bits) and a port of this pipe (7 bits).
#define DEVPORT_PIPE_MASK  0x180
#define DEVPORT_PORT_MASK  0x7f
#define DEVPORT_PIPE(port) (port)[8:7]
#define DEVPORT_PORT(port) (port)[6:0]

const bit<32> PORT_METADATA_SIZE = PORT_METADATA_WIDTH; // bits

/* ---- parser errors ---- */

error {
    CounterRange,
    Timeout,
    PhvOwner,
    MultiWrite,
    IbufOverflow,
    IbufUnderflow
}

// Bits of parser_err in the metadata from the parser.
const bit<16> PARSER_ERROR_OK           = 0;
const bit<16> PARSER_ERROR_NO_MATCH     = 1 << 0;
const bit<16> PARSER_ERROR_PARTIAL_HDR  = 1 << 1;
const bit<16> PARSER_ERROR_CTR_RANGE    = 1 << 2;
const bit<16> PARSER_ERROR_TIMEOUT_USER = 1 << 3;
const bit<16> PARSER_ERROR_TIMEOUT_HW   = 1 << 4;
const bit<16> PARSER_ERROR_SRC_EXT      = 1 << 5;
#ifndef MINIP4_TOFINO2
const bit<16> PARSER_ERROR_DST_CONT     = 1 << 6;
#endif
const bit<16> PARSER_ERROR_PHV_OWNER    = 1 << 7;
const bit<16> PARSER_ERROR_MULTIWRITE   = 1 << 8;
const bit<16> PARSER_ERROR_ARAM_MBE     = 1 << 10;
const bit<16> PARSER_ERROR_FCS          = 1 << 11;
#ifdef MINIP4_TOFINO2
const bit<16> PARSER_ERROR_CSUM_MBE     = 1 << 12;
#endif

/* ---- metadata of ingress ---- */

// Precedes each packet of the ingress parser. The port metadata (PORT_METADATA_SIZE bits) or, with
// resubmit_flag, the data of Resubmit.emit() follow it.
@__intrinsic_metadata
header ingress_intrinsic_metadata_t {
    bit<1> resubmit_flag;
    @padding bit<1> _pad1;
    bit<2> packet_version;
    @padding bit<(4 - PORT_ID_WIDTH % 8)> _pad2;
    PortId_t ingress_port;
    bit<48> ingress_mac_tstamp; // ns
}

@__intrinsic_metadata
struct ingress_intrinsic_metadata_from_parser_t {
    bit<48> global_tstamp; // ns
    bit<32> global_ver;
    bit<16> parser_err;
}

#ifdef MINIP4_TOFINO2
// Fields that replace those of the mirror session, and limits of the packet.
#define MINIP4_MIRROR_FIELDS \
    bit<1> mirror_io_select; /* 0: the incoming packet, 1: the outgoing packet */ \
    bit<13> mirror_hash; \
    bit<3> mirror_ingress_cos; \
    bit<1> mirror_deflect_on_drop; \
    bit<1> mirror_multicast_ctrl; \
    PortId_t mirror_egress_port; \
    QueueId_t mirror_qid; \
    bit<8> mirror_coalesce_length; \
    bit<32> adv_flow_ctl; \
    bit<14> mtu_trunc_len; \
    bit<1> mtu_trunc_err_f;
#else
#define MINIP4_MIRROR_FIELDS
#endif

@__intrinsic_metadata
struct ingress_intrinsic_metadata_for_deparser_t {
    bit<3> drop_ctl; // bit 0: forwarding and resubmission, 1: copy to the CPU, 2: mirroring
    DigestType_t digest_type;
    ResubmitType_t resubmit_type;
    MirrorType_t mirror_type;
    MINIP4_MIRROR_FIELDS
#ifdef MINIP4_TOFINO2
    bit<1> pktgen;
    bit<14> pktgen_address;
    bit<10> pktgen_length;
#endif
}

@__intrinsic_metadata
struct ingress_intrinsic_metadata_for_tm_t {
    PortId_t ucast_egress_port;
    bit<1> bypass_egress;
    bit<1> deflect_on_drop;
    bit<3> ingress_cos;
    QueueId_t qid;
    bit<3> icos_for_copy_to_cpu;
    bit<1> copy_to_cpu;
    bit<2> packet_color;
    bit<1> disable_ucast_cutthru;
    bit<1> enable_mcast_cutthru;
    MulticastGroupId_t mcast_grp_a;
    MulticastGroupId_t mcast_grp_b;
    bit<13> level1_mcast_hash;
    bit<13> level2_mcast_hash;
    L1ExclusionId_t level1_exclusion_id;
    L2ExclusionId_t level2_exclusion_id;
    bit<16> rid;
}

#ifdef MINIP4_TOFINO2
// The state of a queue, with which the traffic manager starts the ghost thread.
@__intrinsic_metadata
@__ghost_metadata
header ghost_intrinsic_metadata_t {
    bit<1> ping_pong;
    bit<18> qlength;
    bit<11> qid;
    bit<2> pipe_id;
}
#endif

/* ---- metadata of egress ---- */

// Precedes each packet of the egress parser.
@__intrinsic_metadata
header egress_intrinsic_metadata_t {
    @padding bit<(8 - PORT_ID_WIDTH % 8)> _pad0;
    PortId_t egress_port;
    @padding bit<5> _pad1;
    bit<19> enq_qdepth;
    @padding bit<6> _pad2;
    bit<2> enq_congest_stat;
#ifdef MINIP4_TOFINO2
    bit<32> enq_tstamp; // ns
#else
    @padding bit<14> _pad3;
    bit<18> enq_tstamp; // ns
#endif
    @padding bit<5> _pad4;
    bit<19> deq_qdepth;
    @padding bit<6> _pad5;
    bit<2> deq_congest_stat;
    bit<8> app_pool_congest_stat;
#ifdef MINIP4_TOFINO2
    bit<32> deq_timedelta; // ns
#else
    @padding bit<14> _pad6;
    bit<18> deq_timedelta; // ns
#endif
    bit<16> egress_rid;
    @padding bit<7> _pad7;
    bit<1> egress_rid_first;
    @padding bit<(8 - QUEUE_ID_WIDTH % 8)> _pad8;
    QueueId_t egress_qid;
    @padding bit<5> _pad9;
    bit<3> egress_cos;
    @padding bit<7> _pad10;
    bit<1> deflection_flag;
    bit<16> pkt_length; // bytes
#ifdef MINIP4_TOFINO2
    @padding bit<8> _pad11;
#endif
}

@__intrinsic_metadata
struct egress_intrinsic_metadata_from_parser_t {
    bit<48> global_tstamp; // ns
    bit<32> global_ver;
    bit<16> parser_err;
}

@__intrinsic_metadata
struct egress_intrinsic_metadata_for_deparser_t {
    bit<3> drop_ctl;
    MirrorType_t mirror_type;
    bit<1> coalesce_flush;
    bit<7> coalesce_length;
    MINIP4_MIRROR_FIELDS
}

@__intrinsic_metadata
struct egress_intrinsic_metadata_for_output_port_t {
    bit<1> capture_tstamp_on_tx;
    bit<1> update_delay_on_tx;
}

/* ---- headers of generated packets and of time synchronization ---- */

#ifdef MINIP4_TOFINO2
#define MINIP4_PKTGEN_APP @padding bit<2> _pad1; bit<2> pipe_id; bit<4> app_id;
#else
#define MINIP4_PKTGEN_APP @padding bit<3> _pad1; bit<2> pipe_id; bit<3> app_id;
#endif

header pktgen_timer_header_t {
    MINIP4_PKTGEN_APP
    @padding bit<8> _pad2;
    bit<16> batch_id;
    bit<16> packet_id;
}

header pktgen_port_down_header_t {
    MINIP4_PKTGEN_APP
    @padding bit<(16 - PORT_ID_WIDTH % 8)> _pad2;
    PortId_t port_num;
    bit<16> packet_id;
}

header pktgen_recirc_header_t {
    MINIP4_PKTGEN_APP
#ifdef MINIP4_TOFINO2
    @padding bit<8> _pad2;
    bit<16> batch_id;
#else
    bit<24> key;
#endif
    bit<16> packet_id;
}

header ptp_metadata_t {
    bit<8> udp_cksum_byte_offset;
    bit<8> cf_byte_offset;
    bit<48> updated_cf;
}

/* ---- functions ---- */

@pure extern T max<T>(in T t1, in T t2);
@pure extern T min<T>(in T t1, in T t2);
#ifdef MINIP4_TOFINO2
extern void funnel_shift_right<T>(out T dst, in T src1, in T src2, int shift_amount);
#else
extern void funnel_shift_right<T>(inout T dst, in T src1, in T src2, int shift_amount);
#endif
extern void invalidate<T>(in T field);
extern bool is_validated<T>(in T field);
extern T port_metadata_unpack<T>(packet_in pkt);
extern bit<32> sizeInBits<H>(in H h);
extern bit<32> sizeInBytes<H>(in H h);

/* ---- parsers and deparsers ---- */

// The Internet checksum.
extern Checksum {
    Checksum();
    void add<T>(in T data);
    void subtract<T>(in T data);
    bool verify();
    bit<16> get();
    void subtract_all_and_deposit<T>(out T residual);
    bit<16> update<T>(in T data, @optional in bool zeros_as_ones);
}

extern ParserCounter {
    ParserCounter();
    void set<T>(in T value);
#ifdef MINIP4_TOFINO2
    void set<T>(in T field, in bit<8> max, in bit<8> rotate, in bit<8> mask, in bit<8> add);
    void push<T>(in T value, @optional bool update_with_top);
    void push<T>(in T field, in bit<8> max, in bit<8> rotate, in bit<8> mask, in bit<8> add,
                 @optional bool update_with_top);
    void pop();
#else
    void set<T>(in T field, in bit<8> max, in bit<8> rotate, in bit<3> mask, in bit<8> add);
#endif
    bool is_zero();
    bool is_negative();
    void increment(in bit<8> value);
    void decrement(in bit<8> value);
}

extern ParserPriority {
    ParserPriority();
    void set(in bit<3> prio);
}

// A copy of the received (ingress) or outgoing (egress) packet to a session, after the header.
extern Mirror {
    @deprecated("Give the constructor the value of mirror_type that it is for.")
    Mirror();
    Mirror(MirrorType_t mirror_type);
    void emit(in MirrorId_t session_id);
    void emit<T>(in MirrorId_t session_id, in T hdr);
}

extern Resubmit {
    @deprecated("Give the constructor the value of resubmit_type that it is for.")
    Resubmit();
    Resubmit(ResubmitType_t resubmit_type);
    void emit();
    void emit<T>(in T hdr);
}

extern Digest<T> {
    @deprecated("Give the constructor the value of digest_type that it is for.")
    Digest();
    Digest(DigestType_t digest_type);
    void pack(in T data);
}

/* ---- hashes and random numbers ---- */

enum HashAlgorithm_t {
    IDENTITY,
    RANDOM,
    XOR8,
    XOR16,
    XOR32,
    CRC8,
    CRC16,
    CRC32,
    CRC64,
    CUSTOM
}

extern CRCPolynomial<T> {
    CRCPolynomial(T coeff, bool reversed, bool msb, bool extended, T init, T xor);
}

extern Hash<W> {
    Hash(HashAlgorithm_t algo);
    Hash(HashAlgorithm_t algo, CRCPolynomial<_> poly);
    W get<D>(in D data);
}

extern Random<W> {
    Random();
    W get();
}

/* ---- counters, meters and filters ---- */

enum CounterType_t { PACKETS, BYTES, PACKETS_AND_BYTES }
enum MeterType_t { PACKETS, BYTES }
enum bit<8> MeterColor_t { GREEN = 0, YELLOW = 1, RED = 3 }

#ifdef MINIP4_TOFINO2
#define MINIP4_ACCOUNTING , @optional bool true_egress_accounting
#else
#define MINIP4_ACCOUNTING
#endif

extern Counter<W, I> {
    Counter(bit<32> size, CounterType_t type MINIP4_ACCOUNTING);
    void count(in I index, @optional in bit<32> adjust_byte_count);
}

extern DirectCounter<W> {
    DirectCounter(CounterType_t type MINIP4_ACCOUNTING);
    void count(@optional in bit<32> adjust_byte_count);
}

extern Meter<I> {
    Meter(bit<32> size, MeterType_t type MINIP4_ACCOUNTING);
    Meter(bit<32> size, MeterType_t type, bit<8> red, bit<8> yellow, bit<8> green MINIP4_ACCOUNTING);
    bit<8> execute(in I index, in MeterColor_t color, @optional in bit<32> adjust_byte_count);
    bit<8> execute(in I index, @optional in bit<32> adjust_byte_count);
}

extern DirectMeter {
    DirectMeter(MeterType_t type MINIP4_ACCOUNTING);
    DirectMeter(MeterType_t type, bit<8> red, bit<8> yellow, bit<8> green MINIP4_ACCOUNTING);
    bit<8> execute(in MeterColor_t color, @optional in bit<32> adjust_byte_count);
    bit<8> execute(@optional in bit<32> adjust_byte_count);
}

extern Lpf<T, I> {
    Lpf(bit<32> size);
    T execute(in T val, in I index);
}

extern DirectLpf<T> {
    DirectLpf();
    T execute(in T val);
}

extern Wred<T, I> {
    Wred(bit<32> size, bit<8> drop_value, bit<8> no_drop_value);
    bit<8> execute(in T val, in I index);
}

extern DirectWred<T> {
    DirectWred(bit<8> drop_value, bit<8> no_drop_value);
    bit<8> execute(in T val);
}

/* ---- registers ---- */

extern Register<T, I> {
    Register(bit<32> size);
    Register(bit<32> size, T initial_value);
    T read(in I index);
    T write(in I index, in T value);
#ifdef MINIP4_TOFINO2
    void clear(in T value, @optional in T busy);
#endif
}

extern DirectRegister<T> {
    DirectRegister();
    DirectRegister(T initial_value);
    T read();
    T write(in T value);
#ifdef MINIP4_TOFINO2
    void clear(in T value, @optional in T busy);
#endif
}

extern RegisterParam<T> {
    RegisterParam(T initial_value);
    T read();
}

enum MathOp_t { MUL, SQR, SQRT, DIV, RSQR, RSQRT }

extern MathUnit<T> {
    MathUnit(bool invert, int<2> shift, int<6> scale,
             tuple<bit<8>, bit<8>, bit<8>, bit<8>, bit<8>, bit<8>, bit<8>, bit<8>,
                   bit<8>, bit<8>, bit<8>, bit<8>, bit<8>, bit<8>, bit<8>, bit<8>> data);
    MathUnit(MathOp_t op, int factor);
    MathUnit(MathOp_t op, int A, int B);
    T execute(in T x);
}

#ifndef MINIP4_TOFINO2
// execute() reads a cell, calls apply(), writes the cell and returns `rv`.
extern RegisterAction<T, I, U> {
    RegisterAction(Register<_, _> reg);
    U execute(in I index);
    U execute_log();
    @synchronous(execute, execute_log)
    abstract void apply(inout T value, @optional out U rv);
    U predicate(@optional in bool cmplo, @optional in bool cmphi);
}

extern DirectRegisterAction<T, U> {
    DirectRegisterAction(DirectRegister<T> reg);
    U execute();
    @synchronous(execute)
    abstract void apply(inout T value, @optional out U rv);
    U predicate(@optional in bool cmplo, @optional in bool cmphi);
}
#endif

/* ---- implementations of tables ---- */

match_kind {
    range,
    selector,
#ifdef MINIP4_TOFINO2
    dleft_hash,
#endif
    atcam_partition_index
}

enum SelectorMode_t { FAIR, RESILIENT }

extern ActionProfile {
    ActionProfile(bit<32> size);
}

extern ActionSelector {
    ActionSelector(ActionProfile action_profile, Hash<_> hash, SelectorMode_t mode,
                   bit<32> max_group_size, bit<32> num_groups);
    ActionSelector(ActionProfile action_profile, Hash<_> hash, SelectorMode_t mode,
                   Register<bit<1>, _> reg, bit<32> max_group_size, bit<32> num_groups);
    @deprecated("Give the constructor an ActionProfile.")
    ActionSelector(bit<32> size, Hash<_> hash, SelectorMode_t mode);
    @deprecated("Give the constructor an ActionProfile.")
    ActionSelector(bit<32> size, Hash<_> hash, SelectorMode_t mode, Register<bit<1>, _> reg);
}

extern SelectorAction {
    SelectorAction(ActionSelector sel);
    bit<1> execute(@optional in bit<32> index);
    @synchronous(execute)
    abstract void apply(inout bit<1> value, @optional out bit<1> rv);
}

extern Atcam {
    Atcam(@optional bit<32> number_partitions);
}

extern Alpm {
    Alpm(@optional bit<32> number_partitions, @optional bit<32> subtrees_per_partition,
         @optional bit<32> atcam_subset_width, @optional bit<32> shift_granularity);
}

/* ---- the pipelines: parameters marked @optional may be left out ---- */

#ifdef MINIP4_TOFINO2
#define MINIP4_OPTIONAL
#define MINIP4_GHOST_METADATA , @optional in ghost_intrinsic_metadata_t gh_intr_md
#define MINIP4_GHOST          , @optional GhostT ghost

control GhostT(in ghost_intrinsic_metadata_t gh_intr_md);
#else
#define MINIP4_OPTIONAL @optional
#define MINIP4_GHOST_METADATA
#define MINIP4_GHOST
#endif

parser IngressParserT<H, M>(
    packet_in pkt,
    out H hdr,
    out M ig_md,
    MINIP4_OPTIONAL out ingress_intrinsic_metadata_t ig_intr_md,
    @optional out ingress_intrinsic_metadata_for_tm_t ig_intr_md_for_tm,
    @optional out ingress_intrinsic_metadata_from_parser_t ig_intr_md_from_prsr);

control IngressT<H, M>(
    inout H hdr,
    inout M ig_md,
    MINIP4_OPTIONAL in ingress_intrinsic_metadata_t ig_intr_md,
    MINIP4_OPTIONAL in ingress_intrinsic_metadata_from_parser_t ig_intr_md_from_prsr,
    MINIP4_OPTIONAL inout ingress_intrinsic_metadata_for_deparser_t ig_intr_md_for_dprsr,
    MINIP4_OPTIONAL inout ingress_intrinsic_metadata_for_tm_t ig_intr_md_for_tm
    MINIP4_GHOST_METADATA);

control IngressDeparserT<H, M>(
    packet_out pkt,
    inout H hdr,
    in M metadata,
    MINIP4_OPTIONAL in ingress_intrinsic_metadata_for_deparser_t ig_intr_md_for_dprsr,
    @optional in ingress_intrinsic_metadata_t ig_intr_md);

parser EgressParserT<H, M>(
    packet_in pkt,
    out H hdr,
    out M eg_md,
    MINIP4_OPTIONAL out egress_intrinsic_metadata_t eg_intr_md,
    @optional out egress_intrinsic_metadata_from_parser_t eg_intr_md_from_prsr,
    @optional out egress_intrinsic_metadata_for_deparser_t eg_intr_md_for_dprsr);

control EgressT<H, M>(
    inout H hdr,
    inout M eg_md,
    MINIP4_OPTIONAL in egress_intrinsic_metadata_t eg_intr_md,
    MINIP4_OPTIONAL in egress_intrinsic_metadata_from_parser_t eg_intr_md_from_prsr,
    MINIP4_OPTIONAL inout egress_intrinsic_metadata_for_deparser_t eg_intr_md_for_dprsr,
    MINIP4_OPTIONAL inout egress_intrinsic_metadata_for_output_port_t eg_intr_md_for_oport);

control EgressDeparserT<H, M>(
    packet_out pkt,
    inout H hdr,
    in M metadata,
    MINIP4_OPTIONAL in egress_intrinsic_metadata_for_deparser_t eg_intr_md_for_dprsr,
    @optional in egress_intrinsic_metadata_t eg_intr_md,
    @optional in egress_intrinsic_metadata_from_parser_t eg_intr_md_from_prsr);

package Pipeline<IH, IM, EH, EM>(
    IngressParserT<IH, IM> ingress_parser,
    IngressT<IH, IM> ingress,
    IngressDeparserT<IH, IM> ingress_deparser,
    EgressParserT<EH, EM> egress_parser,
    EgressT<EH, EM> egress,
    EgressDeparserT<EH, EM> egress_deparser
    MINIP4_GHOST);

#ifdef MINIP4_TOFINO2
@pkginfo(arch="T2NA", version="1.0.1")
#else
@pkginfo(arch="TNA", version="2.0.1")
#endif
package Switch<IH0, IM0, EH0, EM0, IH1, IM1, EH1, EM1,
               IH2, IM2, EH2, EM2, IH3, IM3, EH3, EM3>(
    Pipeline<IH0, IM0, EH0, EM0> pipe0,
    @optional Pipeline<IH1, IM1, EH1, EM1> pipe1,
    @optional Pipeline<IH2, IM2, EH2, EM2> pipe2,
    @optional Pipeline<IH3, IM3, EH3, EM3> pipe3);

#ifndef MINIP4_TOFINO2
#define MINIP4_PARSERS(T) \
    T<H, M> prsr0, @optional T<H, M> prsr1, @optional T<H, M> prsr2, \
    @optional T<H, M> prsr3, @optional T<H, M> prsr4, @optional T<H, M> prsr5, \
    @optional T<H, M> prsr6, @optional T<H, M> prsr7, @optional T<H, M> prsr8, \
    @optional T<H, M> prsr9, @optional T<H, M> prsr10, @optional T<H, M> prsr11, \
    @optional T<H, M> prsr12, @optional T<H, M> prsr13, @optional T<H, M> prsr14, \
    @optional T<H, M> prsr15, @optional T<H, M> prsr16, @optional T<H, M> prsr17

package IngressParsers<H, M>(MINIP4_PARSERS(IngressParserT));
package EgressParsers<H, M>(MINIP4_PARSERS(EgressParserT));

package MultiParserPipeline<IH, IM, EH, EM>(
    IngressParsers<IH, IM> ig_prsr,
    IngressT<IH, IM> ingress,
    IngressDeparserT<IH, IM> ingress_deparser,
    EgressParsers<EH, EM> eg_prsr,
    EgressT<EH, EM> egress,
    EgressDeparserT<EH, EM> egress_deparser);

@pkginfo(arch="TNA", version="2.0.1")
package MultiParserSwitch<IH0, IM0, EH0, EM0, IH1, IM1, EH1, EM1,
                          IH2, IM2, EH2, EM2, IH3, IM3, EH3, EM3>(
    MultiParserPipeline<IH0, IM0, EH0, EM0> pipe0,
    @optional MultiParserPipeline<IH1, IM1, EH1, EM1> pipe1,
    @optional MultiParserPipeline<IH2, IM2, EH2, EM2> pipe2,
    @optional MultiParserPipeline<IH3, IM3, EH3, EM3> pipe3);
#endif

#endif
