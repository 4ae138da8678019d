/* t2na.p4: the architecture of Tofino 2, as its public interface describes it. What both Tofinos have
 * is in tna.p4. docs/reference/tna.md lists what minip4 runs. */
#ifndef _TOFINO2_NATIVE_ARCHITECTURE_
#define _TOFINO2_NATIVE_ARCHITECTURE_

#define MINIP4_TOFINO2
#include <tna.p4>

/* ---- headers of generated packets ---- */

header pktgen_deparser_header_t {
    MINIP4_PKTGEN_APP
    @padding bit<8> _pad2;
    bit<16> batch_id;
    bit<16> packet_id;
}

header pktgen_pfc_header_t {
    MINIP4_PKTGEN_APP
    @padding bit<40> _pad2;
}

extern Pktgen {
    Pktgen();
    void emit<T>(in T hdr);
}

extern IdleTimeout {
    IdleTimeout();
}

/* ---- register actions: up to four results; apply() may call the methods of the macros ---- */

#define MINIP4_PREDICATES(U, G) \
    U address G (@optional bit<1> subword); \
    U predicate G (@optional in bool cmp0, @optional in bool cmp1, @optional in bool cmp2, \
                   @optional in bool cmp3);

#define MINIP4_EXTREMES \
    bit<8> min8<I>(in I val, in bit<16> mask, @optional out bit<4> index); \
    bit<8> max8<I>(in I val, in bit<16> mask, @optional out bit<4> index); \
    bit<16> min16<I>(in I val, in bit<8> mask, @optional out bit<3> index); \
    bit<16> max16<I>(in I val, in bit<8> mask, @optional out bit<3> index);

#define MINIP4_WIDE_EXTREMES(M) \
    bit<8> min8(in bit<128> val, in bit<16> mask, @optional out bit<4> index, \
                @optional in M postmod); \
    bit<8> max8(in bit<128> val, in bit<16> mask, @optional out bit<4> index, \
                @optional in M postmod); \
    bit<16> min16(in bit<128> val, in bit<8> mask, @optional out bit<3> index, \
                  @optional in M postmod); \
    bit<16> max16(in bit<128> val, in bit<8> mask, @optional out bit<3> index, \
                  @optional in M postmod);

extern RegisterAction<T, H, U> {
    RegisterAction(Register<_, _> reg);
    U execute(@optional in H index, @optional out U rv2, @optional out U rv3,
              @optional out U rv4);
    U execute_log(@optional out U rv2, @optional out U rv3, @optional out U rv4);
    U enqueue(@optional out U rv2, @optional out U rv3, @optional out U rv4);
    U dequeue(@optional out U rv2, @optional out U rv3, @optional out U rv4);
    U push(@optional out U rv2, @optional out U rv3, @optional out U rv4);
    U pop(@optional out U rv2, @optional out U rv3, @optional out U rv4);
    void sweep(@optional in U busy);
    @synchronous(execute, execute_log, enqueue, dequeue, push, pop, sweep)
    abstract void apply(inout T value, @optional out U rv1, @optional out U rv2,
                        @optional out U rv3, @optional out U rv4);
    @synchronous(enqueue, push)
    @optional abstract void overflow(@optional inout T value, @optional out U rv1,
                                     @optional out U rv2, @optional out U rv3,
                                     @optional out U rv4);
    @synchronous(dequeue, pop)
    @optional abstract void underflow(@optional inout T value, @optional out U rv1,
                                      @optional out U rv2, @optional out U rv3,
                                      @optional out U rv4);
    MINIP4_PREDICATES(U, )
    MINIP4_EXTREMES
}

extern DirectRegisterAction<T, U> {
    DirectRegisterAction(DirectRegister<T> reg);
    U execute(@optional out U rv2, @optional out U rv3, @optional out U rv4);
    @synchronous(execute)
    abstract void apply(inout T value, @optional out U rv, @optional out U rv2,
                        @optional out U rv3, @optional out U rv4);
    MINIP4_PREDICATES(U, )
    MINIP4_EXTREMES
}

