"""A change of a header's validity does not change values that were read before."""

from pathlib import Path

import pytest
from programs_to_run import outcome

PACKET = "0102037f00000004"  # the fields a, b, c, s and w
TWO_IS_VALID = "h.u.two.setValid(); h.u.two.y = 0x1234; "
ITEMS = "h.items[0] = { 0x10 }; h.items[1] = { 0x11 }; h.items[2] = { 0x12 }; "
CASES = {
    # declarations, locals of ingress, body of ingress, output packet
    "both members of a union are copied into a function, and out of it": (
        "void f(inout one_t x, inout two_t y) { x.setValid(); x.x = 0xaa; }",
        "",
        TWO_IS_VALID + "f(h.u.one, h.u.two);",
        PACKET + "1234",
    ),
    "a sub-control has a copy of one member, and makes the other valid": (
        "control S(inout one_t x, in two_t y, out bool z)"
        " { apply { x.setValid(); x.x = 0xaa; z = y.isValid(); } }",
        "S() s;",
        TWO_IS_VALID + "s.apply(h.u.one, h.u.two, meta.flag); h.d.a = meta.flag ? 8w1 : 0;",
        PACKET + "aa",
    ),
    "a literal asks for another member of the union": (
        "",
        "",
        TWO_IS_VALID + "h.u.one = { h.u.two.isValid() ? 8w7 : 8w8 };",
        PACKET + "07",
    ),
    "an out parameter's header is in the index of another argument": (
        "bit<8> f(out data_t x, in bit<8> y) { x = { 9, 9, 9, 9, 9 }; return y; }",
        "",
        ITEMS + "h.d.a = f(h.d, h.items[h.d.isValid() ? 8w1 : 8w0].v);",
        "1109090900000009" + "101112",
    ),
    "a literal has its own header in an index": (
        "",
        "",
        ITEMS + "h.e = { h.items[h.e.isValid() ? 8w1 : 8w0].v, 0, 0, 0, 0 };",
        PACKET + "101112" + "1000000000000000",
    ),
}


@pytest.mark.parametrize("name", list(CASES))
def test_validity_after_assignments(tmp_path: Path, name: str) -> None:
    declarations, own, ingress, expected = CASES[name]
    left = outcome(tmp_path, PACKET, declarations=declarations, locals=own, ingress=ingress)
    assert left is not None
    assert left[1] == expected
