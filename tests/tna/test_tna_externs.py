"""Externs of tna.p4: registers, hashes, checksums, counters, meters, parser counters."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from tna_programs import compiled, data, engine

from minip4.compiler.errors import P4Error
from minip4.engine.engine import Engine
from minip4.engine.keys import Exact

INCREMENT = """
    Register<bit<16>, bit<16>>(8, 100) reg;
    RegisterAction<bit<16>, bit<16>, bit<16>>(reg) increment = {
        void apply(inout bit<16> value, out bit<16> rv) { rv = value; value = value + hdr.d.b; }
    };
"""


def test_register_action(tmp_path: Path) -> None:
    """It returns the old value, and uses fields of the packet."""
    switch = engine(
        tmp_path, locals=INCREMENT, ingress="hdr.d.b = increment.execute((bit<16>)hdr.d.a);"
    )
    assert switch.process(1, data(a=3, b=7), 0) == [(2, data(a=3, b=100))]
    assert switch.process(1, data(a=3, b=7), 0) == [(2, data(a=3, b=107))]
    assert switch.register_read("IC.reg", 3) == 114
    assert switch.register_read("IC.reg", 4) == 100  # the initial value
    assert switch.process(1, data(a=8, b=7), 0) == [(2, data(a=8, b=0))]  # out of bounds


PAIR = "struct pair_t { bit<16> high; bit<16> low; }"
OTHER_FIELDS = """
    Register<bit<{0}>, bit<8>>(4) reg;
    RegisterAction<{1}, bit<8>, bit<16>>(reg) store = {{
        void apply(inout pair_t value, out bit<16> rv) {{ value.high = hdr.d.b; rv = value.low; }}
    }};
