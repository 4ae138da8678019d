"""Headers whose size changes after the parser. The sent frame has the headers' final content."""

import json

import pytest
from small_programs import engine, json_of

from minip4.engine.engine import Engine
from minip4.engine.errors import NotSupported

# The first header of a frame selects the operation on the headers after it.
PARTS = {
    "types": """
        header h_t { bit<8> what; bit<8> a; bit<8> b; bit<8> index; }
        header v_t { bit<8> first; varbit<9600> data; bit<8> last; bit<8> untouched; }
        header f_t { bit<8> x; bit<24> y; }
        header w_t { bit<8> z; }
        header_union u_t { v_t v; w_t w; }""",
    "headers": "h_t h; v_t a; v_t b; f_t f; v_t[3] s; u_t u; v_t late;",
    "metadata": "@field_list(1) bit<8> kept;",
    "parser": """
        state start { packet.extract(hdr.h);
            packet.extract(hdr.a, (bit<32>) hdr.h.a * 8);
            packet.extract(hdr.b, (bit<32>) hdr.h.b * 8);
            packet.extract(hdr.f); packet.extract(hdr.s.next, 8); packet.extract(hdr.s.next, 16);
            packet.extract(hdr.u.v, 24); transition accept; }""",
    "ingress_locals": "v_t kept;",
    "ingress": """
        std.egress_spec = 2;
        bit<8> what = hdr.h.what;
        if (what == 1) { hdr.a.data = hdr.b.data; }
        else if (what == 2) { hdr.a = hdr.b; hdr.b.data = hdr.s[0].data; hdr.s[2] = hdr.b; }
        else if (what == 3) { hdr.s[1].data = hdr.a.data; hdr.s.push_front(1); }
        else if (what == 4) { hdr.s[1].data = hdr.a.data; hdr.s.pop_front(1); }
        else if (what == 5) { hdr.a.data = hdr.b.data; hdr.a.setInvalid(); hdr.a.setValid();
                              hdr.a.first = 0xEE; hdr.a.data = hdr.u.v.data; hdr.a.last = 0x12; }
        else if (what == 6) { hdr.u.v.data = hdr.a.data; }
        else if (what == 7) { kept = hdr.a; hdr.a.data = hdr.b.data; hdr.late = kept;
                              hdr.late.data = hdr.a.data; hdr.b = kept; }
        else if (what == 8 && std.instance_type == 0) {
            hdr.a.data = hdr.b.data; clone_preserving_field_list(CloneType.I2E, 5, 1); }
        else if (what == 9) { hdr.a.data = hdr.b.data; std.mcast_grp = 7; }
        else if (what == 10) {
            hdr.a.data = hdr.b.data;
            if (std.instance_type == 0) { resubmit_preserving_field_list(1); } }
        else if (what == 13) { hdr.s[hdr.h.index].data = hdr.a.data; }""",
    "egress": """
        if (hdr.h.what == 11) {
            hdr.a.data = hdr.b.data; hdr.h.a = hdr.h.b; hdr.h.what = 0;
            recirculate_preserving_field_list(1); }
        else if (hdr.h.what == 12 && std.instance_type == 0) {
            hdr.a.data = hdr.b.data; clone_preserving_field_list(CloneType.E2E, 5, 1); }""",
    "deparser": """packet.emit(hdr.h); packet.emit(hdr.a); packet.emit(hdr.b); packet.emit(hdr.f);
        packet.emit(hdr.s); packet.emit(hdr.u); packet.emit(hdr.late);""",
}  # fmt: skip
F, PAYLOAD = b"f123", b"payload"


@pytest.fixture(scope="module")
def switch() -> Engine:
    made = engine(**PARTS)
    made.mirror_set(5, [(3, 0)], 0)
    made.multicast_set(7, [(4, 1), (5, 2)])
    return made


def var(name: str, data: bytes) -> bytes:
    return name.encode() + data + name.encode() * 2


def frame(what: int, a: bytes, b: bytes, index: int) -> list[bytes]:
    """Return the parts of a frame: h, a, b, f, the two elements of the stack, u, and payload."""
    head = bytes([what, len(a), len(b), index])
    return [head, var("a", a), var("b", b), F, var("s", b"0"), var("t", b"01"), var("u", b"UUU"),
            PAYLOAD]  # fmt: skip


LENGTHS = [(4, 2), (2, 4), (0, 5), (5, 0), (3, 3), (200, 1), (1, 200)]


