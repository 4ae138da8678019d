"""Objects of table entries in TNA: direct registers, counters and meters."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tna_programs import compiled, data, engine

from minip4.engine.control.trace import Trace
from minip4.engine.engine import Engine
from minip4.engine.errors import InvalidArgument, TooLarge
from minip4.engine.keys import Exact, Ternary
from minip4.errors import Minip4Error

COUNT = """
    DirectRegister<bit<32>>(100) reg;
    DirectRegisterAction<bit<32>, bit<32>>(reg) increment = {
        void apply(inout bit<32> value, out bit<32> rv) { rv = value; value = value + 1; } };
    action count(bit<8> by) { hdr.d.c = increment.execute(); hdr.d.a = by; }
    action leave() { }
"""
TABLE = """
    table t { key = { hdr.d.op: exact; } actions = { count; leave; }
              default_action = leave(); size = 64; registers = reg; }
"""


def counted(switch: Engine, op: int) -> int:
    """Return the field that a packet with this key gets from its cell."""
    ((_, frame),) = switch.process(1, data(op), 0)
    return int.from_bytes(frame[4:8], "big")


def test_a_cell_per_entry(tmp_path: Path) -> None:
    switch = engine(tmp_path, locals=COUNT + TABLE, ingress="t.apply();")
    handles = [switch.table_add("IC.t", [Exact(op)], "IC.count", [op]) for op in range(1, 41)]
    for op in range(1, 41):
        assert [counted(switch, op) for _ in range(op % 3)] == [100, 101][: op % 3]
    assert counted(switch, 2) == 102
    switch.table_modify("IC.t", handles[1], "IC.leave", [])
    assert counted(switch, 2) == 0
    switch.table_modify("IC.t", handles[1], "IC.count", [7])
    assert counted(switch, 2) == 103  # a changed entry keeps its cell
    switch.table_delete("IC.t", handles[1])
    switch.table_add("IC.t", [Exact(2)], "IC.count", [7])
    assert counted(switch, 2) == 100  # a new one does not
    assert counted(switch, 200) == 0


def test_cells_in_a_batch(tmp_path: Path) -> None:
    switch = engine(tmp_path, locals=COUNT + TABLE, ingress="t.apply();")
    first = switch.table_add("IC.t", [Exact(1)], "IC.count", [0])
    assert counted(switch, 1) == 100
    with switch.batch():
        switch.table_modify("IC.t", first, "IC.count", [9])
        for op in range(2, 20):
            switch.table_add("IC.t", [Exact(op)], "IC.count", [0])
    assert switch.process(1, data(1), 0) == [(2, data(1, a=9, c=101))]
    assert counted(switch, 19) == 100


def test_default_entry_has_a_cell(tmp_path: Path) -> None:
    table = TABLE.replace("leave();", "count(5);")
    switch = engine(tmp_path, locals=COUNT + table, ingress="t.apply();")
    assert [counted(switch, op) for op in (1, 2, 3)] == [100, 101, 102]


def test_table_without_key(tmp_path: Path) -> None:
    table = "table t { actions = { count; } const default_action = count(4); }"
    switch = engine(tmp_path, locals=COUNT + table, ingress="t.apply();")
    assert switch.process(1, data(), 0) == [(2, data(a=4, c=100))]
    assert counted(switch, 1) == 101


def test_outside_of_actions(tmp_path: Path) -> None:
    """Without a table, the register has one cell."""
    switch = engine(tmp_path, locals=COUNT, ingress="hdr.d.c = increment.execute();")
    assert [counted(switch, op) for op in (1, 2, 3)] == [100, 101, 102]
    assert switch.register_read("IC.reg", 0) == 103


def test_structs_next_to_other_objects(tmp_path: Path) -> None:
    """Counters, cells of several registers, and the time of the last hit share an entry."""
    switch = engine(
        tmp_path,
        declarations="struct pair_t { bit<64> first; bit<16> second; }",
        locals="""
            DirectRegister<pair_t>({1, 2}) pairs;
            DirectRegister<bit<8>>(3) small;
            DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) stats;
            DirectRegisterAction<pair_t, bit<16>>(pairs) step = {
                void apply(inout pair_t value, out bit<16> rv) {
                    value.first = value.first + 1; value.second = value.second + 10;
                    rv = value.second + value.first[15:0]; } };
            action all() { stats.count(); hdr.d.b = step.execute(); hdr.d.a = small.read();
                           small.write(hdr.d.a + 5); }
            table t { key = { hdr.d.op: ternary; } actions = { all; NoAction; } size = 8;
                      counters = stats; idle_timeout = true; }""",
        ingress="t.apply();",
    )
    low = switch.table_add("IC.t", [Ternary(0, 0x80)], "IC.all", [], 1)
    switch.table_add("IC.t", [Ternary(0x80, 0x80)], "IC.all", [], 1)
    assert switch.process(1, data(1), 0) == [(2, data(1, a=3, b=14))]
    assert switch.process(1, data(1), 0) == [(2, data(1, a=8, b=25))]
    assert switch.process(1, data(129), 0) == [(2, data(129, a=3, b=14))]
    assert switch.table_entry("IC.t", low, time_ns=30).idle_ns == 30
    counts = {e.handle: e.count for e in switch.table_entries("IC.t")}
    assert counts[low] == (2, 16)


STATS = """
    DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) stats;
    action count() { stats.count(); }
    action less() { stats.count(6); }
    action nothing() { }
    action none() { stats.count(100); }
    table t { key = { hdr.d.op: exact; } actions = { count; less; nothing; none; }
              default_action = count(); counters = stats; }
