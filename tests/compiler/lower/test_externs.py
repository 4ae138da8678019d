"""Calls of v1model's extern functions and methods, as primitives of BMv2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from programs_to_run import compiled, interpreter

FIELD = {"type": "field", "value": ["d", "w"]}


def hidden(json: dict[str, Any], name: str = "act") -> list[dict[str, Any]]:
    """Return the primitives of an action that the compiler made, without their source locations."""
    found = next(a for a in json["actions"] if a["name"] == name)
    return [{k: v for k, v in p.items() if k != "source_info"} for p in found["primitives"]]


def test_counter_meter_and_register(tmp_path: Path) -> None:
    json = compiled(
        tmp_path,
        locals="""counter(8, CounterType.packets) c; meter(4, MeterType.bytes) m;
                  register<bit<16>>(32) r;""",
        ingress="c.count(3); m.execute_meter(h.d.w, meta.m); r.read(meta.kept, 5);"
        " r.write(6, meta.kept);",
    ).bmv2_json
    kept = {"type": "field", "value": ["scalars", "userMetadata.kept"]}
    color = {"type": "field", "value": ["scalars", "userMetadata.m"]}
    array = {"type": "register_array", "value": "I.r"}
    assert [(p["op"], p["parameters"]) for p in hidden(json)] == [
        (
            "count",
            [{"type": "counter_array", "value": "I.c"}, {"type": "hexstr", "value": "0x00000003"}],
        ),
        ("execute_meter", [{"type": "meter_array", "value": "I.m"}, FIELD, color]),
        ("register_read", [kept, array, {"type": "hexstr", "value": "0x00000005"}]),
        ("register_write", [array, {"type": "hexstr", "value": "0x00000006"}, kept]),
    ]
    assert json["register_arrays"][0].items() >= {"size": 32, "bitwidth": 16}.items()
    assert json["meter_arrays"][0].items() >= {"type": "bytes", "size": 4, "rate_count": 2}.items()


def test_register_into_a_slice(tmp_path: Path) -> None:
    switch = interpreter(
        tmp_path,
        locals="register<bit<4>>(2) r;",
        ingress="r.write(1, h.d.b[3:0]); r.read(h.d.a[7:4], 1);",
    )
    result = switch.run(bytes.fromhex("0102037f00000004"))
    assert result is not None
    assert result[1].hex().startswith("2102")


@pytest.mark.parametrize("call", ["take();", "if (h.d.a == 1) { outer(); }"])
def test_an_action_with_registers_and_branches_stays_one_action(tmp_path: Path, call: str) -> None:
    """bmv2 locks registers while it executes one action.

    If the code became two actions, egress could write a register between the read of the first
    action and the write of the second one.
    """
    parts = {
        "locals": """register<bit<8>>(2) r;
                     action take() { bit<8> next; r.read(next, 1);
                                     if (next > 1) { next = 0; } r.write(1, next + 1); }
                     action outer() { take(); h.d.b = 7; }""",
        "ingress": f"r.write(1, 2); {call} if (h.d.a == 1) {{ r.read(h.d.c, 1); }}",
    }
    json = compiled(tmp_path, **parts).bmv2_json
    operations = [[p["op"] for p in action["primitives"]] for action in json["actions"]]
    (taking,) = (each for each in operations if each.count("_jump_if_zero"))
    first = taking.index("register_read")
    assert {"_jump_if_zero", "register_write"} <= {*taking[first:]}
    switch = interpreter(tmp_path, **parts)
    result = switch.run(bytes.fromhex("0102037f00000004"))
    assert result is not None
    assert result[1].hex()[4:6] == "01"  # 2 > 1, so `next` becomes 0, and 0 + 1 is written


def test_direct_counter_and_meter(tmp_path: Path) -> None:
    json = compiled(
        tmp_path,
        locals="""direct_counter(CounterType.packets) c; direct_meter<bit<8>>(MeterType.packets) m;
                  action a() { c.count(); m.read(meta.m); }
                  table t { key = { h.d.a : exact; } actions = { a; } counters = c;
                            meters = m; }""",
        ingress="t.apply();",
    ).bmv2_json
    table = json["pipelines"][0]["tables"][0]
    assert (table["with_counters"], table["direct_meters"]) == (True, "I.m")
    assert json["counter_arrays"][0].items() >= {"is_direct": True, "binding": "I.t"}.items()
    meter = json["meter_arrays"][0]
    assert (meter["binding"], meter["result_target"]) == ("I.t", ["scalars", "userMetadata.m"])


CLONES = {
    "clone(CloneType.I2E, 5);": ("clone_ingress_pkt_to_egress", ["0x00000005", "0x00000002"]),
    "clone_preserving_field_list(CloneType.I2E, 5, 1);": (
        "clone_ingress_pkt_to_egress",
        ["0x00000005", "0x00000001"],
    ),
    "resubmit_preserving_field_list(1);": ("resubmit", ["0x00000001"]),
    "resubmit_preserving_field_list(8);": ("resubmit", ["0x00000002"]),
}


@pytest.mark.parametrize("code", CLONES)
def test_field_lists(tmp_path: Path, code: str) -> None:
    json = compiled(tmp_path, ingress=code).bmv2_json
    (primitive,) = hidden(json)
    assert (primitive["op"], [p["value"] for p in primitive["parameters"]]) == CLONES[code]
    assert json["field_lists"][0] == {
        "id": 1,
        "name": "field_list1",
        "elements": [{"type": "field", "value": ["scalars", "userMetadata.kept"]}],
    }


OF_METADATA = ["userMetadata.m", "userMetadata.inner.p", "userMetadata.inner.q",
               "userMetadata.flag", "userMetadata.kept"]  # fmt: skip
OLDER_CALLS = {
    "clone3(CloneType.I2E, 5, { meta.m, meta.inner });": OF_METADATA[:3],
    "clone3<metadata_t>(CloneType.I2E, 5, meta);": OF_METADATA,
    "clone3(CloneType.I2E, 5, {});": [],
    "resubmit({ meta.flag });": ["userMetadata.flag"],
    "resubmit(meta.kept);": ["userMetadata.kept"],
}


@pytest.mark.parametrize("code", OLDER_CALLS)
def test_calls_with_data_have_a_field_list_of_their_own(tmp_path: Path, code: str) -> None:
    json = compiled(tmp_path, ingress=code).bmv2_json
    (primitive,) = hidden(json)
    number = int(primitive["parameters"][-1]["value"], 16)
    (taken,) = [each for each in json["field_lists"] if each["id"] == number]
    assert [e["value"] for e in taken["elements"]] == [["scalars", x] for x in OLDER_CALLS[code]]


def test_calls_with_the_same_data_share_a_field_list(tmp_path: Path) -> None:
    json = compiled(
        tmp_path,
        ingress="clone3(CloneType.I2E, 5, { meta.m }); resubmit({ meta.m });"
        " resubmit({ meta.inner.p });",
        egress="recirculate({ meta.m }); clone3(CloneType.E2E, 5, { meta.inner.p });",
    ).bmv2_json
    assert [each["name"] for each in json["field_lists"]] == ["field_list1", "data2", "data3"]


def test_egress_clones_and_recirculates(tmp_path: Path) -> None:
    json = compiled(
        tmp_path,
        egress="clone(CloneType.E2E, h.d.w); recirculate_preserving_field_list(1); truncate(60);",
    ).bmv2_json
    assert [p["op"] for p in hidden(json)] == [
        "clone_egress_pkt_to_egress",
        "recirculate",
        "truncate",
    ]


def test_digest_takes_the_values_of_now(tmp_path: Path) -> None:
    json = compiled(
        tmp_path,
        ingress="digest<inner_t>(7, { h.d.a, h.d.b + 1 }); h.d.a = 0;",
    ).bmv2_json
    (learned,) = json["learn_lists"]
    assert (learned["id"], learned["name"]) == (1, "inner_t")
    assert [e["value"][0] for e in learned["elements"]] == ["scalars", "scalars"]
    assert [p["op"] for p in hidden(json)] == ["assign", "assign", "generate_digest", "assign"]


def test_hash(tmp_path: Path) -> None:
    switch = interpreter(
        tmp_path,
        ingress="hash(h.d.a, HashAlgorithm.identity, 8w3, { h.d.b, h.d.c ++ 8w1 }, 16w0x100);",
    )
    result = switch.run(bytes.fromhex("0102037f00000004"))
    assert result is not None
    assert result[1].hex().startswith("0402")


def test_log_and_assert(tmp_path: Path) -> None:
    switch = interpreter(
        tmp_path, ingress='log_msg("a={} b={}", { h.d.a + 1, h.d.b == 2 }); assert(h.d.a == 1);'
    )
    switch.run(bytes.fromhex("0102037f00000004"))
    assert switch.log == [("log_msg", ["a={} b={}", [2, 1]]), ("assert", [1])]


def test_random(tmp_path: Path) -> None:
    json = compiled(tmp_path, ingress="random(h.d.w, 5, 9);").bmv2_json
    (primitive,) = hidden(json)
    assert primitive["op"] == "modify_field_rng_uniform"
    assert primitive["parameters"][0] == FIELD