@pytest.mark.parametrize(("m", "n"), LENGTHS)
@pytest.mark.parametrize("what", range(1, 14))
def test_assigning_a_varbit_does_not_change_later_headers(
    switch: Engine, what: int, m: int, n: int
) -> None:
    a, b = bytes(range(m)), bytes(range(100, 100 + n)) if n < 100 else bytes(n)
    parts = frame(what, a, b, index=1)
    h, va, vb, f, s, t, u, payload = parts
    changed = [h, var("a", b), vb, f, s, t, u, payload]
    wanted = {
        1: [(2, changed)],
        2: [(2, [h, vb, var("b", b"0"), f, s, t, var("b", b"0"), u, payload])],
        3: [(2, [h, va, vb, f, s, var("t", a), u, payload])],
        4: [(2, [h, va, vb, f, var("t", a), u, payload])],
        5: [(2, [h, b"\xeeUUU\x12\0", vb, f, s, t, u, payload])],
        6: [(2, [h, va, vb, f, s, t, var("u", a), payload])],
        7: [(2, [h, var("a", b), va, f, s, t, u, var("a", b), payload])],
        8: [(2, changed), (3, parts)],
        9: [(4, changed), (5, changed)],
        10: [(2, changed)],
        11: [(2, [bytes([0, n, n, 1]), *changed[1:]])],
        12: [(2, changed), (3, changed)],
        13: [(2, [h, va, vb, f, s, var("t", a), u, payload])],
    }[what]
    sent = switch.process(1, b"".join(parts), 0)
    assert sorted(sent) == [(port, b"".join(p)) for port, p in wanted]


def test_nothing_is_read_behind_a_frame() -> None:
    """The last header of a frame of maximum length gets a longer varbit field.

    No byte beyond the received frame is read. test_sanitized.py also runs this test, and detects
    such reads.
    """
    skipped = 9216 - 12
    e = engine(
        types="header v_t { varbit<64> data; bit<16> last; }",
        headers="v_t a; v_t b;",
        parser=f"""state start {{ packet.extract(hdr.a, 64); packet.advance({8 * skipped});
            packet.extract(hdr.b, 0); transition accept; }}""",
        ingress="hdr.b.data = hdr.a.data;",
    )
    frame = b"12345678aa" + bytes(skipped) + b"bb"
    assert e.process(1, frame, 0) == [(0, b"12345678aa12345678bb")]


def test_a_variable_may_be_a_varbit() -> None:
    """Two varbit fields are exchanged by means of a variable of type varbit.

    p4c makes this variable a field of metadata, which is not in the frame.
    """
    e = engine(
        types="header v_t { bit<8> size; varbit<32> data; }",
        headers="v_t a; v_t b;",
        parser="""state start {
            packet.extract(hdr.a, (bit<32>)packet.lookahead<bit<8>>());
            packet.extract(hdr.b, (bit<32>)packet.lookahead<bit<8>>());
            transition accept; }""",
        ingress="""varbit<32> kept = hdr.a.data;
            hdr.a.data = hdr.b.data;
            hdr.b.data = kept;""",
    )
    assert e.process(1, b"\x08A\x18BCDrest", 0) == [(0, b"\x08BCD\x18Arest")]


@pytest.mark.parametrize("used", ["select", "assign", "compare"])
def test_a_varbit_is_no_number(used: str) -> None:
    """The engine rejects JSON that uses a varbit as a number.

    Otherwise, the C code would access memory after the field.
    """
    text = json.dumps(json_of(**{
        "types": "header v_t { bit<80> first; varbit<80> data; bit<8> other; }",
        "headers": "v_t a; v_t b;",
        "parser": """state start { packet.extract(hdr.a, 8); packet.extract(hdr.b, 8);
            transition select(hdr.a.first) { 1: accept; default: accept; } }""",
        "ingress": "hdr.b.first = 5; if (hdr.a.data == hdr.b.data) { std.egress_spec = 2; }",
    }))  # fmt: skip
    changes = {
        "select": ('["a", "first"]', '["a", "data"]'),
        "assign": ('["b", "first"]', '["b", "data"]'),
        "compare": ('["b", "data"]', '["b", "other"]'),
    }
    assert text.count(changes[used][0]) == 1
    with pytest.raises(NotSupported, match="varbit"):
        Engine(json.loads(text.replace(*changes[used])))