extern LearnAction<T, H, D, U> {
    LearnAction(Register<T, H> reg);
    U execute(in H index, @optional out U rv2, @optional out U rv3, @optional out U rv4);
    @synchronous(execute)
    abstract void apply(inout T value, in D digest, in bool learn, @optional out U rv1,
                        @optional out U rv2, @optional out U rv3, @optional out U rv4);
    MINIP4_PREDICATES(U, )
    MINIP4_EXTREMES
}

extern MinMaxAction<T, H, U> {
    MinMaxAction(Register<T, _> reg);
    U execute(@optional in H index, @optional out U rv2, @optional out U rv3,
              @optional out U rv4);
    @synchronous(execute)
    abstract void apply(inout bit<128> value, @optional out U rv1, @optional out U rv2,
                        @optional out U rv3, @optional out U rv4);
    MINIP4_PREDICATES(U, )
    MINIP4_WIDE_EXTREMES(int<8>)
}

// The same with N results of different types: the types T, all results A, and R without the first.
#define MINIP4_ACTIONS(N, T, A, R) \
extern RegisterAction##N<C, H, T> { \
    RegisterAction##N(Register<_, _> reg); \
    U1 execute(in H index, R); \
    U1 execute_log(R); \
    U1 enqueue(R); \
    U1 dequeue(R); \
    U1 push(R); \
    U1 pop(R); \
    @synchronous(execute, execute_log, enqueue, dequeue, push, pop) \
    abstract void apply(inout C value, A); \
    @synchronous(enqueue, push) \
    @optional abstract void overflow(@optional inout C value, A); \
    @synchronous(dequeue, pop) \
    @optional abstract void underflow(@optional inout C value, A); \
    MINIP4_PREDICATES(U, <U>) \
    MINIP4_EXTREMES \
} \
extern DirectRegisterAction##N<C, T> { \
    DirectRegisterAction##N(DirectRegister<C> reg); \
    U1 execute(R); \
    @synchronous(execute) \
    abstract void apply(inout C value, A); \
    MINIP4_PREDICATES(U, <U>) \
    MINIP4_EXTREMES \
} \
extern LearnAction##N<C, H, D, T> { \
    LearnAction##N(Register<C, H> reg); \
    U1 execute(in H index, R); \
    @synchronous(execute) \
    abstract void apply(inout C value, in D digest, in bool learn, A); \
    MINIP4_PREDICATES(U, <U>) \
    MINIP4_EXTREMES \
} \
extern MinMaxAction##N<C, H, T> { \
    MinMaxAction##N(Register<C, _> reg); \
    U1 execute(@optional in H index, R); \
    @synchronous(execute) \
    abstract void apply(inout bit<128> value, A); \
    MINIP4_PREDICATES(U, <U>) \
    MINIP4_WIDE_EXTREMES(int<9>) \
}

#define MINIP4_TYPES_2   U1, U2
#define MINIP4_TYPES_3   U1, U2, U3
#define MINIP4_TYPES_4   U1, U2, U3, U4
#define MINIP4_RESULTS_2 out U1 rv1, out U2 rv2
#define MINIP4_RESULTS_3 out U1 rv1, out U2 rv2, out U3 rv3
#define MINIP4_RESULTS_4 out U1 rv1, out U2 rv2, out U3 rv3, out U4 rv4
#define MINIP4_OTHERS_2  out U2 rv2
#define MINIP4_OTHERS_3  out U2 rv2, out U3 rv3
#define MINIP4_OTHERS_4  out U2 rv2, out U3 rv3, out U4 rv4

MINIP4_ACTIONS(2, MINIP4_TYPES_2, MINIP4_RESULTS_2, MINIP4_OTHERS_2)
MINIP4_ACTIONS(3, MINIP4_TYPES_3, MINIP4_RESULTS_3, MINIP4_OTHERS_3)
MINIP4_ACTIONS(4, MINIP4_TYPES_4, MINIP4_RESULTS_4, MINIP4_OTHERS_4)

#endif