"""


@pytest.mark.parametrize("of", ["pair_t", "_"])
def test_register_action_with_other_fields(tmp_path: Path, of: str) -> None:
    """An action can split the number in a cell into fields."""
    parts = {"declarations": PAIR, "ingress": "hdr.d.b = store.execute(hdr.d.a);"}
    switch = engine(tmp_path, locals=OTHER_FIELDS.format(32, of), **parts)
    switch.register_write("IC.reg", 3, 0x1111_2222)
    assert switch.process(1, data(a=3, b=7), 0) == [(2, data(a=3, b=0x2222))]
    assert switch.register_read("IC.reg", 3) == 0x0007_2222
    with pytest.raises(P4Error, match=r"the cells of IC.reg have 64 bits, not 32"):
        engine(tmp_path, locals=OTHER_FIELDS.format(64, of), **parts)


def test_register_action_of_fewer_bits(tmp_path: Path) -> None:
    """An action with a narrower number stores its bits, and zeros in the others."""
    switch = engine(
        tmp_path,
        locals="""
            Register<bit<8>, bit<8>>(4) reg;
            RegisterAction<bit<3>, bit<8>, bit<3>>(reg) next = {
                void apply(inout bit<3> value, out bit<3> rv) { value = value + 3; rv = value; }
            };""",
        ingress="hdr.d.b = (bit<16>)next.execute(hdr.d.a);",
    )
    switch.register_write("IC.reg", 3, 0xF6)
    assert switch.process(1, data(a=3), 0) == [(2, data(a=3, b=1))]
    assert switch.register_read("IC.reg", 3) == 1


def test_register_action_of_void(tmp_path: Path) -> None:
    switch = engine(
        tmp_path,
        locals="""
            Register<bit<16>, bit<8>>(8) reg;
            RegisterAction<bit<16>, bit<8>, void>(reg) store = {
                void apply(inout bit<16> value) { value = hdr.d.b; }
            };""",
        ingress="store.execute(hdr.d.a);",
    )
    assert switch.process(1, data(a=3, b=7), 0) == [(2, data(a=3, b=7))]
    assert switch.register_read("IC.reg", 3) == 7


def test_register_action_in_an_action(tmp_path: Path) -> None:
    switch = engine(
        tmp_path,
        locals=INCREMENT + "action count(bit<16> i) { hdr.d.b = increment.execute(i); }"
        "table t { key = { hdr.d.op: exact; } actions = { count; NoAction; }"
        "const entries = { 1: count(5); } const default_action = NoAction(); }",
        ingress="t.apply();",
    )
    assert switch.process(1, data(1, b=2), 0) == [(2, data(1, b=100))]
    assert switch.process(1, data(1, b=2), 0) == [(2, data(1, b=102))]


def test_register_action_of_a_struct(tmp_path: Path) -> None:
    switch = engine(
        tmp_path,
        declarations="struct pair_t { bit<32> first; bit<32> second; }",
        locals="""
            Register<pair_t, bit<8>>(4, {7, 9}) reg;
            RegisterAction<pair_t, bit<8>, bit<32>>(reg) swap = {
                void apply(inout pair_t value, out bit<32> rv) {
                    bit<32> old = value.first;
                    if (hdr.d.b > 5) { value.first = value.second; value.second = old; }
                    else { value.second = hdr.d.c; }
                    rv = value.first;
                }
            };""",
        ingress="hdr.d.c = swap.execute(hdr.d.a);",
    )
    assert switch.process(1, data(b=6), 0) == [(2, data(b=6, c=9))]
    assert switch.register_read("IC.reg", 0) == 9 << 32 | 7
    assert switch.process(1, data(b=1, c=5), 0) == [(2, data(b=1, c=9))]
    assert switch.register_read("IC.reg", 0) == 9 << 32 | 5


def test_register_action_without_result(tmp_path: Path) -> None:
    switch = engine(
        tmp_path,
        locals="""
            Register<int<8>, _>(1) reg;
            RegisterParam<int<8>>(3) limit;
            RegisterAction<int<8>, _, int<8>>(reg) down = {
                void apply(inout int<8> value) { value = max(value - 2, 0 - limit.read()); }
            };""",
        ingress="down.execute(0); hdr.d.a = (bit<8>)reg.read(0); reg.write(0, -3);",
    )
    assert switch.process(1, data(), 0) == [(2, data(a=0xFE))]
    assert switch.process(1, data(), 0) == [(2, data(a=0xFD))]


@pytest.mark.parametrize(
    ("hash_", "fields", "given", "value"),
    [
        (
            "bit<32>>(HashAlgorithm_t.CRC32)",
            "hdr.d.c",
            data(c=0xABCDEF01),
            2360908734,
        ),  # p4c: fold_constant_hashes
        ("bit<32>>(HashAlgorithm_t.CRC32)", "hdr.d.c", data(c=0x01234567), 4247457659),  # likewise
        (
            "bit<32>>(HashAlgorithm_t.CRC32)",
            "{hdr.d.op, hdr.d.b, hdr.d.a}",
            data(1, 4, 0x203),
            zlib.crc32(b"\1\2\3\4"),
        ),
        ("bit<8>>(HashAlgorithm_t.CRC32)", "hdr.d.c", data(c=0xABCDEF01), 2360908734 & 0xFF),
        (
            "bit<16>>(HashAlgorithm_t.IDENTITY)",
            "{hdr.d.op, hdr.d.a, hdr.d.b}",
            data(1, 2, 0x304),
            0x304,
        ),
        ("bit<32>>(HashAlgorithm_t.IDENTITY)", "{hdr.d.a, hdr.d.b}", data(1, 2, 0x304), 0x20304),
        (
            "bit<16>>(HashAlgorithm_t.XOR16)",
            "{hdr.d.b, hdr.d.c}",
            data(b=0xF00F, c=0x11110101),
            0xE01F,
        ),
        # fewer bits than a byte are right-aligned
        ("bit<32>>(HashAlgorithm_t.CRC32)", "hdr.d.op[3:0]", data(0xF7), zlib.crc32(b"\7")),
    ],
)
def test_hash(tmp_path: Path, hash_: str, fields: str, given: bytes, value: int) -> None:
    switch = engine(
        tmp_path,
        locals=f"Hash<{hash_} h;",
        ingress=f"hdr.d.c = (bit<32>)h.get({fields});",
    )
    assert switch.process(1, given, 0) == [(2, given[:4] + value.to_bytes(4, "big"))]


# A CRC repeats in a wider hash. Check values of "123456789" are those in the catalogue of
# parametrised CRC algorithms.
@pytest.mark.parametrize(
    ("algorithm", "check"),
    [
        ("CRC8", 0xF4F4F4F4F4F4F4F4),
        ("CRC16", 0xBB3DBB3DBB3DBB3D),
        ("CRC32", 0xCBF43926CBF43926),
        ("CRC64", 0x6C40DF5F0B497347),
    ],
)
def test_crc(tmp_path: Path, algorithm: str, check: int) -> None:
    switch = engine(
        tmp_path,
        locals=f"Hash<bit<64>>(HashAlgorithm_t.{algorithm}) h;",
        ingress="bit<64> value = h.get({hdr.d.op, hdr.d.a, hdr.d.b, hdr.d.c, 8w0x39});"
        "hdr.ip.setValid(); hdr.ip.last = value[31:0]; hdr.ip.first = value[63:48];"
        "hdr.ip.sum = value[47:32];",
        egress_states="state more { pkt.extract(hdr.d); pkt.extract(hdr.ip); transition accept; }",
    )
    ((_, frame),) = switch.process(1, b"12345678", 0)
    assert frame[8:] == check.to_bytes(8, "big")


@pytest.mark.parametrize(
    ("polynomial", "check"),
    [
        ("bit<32>>(32w0x04C11DB7, true, false, false, 0xFFFFFFFF, 0xFFFFFFFF)", 0xCBF43926),
        ("bit<32>>(32w0x1EDC6F41, true, false, false, 0xFFFFFFFF, 0xFFFFFFFF)", 0xE3069283),
        ("bit<32>>(32w0x04C11DB7, false, false, false, 0xFFFFFFFF, 0)", 0x0376E6E7),
        ("bit<16>>(16w0x1021, false, false, false, 0xFFFF, 0)", 0x29B1),
        ("bit<16>>(16w0x8005, true, false, false, 0xFFFF, 0)", 0x4B37),
        ("bit<8>>(8w0x31, true, false, false, 0, 0)", 0xA1),
        ("bit<8>>(8w0x31, true, false, true, 0, 0)", 0xA1A1A1A1),
        ("bit<24>>(24w0x864CFB, false, false, true, 0xB704CE, 0)", 0x0221CF02),
    ],
)
def test_custom_hash(tmp_path: Path, polynomial: str, check: int) -> None:
    switch = engine(
        tmp_path,
        declarations="header nine_t { bit<72> x; }",
        states="state more { pkt.extract(hdr.d); transition accept; }",
        locals=f"CRCPolynomial<{polynomial} poly;Hash<bit<32>>(HashAlgorithm_t.CUSTOM, poly) h;",
        ingress="hdr.d.c = h.get({hdr.d.op, hdr.d.a, hdr.d.b, hdr.d.c, 8w0x39});",
    )
    ((_, frame),) = switch.process(1, b"12345678", 0)
    assert int.from_bytes(frame[4:], "big") == check


SUM = """
    state more { pkt.extract(hdr.d); pkt.extract(hdr.ip); sum.add(hdr.ip);
                 md.wrong = sum.verify(); transition accept; }
