"""A header that becomes valid, or not, changes no value that was there before."""

from pathlib import Path

import pytest
from programs_to_run import outcome

PACKET = "0102037f00000004"  # a b c s w
TWO_IS_VALID = "h.u.two.setValid(); h.u.two.y = 0x1234; "
CASES = {
    # declarations, locals of ingress, its body, what comes out
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
}


@pytest.mark.parametrize("name", list(CASES))
def test_what_became_valid_or_invalid(tmp_path: Path, name: str) -> None:
    declarations, own, ingress, expected = CASES[name]
    left = outcome(tmp_path, PACKET, declarations=declarations, locals=own, ingress=ingress)
    assert left is not None
    assert left[1] == expected
