"""Metadata fields that only one function uses become its local variables, with the same results."""

import pytest
from small_programs import engine

THREE_TABLES = "bit<16> own; action set_own(bit<16> v) { own = v; }" + "".join(
    f"table t{number} {{ actions = {{ set_own; }} default_action = set_own({number}); }}"
    for number in range(1, 4)
)


def test_a_variable_is_zero_for_each_packet() -> None:
    """A variable that the program has not set is 0, whatever its value was for an earlier packet.

    In P4, this value is undefined.
    """
    own = "if (hdr.h.a == 1) { own = 7; } hdr.h.c = own; std.egress_spec = 2;"
    made = engine(ingress_locals="bit<16> own;", ingress=own)
    assert any(name.endswith("own") for _, name in made.generator.layout.variables)
    for first, last in ((1, 7), (0, 0), (1, 7), (2, 0)):
        sent = made.process(1, bytes([first, 0, 9, 9]), 0)
        assert sent == [(2, bytes([first, 0, 0, last]))]


@pytest.mark.parametrize(
    "parts",
    [
        {
            "metadata": "bit<16> m;",
            "ingress": "meta.m = (bit<16>) hdr.h.a; std.egress_spec = 2;",
            "egress": "hdr.h.c = meta.m;",
        },
        {
            "metadata": "bit<16> m;",
            "parser": "state start { packet.extract(hdr.h); meta.m = (bit<16>) hdr.h.a;"
                      " transition accept; }",
            "ingress": "hdr.h.c = meta.m; std.egress_spec = 2;",
        },
        {
            "metadata": "bit<16> m;",
            "ingress": "meta.m = (bit<16>) hdr.h.a; std.egress_spec = 2;"
                       "hash(hdr.h.c, HashAlgorithm.identity, 16w0, { meta.m }, 32w65536);",
        },
        {
            "metadata": "bit<16> m;",
            "ingress": "meta.m = ~(bit<16>) hdr.h.a; std.egress_spec = 2;",
            "compute": "update_checksum(true, { meta.m }, hdr.h.c, HashAlgorithm.csum16);",
        },
        {
            "metadata": "@field_list(1) bit<16> m;",
            "ingress": "if (std.instance_type == 0) { meta.m = (bit<16>) hdr.h.a;"
                       " resubmit_preserving_field_list(1); }"
                       " else { hdr.h.c = meta.m; std.egress_spec = 2; }",
        },
    ],
    ids=["egress", "parser", "hash", "checksum", "field list"],
)  # fmt: skip
def test_metadata_with_other_uses_is_in_the_packet_state(parts: dict[str, str]) -> None:
    made = engine(**parts)
    assert made.process(1, bytes([5, 0, 9, 9]), 0) == [(2, bytes([5, 0, 0, 5]))]
    assert not any(name.endswith("_m") for _, name in made.generator.layout.variables)


@pytest.mark.parametrize(("calls", "is_variable"), [(2, True), (3, False)])
def test_an_action_of_many_tables_is_not_repeated(calls: int, is_variable: bool) -> None:
    apply = "".join(f"t{number}.apply();" for number in range(1, calls + 1))
    ingress = f"{apply} hdr.h.c = own; std.egress_spec = 2;"
    made = engine(ingress_locals=THREE_TABLES, ingress=ingress)
    found = any(name.endswith("own") for _, name in made.generator.layout.variables)
    assert found == is_variable
    assert made.process(1, bytes(4), 0) == [(2, bytes([0, 0, 0, calls]))]
