/* core.p4: the core library of P4-16 (language specification 1.2.5, appendix D). */
#ifndef _CORE_P4_
#define _CORE_P4_

error {
    NoError,
    PacketTooShort,         // extract, advance or lookahead beyond the end of the packet
    NoMatch,                // no case of a select matches
    StackOutOfBounds,       // .next of a full stack, .last of an empty one
    HeaderTooShort,         // a varbit field longer than its maximum
    ParserTimeout,
    ParserInvalidArgument   // e.g. a varbit length that is not a whole number of bytes
}

extern packet_in {
    void extract<T>(out T hdr);
    void extract<T>(out T variableSizeHeader, in bit<32> variableFieldSizeInBits);
    T lookahead<T>();
    void advance(in bit<32> sizeInBits);
    bit<32> length();
}

extern packet_out {
    void emit<T>(in T hdr);
}

extern void verify(in bool check, in error toSignal);

@noWarn("unused")
action NoAction() {}

match_kind {
    exact,
    ternary,
    lpm
}

extern bool static_assert(bool check, string message);
extern bool static_assert(bool check);

#endif
