"""Validity flags: tested in groups of eight if there are many headers."""

import pytest
from small_programs import engine

PARTS = {
    "types": "header t_t { bit<8> v; }",
    "parser": "state start { packet.extract(hdr.h1); transition accept; }",
    "ingress": "std.egress_spec = 2; hdr.h1.v = hdr.h1.v + 1;",
}


@pytest.mark.parametrize(("headers", "flags"), [(1, 1), (8, 8), (9, 16)])
def test_few_headers_have_no_room_for_more(headers: int, flags: int) -> None:
    declared = " ".join(f"t_t h{number};" for number in range(1, headers + 1))
    made = engine(headers=declared, **PARTS)
    assert f"uint8_t valid[{flags}];" in made.generator.text
    assert ("if (any_valid(" in made.generator.text) == (headers > 8)
    assert made.process(1, b"\x01rest", 0) == [(2, b"\x02rest")]