"""


def test_direct_counter(tmp_path: Path) -> None:
    """It counts where an action calls count(), without the given number of bytes."""
    switch = engine(tmp_path, locals=STATS, ingress="t.apply();")
    for op, action in enumerate(("count", "less", "nothing", "none")):
        switch.table_add("IC.t", [Exact(op)], f"IC.{action}", [])
    for op in (0, 1, 2, 3, 0, 1, 9):
        switch.process(1, data(op) + bytes(12), 0)
    counts = [e.count for e in switch.table_entries("IC.t")]
    assert sorted(counts) == [(0, 0), (1, 0), (2, 28), (2, 40)]


METER = """
    DirectMeter(MeterType_t.BYTES, 7, 5, 4) meter;
    action colour() { hdr.d.a = meter.execute(); }
    action less() { hdr.d.a = meter.execute(adjust_byte_count = 8); }
    action known() { hdr.d.a = meter.execute(MeterColor_t.YELLOW); }
    table t { key = { hdr.d.op: exact; } actions = { colour; less; known; }
              default_action = colour(); meters = meter; }
"""


def test_direct_meter(tmp_path: Path) -> None:
    """The bucket of 20 bytes has room for a packet of 20 bytes, or for several with fewer."""
    switch = engine(tmp_path, locals=METER, ingress="t.apply();")
    for op, action in enumerate(("colour", "less", "known")):
        handle = switch.table_add("IC.t", [Exact(op)], f"IC.{action}", [])
        switch.direct_meter_set("IC.t", handle, (1, 20, 1, 40))

    def colours(op: int) -> list[int]:
        return [switch.process(1, data(op) + bytes(12), 1)[0][1][1] for _ in range(4)]

    assert colours(0) == [4, 5, 7, 7]
    assert colours(1) == [4, 5, 5, 7]  # 12 bytes each
    assert colours(2) == [5, 5, 7, 7]
    assert colours(9) == [4] * 4  # a miss has no meter


def test_colour_aware_meter(tmp_path: Path) -> None:
    """A packet is never better than before (RFC 2698, colour-aware mode)."""
    switch = engine(
        tmp_path,
        locals="Meter<bit<8>>(4, MeterType_t.PACKETS) meter;",
        ingress="hdr.d.a = meter.execute(0, (MeterColor_t)hdr.d.op);",
    )

    def colours(*before: int) -> list[int]:
        return [switch.process(1, data(op), 1)[0][1][1] for op in before]

    assert colours(0, 1, 3) == [0, 1, 3]  # without rates
    switch.meter_set_rates("IC.meter", 0, (1, 2, 1, 4))
    # green takes a token of each bucket, yellow one of the second, red none
    assert colours(3, 1, 0, 0, 0, 0) == [3, 1, 0, 0, 1, 3]


def test_colour_beyond_red_is_red(tmp_path: Path) -> None:
    """JSON may contain any number as the colour of a packet."""
    document = compiled(
        tmp_path,
        locals="Meter<bit<8>>(4, MeterType_t.PACKETS) meter;",
        ingress="hdr.d.a = meter.execute(0, MeterColor_t.RED);",
    ).bmv2_json
    (colour,) = [
        primitive["parameters"]
        for action in document["actions"]
        for primitive in action["primitives"]
        if primitive["op"] == "execute_meter"
    ]
    colour[-1] = {"type": "hexstr", "value": "0x7fffffff"}
    switch = Engine(document, sanitize=False)
    switch.process(1, data(), 1)
    assert switch.process(1, data(), 1)


def test_meter_leaves_bytes_out(tmp_path: Path) -> None:
    switch = engine(
        tmp_path,
        locals="Meter<bit<8>>(4, MeterType_t.BYTES) meter;",
        ingress="hdr.d.a = meter.execute(index = 1, adjust_byte_count = 16w10 ++ hdr.d.b);",
    )
    switch.meter_set_rates("IC.meter", 1, (1, 100, 1, 100))
    switch.process(1, data(b=5) + bytes(12), 1)
    assert switch.meter_counts("IC.meter", 1)[0] == (1, 0)  # 10 * 65536 + 5 bytes are left out


@pytest.mark.parametrize(
    ("locals_", "apply", "message"),
    [
        (
            COUNT + TABLE + TABLE.replace("table t", "table u"),
            "t.apply(); u.apply();",
            "IC.reg does not belong to table IC.u",
        ),
        (COUNT + TABLE, "t.apply(); hdr.d.c = increment.execute();", "IC.reg belongs to IC.t"),
        (STATS, "t.apply(); stats.count();", "IC.stats belongs to a table"),
        (
            STATS.replace("counters = stats;", ""),
            "t.apply();",
            "IC.stats does not belong to table IC.t",
        ),
    ],
)
def test_refused(tmp_path: Path, locals_: str, apply: str, message: str) -> None:
    with pytest.raises(Minip4Error, match=message):
        compiled(tmp_path, locals=locals_, ingress=apply)


def test_trace(tmp_path: Path) -> None:
    """Objects of the entry have no index. After a miss, only registers do anything."""
    program = compiled(
        tmp_path,
        locals="""
            DirectRegister<bit<32>>(100) reg;
            DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) stats;
            DirectMeter(MeterType_t.PACKETS) meter;
            DirectRegisterAction<bit<32>, bit<32>>(reg) increment = {
                void apply(inout bit<32> value) { value = value + 1; } };
            action all() { increment.execute(); stats.count(2); hdr.d.a = meter.execute(); }
            table t { key = { hdr.d.op: exact; } actions = { all; } default_action = all();
                      counters = stats; meters = meter; }""",
        ingress="t.apply();",
    )
    switch = Engine(program.bmv2_json, trace=True)
    switch.table_add("IC.t", [Exact(1)], "IC.all", [])
    trace = Trace(switch)
    shown = []
    for op in (1, 2):
        switch.process(1, data(op), 0)
        lines = [line.strip() for block in trace.blocks() for line in block.splitlines()]
        shown.append([line for line in lines if line.startswith(("reg", "count", "meter"))])
    cell = ["register IC.reg read: 0x64", "register IC.reg written: 0x65"]
    hit = [*cell, "counter IC.stats: 1 packets, 6 bytes", "meter IC.meter: green"]
    assert shown[0] == hit
    assert shown[1] == cell


def test_direct_register_is_not_an_array(tmp_path: Path) -> None:
    switch = engine(tmp_path, locals=COUNT + TABLE, ingress="t.apply();")
    with pytest.raises(Minip4Error, match=r"register IC\.reg is direct"):
        switch.register_read("IC.reg", 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["register_arrays"][0].update(binding="IC.u"), "IC.reg belongs to another"),
        (lambda d: d["register_arrays"][0].update(bitwidth=2000), "2000 bits"),
        (lambda d: d["counter_arrays"][0].update(binding="IC.u"), "IC.stats belongs to another"),
        (
            lambda d: d["deparsers"][0]["primitives"].append(
                next(p for a in d["actions"] for p in a["primitives"] if p["op"] == "count")
            ),
            "IC.stats belongs to another",
        ),
        (
            lambda d: next(t for t in d["pipelines"][0]["tables"] if t["name"] == "IC.t").update(
                with_counters=False
            ),
            "IC.stats belongs to another",
        ),
    ],
)
def test_bad_json_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    """The C code would use the memory of another table."""
    locals_ = (
        COUNT.replace("= increment.execute();", "= increment.execute(); stats.count();")
        + TABLE.replace("registers", "counters = stats; registers")
        + "DirectCounter<bit<64>>(CounterType_t.PACKETS) stats;"
        "table u { key = { hdr.d.op: exact; } actions = { leave; } default_action = leave(); }"
    )
    stats = "DirectCounter<bit<64>>(CounterType_t.PACKETS) stats;"
    locals_ = stats + locals_.replace(stats, "")
    document = compiled(tmp_path, locals=locals_, ingress="t.apply(); u.apply();").bmv2_json
    Engine(document).close()
    change(document)
    with pytest.raises(InvalidArgument, match=message):
        Engine(document)


def test_cells_of_direct_registers_count_towards_the_limit(tmp_path: Path) -> None:
    """Each entry has a cell of each direct register of its table."""
    locals_ = COUNT + TABLE.replace("hdr.d.op", "hdr.d.b")
    document = compiled(tmp_path, locals=locals_, ingress="t.apply();").bmv2_json
    register = document["register_arrays"][0]
    document["register_arrays"] += [
        {**register, "name": f"more{i}", "id": 10 + i, "bitwidth": 1024} for i in range(1000)
    ]
    table = next(t for t in document["pipelines"][0]["tables"] if t["name"] == "IC.t")
    action = next(each for each in document["actions"] if each["name"] == "IC.leave")
    entry = {"action_entry": {"action_id": action["id"], "action_data": []}, "priority": 1}
    table["entries"] = [
        {**entry, "match_key": [{"match_type": "exact", "key": hex(key)}]} for key in range(5000)
    ]
    with pytest.raises(TooLarge, match=r"largest part: table IC\.t"):
        Engine(document)


FILTER = """
    DirectLpf<bit<32>>() lpf;
    action average() { hdr.d.c = lpf.execute(hdr.d.c); }
    action leave() { }
    table t { key = { hdr.d.op: exact; } actions = { average; leave; }
              default_action = leave(); filters = lpf; }"""


def test_direct_filter(tmp_path: Path) -> None:
    """Each table entry has its own average. All entries share the time constants."""
    program = compiled(tmp_path, locals=FILTER, ingress="t.apply();")
    assert not program.warnings
    (settings,) = program.p4info.registers
    assert (settings.preamble.name, settings.size) == ("IC.lpf", 1)
    switch = Engine(program.bmv2_json, sanitize=False)
    for key in (1, 2):
        switch.table_add("IC.t", [Exact(key)], "IC.average", [])
    switch.register_write("IC.lpf", 0, 1000 << 64 | 1000)

    def averaged(key: int, sample: int, time_ns: int) -> int:
        return int.from_bytes(switch.process(1, data(key, c=sample), time_ns)[0][1][4:8], "big")

    after = round(10_000 * (1 - math.exp(-0.5)))
    assert averaged(1, 10_000, 500) == after
    assert averaged(2, 0, 500) == 0  # the average of this entry
    assert averaged(1, after, 9000) == after
    assert averaged(3, 7, 9000) == 7  # a key without an entry


def test_direct_wred(tmp_path: Path) -> None:
    locals_ = FILTER.replace("DirectLpf<bit<32>>()", "DirectWred<bit<32>>(9, 6)").replace(
        "hdr.d.c = lpf", "hdr.d.a = lpf"
    )
    switch = engine(tmp_path, locals=locals_, ingress="t.apply();")
    switch.table_add("IC.t", [Exact(1)], "IC.average", [])
    switch.register_write("IC.lpf", 0, 100 << 64 | 50 << 128)
    for depth, value in ((49, 6), (100, 9)):
        assert switch.process(1, data(1, c=depth), 0) == [(2, data(1, a=value, c=depth))]


def test_direct_filter_outside_of_actions(tmp_path: Path) -> None:
    """A filter that the control uses directly has one average for all packets."""
    switch = engine(
        tmp_path,
        locals="DirectLpf<bit<32>>() lpf;",
        ingress="hdr.d.c = lpf.execute(hdr.d.c);",
    )
    switch.register_write("IC.lpf", 0, 10**9 << 64 | 10**9)
    assert switch.process(1, data(c=1000), 10**12) == [(2, data(c=1000))]
    assert switch.process(1, data(c=0), 10**12) == [(2, data(c=1000))]


def test_direct_filter_of_two_tables_is_refused(tmp_path: Path) -> None:
    second = "table u { key = { hdr.d.a: exact; } actions = { average; leave; } }"
    with pytest.raises(Minip4Error, match=r"IC\.lpf does not belong to table IC\.u"):
        compiled(tmp_path, locals=FILTER + second, ingress="t.apply(); u.apply();")


@pytest.mark.parametrize(
    "change",
    [
        lambda registers: registers["IC.lpf$state"].update(binding="IC.u"),
        lambda registers: registers["IC.lpf$state"].pop("binding"),
        lambda registers: registers["IC.lpf"].update(size=0),
    ],
    ids=["table", "index", "settings"],
)
def test_bad_json_of_a_direct_filter_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    second = "table u { key = { hdr.d.a: exact; } actions = { leave; } default_action = leave(); }"
    document = compiled(tmp_path, locals=FILTER + second, ingress="t.apply(); u.apply();").bmv2_json
    change({each["name"]: each for each in document["register_arrays"]})
    with pytest.raises(InvalidArgument):
        Engine(document)


def test_a_filter_without_an_index_needs_a_direct_state(tmp_path: Path) -> None:
    document = compiled(tmp_path, locals=FILTER, ingress="t.apply();").bmv2_json
    (state,) = (each for each in document["register_arrays"] if each["name"] == "IC.lpf$state")
    del state["binding"]
    state["size"] = 1
    with pytest.raises(InvalidArgument, match="a state for each cell"):
        Engine(document)
