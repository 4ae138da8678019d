"""Parsers: the headers that they extract, their errors, and frames of every length."""

import random

import pytest
from small_programs import engine

from minip4.engine.engine import Engine
from minip4.engine.errors import InvalidArgument

# The first byte of a frame selects what the parser does. Ingress writes the error of the parser
# into `problem`.
PARSER = """
    state start { packet.extract(hdr.h); transition select(hdr.h.what) {
        1: twice; 2: stack; 3: options; 4: checked; 5: ahead; 6: skip; 7: loop; 8 .. 11: range;
        0x40 &&& 0xF0: masked; vset: from_set; default: accept; } }
    state twice { packet.extract(hdr.x); transition accept; }
    state stack { packet.extract(hdr.s.next);
                  transition select(hdr.s.last.v) { 0: accept; default: stack; } }
    state options { packet.extract(hdr.o, (bit<32>) hdr.h.length * 4); transition accept; }
    state checked { verify(hdr.h.length == 7, error.NotSeven); transition accept; }
    state ahead { meta.seen = packet.lookahead<bit<24>>()[7:0]; transition accept; }
    state skip { packet.advance((bit<32>) hdr.h.length * 4); packet.extract(hdr.x);
                 transition accept; }
    state loop { packet.advance(0); transition select(hdr.h.length) { 0: accept; default: loop; } }
    state range { meta.seen = 8; transition accept; }
    state masked { meta.seen = 0x40; transition accept; }
    state from_set { meta.seen = 0xAA; transition accept; }
"""


@pytest.fixture(scope="module")
def switch() -> Engine:
    return engine(
        types="""
            error { NotSeven }
            header h_t { bit<8> what; bit<8> length; bit<8> problem; bit<8> seen; }
            header x_t { bit<16> v; } header s_t { bit<8> v; }
            header o_t { bit<8> n; varbit<64> v; } """,
        headers="h_t h; x_t x; s_t[3] s; o_t o;",
        metadata="bit<8> seen;",
        parser="value_set<bit<8>>(4) vset; " + PARSER,
        ingress="""
            hdr.h.seen = meta.seen;
            if (std.parser_error == error.NoError) { hdr.h.problem = 0; }
            else if (std.parser_error == error.PacketTooShort) { hdr.h.problem = 1; }
            else if (std.parser_error == error.StackOutOfBounds) { hdr.h.problem = 3; }
            else if (std.parser_error == error.HeaderTooShort) { hdr.h.problem = 4; }
            else if (std.parser_error == error.ParserTimeout) { hdr.h.problem = 5; }
            else if (std.parser_error == error.ParserInvalidArgument) { hdr.h.problem = 6; }
            else if (std.parser_error == error.NotSeven) { hdr.h.problem = 7; }
            else { hdr.h.problem = 99; }""",
    )


OK, SHORT, STACK, TOO_LONG, TIMEOUT, INVALID, NOT_SEVEN = 0, 1, 3, 4, 5, 6, 7

CASES: dict[str, tuple[bytes, int, int]] = {
    # frame, error, metadata that the parser sets
    "accept": (b"\0\0", OK, 0),
    "two headers": (b"\1\0__\1\2", OK, 0),
    "the second header is cut short": (b"\1\0__\1", SHORT, 0),
    "a stack, filled": (b"\2\0__\1\1\0", OK, 0),
    "a stack, overfull": (b"\2\0__\1\1\1\1", STACK, 0),
    "a stack, cut short": (b"\2\0__\1", SHORT, 0),
    "no options": (b"\3\0__\7", OK, 0),
    "two bytes of options": (b"\3\4__\7ab", OK, 0),
    "options cut short": (b"\3\4__\7a", SHORT, 0),
    "options of half a byte": (b"\3\1__\7abc", INVALID, 0),
    "options longer than the header": (b"\3\x14__\7" + bytes(20), TOO_LONG, 0),
    "verified": (b"\4\7__", OK, 0),
    "not verified": (b"\4\6__", NOT_SEVEN, 0),
    "looked ahead": (b"\5\0__abc", OK, ord("c")),
    "nothing ahead": (b"\5\0__ab", SHORT, 0),
    "skipped": (b"\6\4__abcd", OK, 0),
    "skipped beyond the end": (b"\6\x50__abcd", SHORT, 0),
    "skipped half a byte": (b"\6\1__abcd", INVALID, 0),
    "loops for ever": (b"\7\1__", TIMEOUT, 0),
    "a range's first": (b"\x08\0__", OK, 8),
    "a range's last": (b"\x0b\0__", OK, 8),
    "behind a range": (b"\x0c\0__", OK, 0),
    "a mask": (b"\x4d\0__", OK, 0x40),
}