"""


def checksum(first: int, last: int) -> int:
    total = first + (last >> 16) + (last & 0xFFFF)
    return ~(total % 0xFFFF or 0xFFFF * bool(total)) & 0xFFFF


def ip(first: int, last: int, sum_: int | None = None) -> bytes:
    value = checksum(first, last) if sum_ is None else sum_
    return first.to_bytes(2, "big") + value.to_bytes(2, "big") + last.to_bytes(4, "big")


def test_checksum(tmp_path: Path) -> None:
    """verify() returns whether the checksum is wrong, and update() computes it."""
    switch = engine(
        tmp_path,
        parser_locals="Checksum() sum;",
        states=SUM,
        ingress="if (md.wrong) { hdr.d.a = 1; } hdr.ip.last = hdr.ip.last + hdr.d.c;",
        deparser_locals="Checksum() sum;",
        deparser="hdr.ip.sum = sum.update({hdr.ip.first, hdr.ip.last});",
    )
    good, bad = ip(0x4500, 0xC0A80001), ip(0x4500, 0xC0A80001, 0x1234)
    expected = ip(0x4500, 0xC0A80003)
    assert switch.process(1, data(c=2) + good, 0) == [(2, data(c=2) + expected)]
    assert switch.process(1, data(c=2) + bad, 0) == [(2, data(a=1, c=2) + expected)]


def test_incremental_checksum(tmp_path: Path) -> None:
    """The parser subtracts what changes, and the deparser adds the new values (RFC 1624)."""
    switch = engine(
        tmp_path,
        parser_locals="Checksum() sum;",
        states="""state more { pkt.extract(hdr.d); pkt.extract(hdr.ip);
            sum.subtract({hdr.ip.sum}); sum.subtract({hdr.ip.last}); md.n = sum.get();
            transition accept; }""",
        ingress="hdr.ip.last = hdr.d.c;",
        deparser_locals="Checksum() sum;",
        deparser="hdr.ip.sum = sum.update({hdr.ip.last, md.n});",
    )
    new = data(c=0xDEADBEEF)
    assert switch.process(1, new + ip(0x4500, 0x01020304), 0) == [(2, new + ip(0x4500, 0xDEADBEEF))]


def test_random(tmp_path: Path) -> None:
    switch = engine(tmp_path, locals="Random<bit<4>>() r;", ingress="hdr.d.a = (bit<8>)r.get();")
    values = {switch.process(1, data(), i)[0][1][1] for i in range(300)}
    assert values == set(range(16))


def test_counters_and_profiles(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        locals="""
            Counter<bit<64>, bit<8>>(16, CounterType_t.PACKETS_AND_BYTES) all;
            DirectCounter<bit<32>>(CounterType_t.PACKETS) direct;
            action send(PortId_t port) { tm.ucast_egress_port = port; direct.count(); }
            action miss() { direct.count(); }
            action member(PortId_t port) { tm.ucast_egress_port = port; }
            table t { key = { hdr.d.op: exact; } actions = { send; miss; }
                      const default_action = miss(); counters = direct; size = 64; }
            Hash<bit<16>>(HashAlgorithm_t.CRC16) h;
            ActionProfile(32) members;
            ActionSelector(members, h, SelectorMode_t.FAIR, 8, 4) selector;
            table u { key = { hdr.d.a: exact; hdr.d.b: selector; } actions = { member; NoAction; }
                      const default_action = NoAction(); implementation = selector; }""",
        ingress="all.count(hdr.d.a); t.apply(); u.apply();",
    )
    info = program.p4info
    assert [c.preamble.name for c in info.counters] == ["IC.all"]
    assert info.counters[0].spec.unit == 3
    assert [c.preamble.name for c in info.direct_counters] == ["IC.direct"]
    (profile,) = info.action_profiles
    assert (profile.preamble.name, profile.size, profile.with_selector) == ("IC.members", 32, True)
    assert info.pkg_info.arch == "tna"
    switch = Engine(program.bmv2_json)
    switch.process(1, data(a=5) + bytes(12), 0)
    assert switch.counter_read("IC.all", 5) == (1, 20)


def test_default_action_of_a_table_with_a_profile(tmp_path: Path) -> None:
    """A miss runs it, and selects its branch of a `switch`."""
    switch = engine(
        tmp_path,
        locals="""
            ActionProfile(32) members;
            action mark(bit<8> value) { hdr.d.a = value; }
            action leave() { }
            table t { key = { hdr.d.op: exact; } actions = { mark; leave; }
                      default_action = mark(7); implementation = members; }""",
        ingress="switch (t.apply().action_run) { mark: { hdr.d.b = 9; } default: { } }",
    )
    member = switch.member_add("IC.members", "IC.leave", [])
    switch.table_add_member("IC.t", [Exact(1)], member)
    assert switch.process(1, data(0), 0) == [(2, data(0, a=7, b=9))]
    assert switch.process(1, data(1), 0) == [(2, data(1))]


def test_selector_with_a_size_is_an_action_profile_in_p4info(tmp_path: Path) -> None:
    """The older constructor has a size instead of an ActionProfile."""
    info = compiled(
        tmp_path,
        locals="""
            action member(bit<9> port) { tm.ucast_egress_port = port; }
            Hash<bit<16>>(HashAlgorithm_t.CRC16) h;
            ActionSelector(64, h, SelectorMode_t.FAIR) selector;
            table t { key = { hdr.d.a: exact; hdr.d.b: selector; } actions = { member; NoAction; }
                      const default_action = NoAction(); implementation = selector; }""",
        ingress="t.apply();",
    ).p4info
    (profile,) = info.action_profiles
    assert (profile.preamble.name, profile.size) == ("IC.selector", 64)
    assert info.tables[0].implementation_id == profile.preamble.id


def test_counter_leaves_bytes_out(tmp_path: Path) -> None:
    switch = engine(
        tmp_path,
        egress_locals="Counter<bit<64>, bit<8>>(16, CounterType_t.BYTES) sent;",
        ingress="hdr.bridge.setValid();",
        egress_states="""state more { pkt.extract(hdr.bridge); pkt.extract(hdr.d);
                         transition accept; }""",
        egress="sent.count(3, sizeInBytes(hdr.bridge));",
    )
    switch.process(1, data() + bytes(12), 0)
    assert switch.counter_read("EC.sent", 3) == (1, 20)


def test_counter_is_never_negative(tmp_path: Path) -> None:
    switch = engine(
        tmp_path,
        locals="Counter<bit<64>, bit<8>>(16, CounterType_t.BYTES) seen;",
        ingress="seen.count(3, 100);",
    )
    switch.process(1, data(), 0)
    assert switch.counter_read("IC.seen", 3) == (1, 0)


def test_algorithmic_tables_are_plain(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        locals="""
            Alpm(number_partitions = 4) alpm;
            action send(PortId_t port) { tm.ucast_egress_port = port; }
            table t { key = { hdr.d.c: lpm; } actions = { send; } implementation = alpm;
                      const entries = { 0x0a000000 &&& 0xff000000: send(7); } size = 4 * 2; }""",
        ingress="t.apply();",
    )
    assert not program.p4info.action_profiles
    switch = Engine(program.bmv2_json)
    assert switch.process(1, data(c=0x0A000005), 0) == [(7, data(c=0x0A000005))]


def test_meter(tmp_path: Path) -> None:
    """The colours are 0, 1 and 3."""
    switch = engine(
        tmp_path,
        locals="Meter<bit<8>>(4, MeterType_t.PACKETS) meter;",
        ingress="hdr.d.a = meter.execute(0);",
    )
    assert switch.process(1, data(), 0) == [(2, data())]
    switch.meter_set_rates("IC.meter", 0, (1, 1, 1, 2))
    colours = [switch.process(1, data(), 1)[0][1][1] for _ in range(4)]
    assert colours == [0, 1, 3, 3]


def test_parser_counter(tmp_path: Path) -> None:
    switch = engine(
        tmp_path,
        parser_locals="ParserCounter() left; ParserPriority() priority;",
        states="""
            state more { pkt.extract(hdr.d); priority.set(3);
                left.set(hdr.d.b, 255, 8, 3, 1); transition select(left.is_zero()) {
                true: accept; false: next; } }
            state next { md.m = md.m + 1; left.decrement(1); pkt.advance(8);
                transition select(left.is_zero()) { true: accept; false: next; } }""",
        ingress="hdr.d.a = md.m;",
    )
    assert switch.process(1, data(b=0x2500) + bytes(9), 0) == [(2, data(a=6, b=0x2500) + bytes(3))]


def test_port_metadata(tmp_path: Path) -> None:
    """The port metadata are zeros."""
    switch = engine(
        tmp_path,
        declarations="struct port_t { bit<16> a; bit<48> b; }",
        parser_locals="port_t port;",
        port_metadata="port = port_metadata_unpack<port_t>(pkt); md.n = port.a;",
        ingress="hdr.d.b = md.n; hdr.d.c = sizeInBits(hdr.d) + sizeInBytes(hdr.d);",
    )
    assert switch.process(1, data(b=4), 0) == [(2, data(c=72))]


def test_functions(tmp_path: Path) -> None:
    switch = engine(
        tmp_path,
        ingress="hdr.d.a = max(min(hdr.d.a, 9), hdr.d.op);"
        "funnel_shift_right(hdr.d.b, 16w0x1234, hdr.d.b, 4);",
    )
    assert switch.process(1, data(3, 200, 0xABCD), 0) == [(2, data(3, 9, 0x4ABC))]


def test_is_validated(tmp_path: Path) -> None:
    switch = engine(
        tmp_path,
        locals="""
            action mark(bit<8> value) { hdr.d.a = value; }
            table t { key = { is_validated(tm.ucast_egress_port): exact @name("port");
                              is_validated(tm.mcast_grp_a): exact @name("group"); }
                      actions = { mark; } default_action = mark(0);
                      const entries = { (true, false): mark(1); (false, true): mark(2); } }""",
        ingress="""
            if (hdr.d.op == 1) { invalidate(tm.ucast_egress_port); tm.mcast_grp_a = 5; }
            t.apply();
            if (is_validated(hdr.d.b)) { hdr.d.b = 7; }
            if (is_validated(hdr.ip.sum) || is_validated(hdr.ip)) { hdr.d.b = 8; }""",
    )
    assert switch.process(1, data(), 0) == [(2, data(a=1, b=7))]
    switch.multicast_set(5, [(3, 0)])
    assert switch.process(1, data(1), 0) == [(3, data(1, a=2, b=7))]