@pytest.mark.parametrize("name", CASES)
def test_a_packet_goes_on_with_the_parsers_error(switch: Engine, name: str) -> None:
    head, error, seen = CASES[name]
    frame = head[:2] + b"\xee\xee" + head[4:]
    [(port, sent)] = switch.process(1, frame, 0)
    assert port == 0, "a packet that the parser rejects is not dropped"
    assert (sent[2], sent[3]) == (error, seen)
    skipped = 2 if name == "skipped" else 0  # no header contains the skipped bytes
    assert sent[4:] == head[4 + skipped :]


def test_frames_of_any_content_and_length_pass_through_or_are_refused(switch: Engine) -> None:
    rng = random.Random(3)
    for _ in range(3000):
        length = rng.choice([0, 1, 3, 4, 5, 6, 7, 8, 9, 13, 60, 1500, 9216])
        frame = (bytes([rng.randrange(16), rng.randrange(24)]) + rng.randbytes(length))[:length]
        [(_, sent)] = switch.process(1, frame, 0)
        assert len(sent) <= len(frame)
    with pytest.raises(InvalidArgument):
        switch.process(1, bytes(9217), 0)


@pytest.mark.parametrize(("count", "is_room"), [(3, True), (4, False)])
def test_headers_that_outgrow_their_room_are_dropped(count: int, is_room: bool) -> None:
    e = engine(
        types="header h_t { bit<8> a; bit<8> b; bit<16> c; } header big_t { bit<2048> v; }",
        headers=f"big_t[{count}] big; h_t h;",
        ingress="".join(f"hdr.big[{i}].setValid(); hdr.big[{i}].v = {i};" for i in range(count)),
    )
    for length in (4, 9216):
        frame = bytes(range(200)) * 50
        sent = e.process(1, frame[:length], 0)
        headers = b"".join(bytes(255) + bytes([i]) for i in range(count))
        assert sent == ([(0, headers + frame[:length])] if is_room else [])


def test_value_sets_are_set_at_run_time(switch: Engine) -> None:
    def seen(what: int) -> int:
        return switch.process(1, bytes([what, 0, 0, 0]), 0)[0][1][3]

    [name] = switch.program.value_sets
    assert seen(0xC0) == 0
    switch.value_set_set(name, [0xC0, 0xC1])
    assert [seen(w) for w in (0xC0, 0xC1, 0xC2)] == [0xAA, 0xAA, 0]
    switch.value_set_set(name, [])
    assert seen(0xC0) == 0


def test_a_frame_shorter_than_the_first_header_passes_through(switch: Engine) -> None:
    for length in range(4):
        assert switch.process(1, bytes(length), 0) == [(0, bytes(length))]


def test_headers_of_a_union_exclude_one_another() -> None:
    e = engine(
        types="""header h_t { bit<8> which; } header a_t { bit<8> v; } header b_t { bit<16> v; }
                 header_union u_t { a_t a; b_t b; }""",
        headers="h_t h; u_t u;",
        parser="""state start { packet.extract(hdr.h); transition select(hdr.h.which) {
                    1: one; 2: two; default: accept; } }
                  state one { packet.extract(hdr.u.a); transition accept; }
                  state two { packet.extract(hdr.u.b); transition accept; }""",
        ingress="""if (hdr.u.isValid()) { hdr.h.which = hdr.h.which + 0x10; }
                   if (hdr.u.a.isValid()) { hdr.u.b.setValid(); hdr.u.b.v = 0xBEEF; }
                   else if (hdr.u.b.isValid()) { hdr.u.b.setInvalid(); }""",
    )
    assert e.process(1, b"\1Ax", 0) == [(0, b"\x11\xbe\xefx")]
    assert e.process(1, b"\2BBx", 0) == [(0, b"\x12x")]
    assert e.process(1, b"\3x", 0) == [(0, b"\3x")]
