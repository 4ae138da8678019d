"""Warnings about what the stateful ALUs of a Tofino cannot do (minip4/compiler/tna/hardware.py)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tna_programs import compiled, write

from minip4.cli import main

REGISTER = "Register<bit<32>, bit<8>>(8) reg;"
COUNT = """
    RegisterAction<bit<32>, bit<8>, bit<32>>(reg) count = {
        void apply(inout bit<32> value, out bit<32> rv) { value = value + 1; rv = value; }
    };
    RegisterAction<bit<32>, bit<8>, bit<32>>(reg) get = {
        void apply(inout bit<32> value, out bit<32> rv) { rv = value; }
    };
"""


def messages(folder: Path, **parts: str) -> list[str]:
    program = compiled(folder, **parts)
    return [warning.message for warning in program.warnings if warning.kind == "hardware"]


@pytest.mark.parametrize(
    "ingress",
    [
        "if (hdr.d.op == 1) { hdr.d.c = count.execute(0); } else { hdr.d.c = get.execute(1); }",
        "if (hdr.d.op == 1) { hdr.d.c = count.execute(0); exit; } hdr.d.c = get.execute(1);",
        "if (hdr.d.op == 1) { hdr.d.c = count.execute(0); return; } hdr.d.c = get.execute(1);",
        "t.apply();",
        "switch (t.apply().action_run) { NoAction: { hdr.d.c = get.execute(2); } }",
    ],
    ids=["branches", "exit", "return", "actions of a table", "branch of another action"],
)
def test_accesses_that_exclude_each_other_are_possible(tmp_path: Path, ingress: str) -> None:
    assert not messages(tmp_path, locals=REGISTER + COUNT + TABLE, ingress=ingress)


TABLE = """
    action a() { hdr.d.c = count.execute(0); }
    action b() { hdr.d.c = get.execute(0); }
    table t { key = { hdr.d.op: exact; } actions = { a; b; NoAction; } }
"""


@pytest.mark.parametrize(
    "ingress",
    [
        "hdr.d.c = count.execute(0); hdr.d.c = get.execute(1);",
        "if (hdr.d.op == 1) { hdr.d.c = count.execute(0); } hdr.d.c = get.execute(1);",
        "t.apply(); hdr.d.c = get.execute(1);",
        "if (t.apply().hit) { hdr.d.c = get.execute(1); }",
        "switch (t.apply().action_run) { a: { hdr.d.c = get.execute(2); } }",
        "hdr.d.c = reg.read(0); reg.write(0, hdr.d.c + 1);",
        "hdr.d.c = count.execute_log(); hdr.d.c = get.execute_log();",
    ],
    ids=["twice", "branch", "table", "hit", "branch of the action", "read and write", "logs"],
)
def test_second_access_to_a_register(tmp_path: Path, ingress: str) -> None:
    (message,) = messages(tmp_path, locals=REGISTER + COUNT + TABLE, ingress=ingress)
    assert message.startswith("second access to IC.reg for one packet (first: line ")


def action_of(code: str) -> str:
    return REGISTER + (
        "RegisterAction<bit<32>, bit<8>, bit<32>>(reg) act = {"
        "void apply(inout bit<32> value, out bit<32> rv) { " + code + " } };"
    )


@pytest.mark.parametrize(
    "code",
    [
        "if (value > 5 && hdr.d.c == 3) { value = value + hdr.d.c; } rv = value;",
        "value = (value & 0xff) | (hdr.d.c & 0xff00); rv = 0;",
        "if (value - hdr.d.c > 100) { value = 1 << 4; } rv = value |+| 1;",
        "if (value > 5) { rv = 1; } else if (value > 5) { rv = 2; } else { rv = 3; }",
    ],
    ids=["two comparisons", "or of two", "constants", "the same comparison"],
)
def test_code_that_a_stateful_alu_can_run(tmp_path: Path, code: str) -> None:
    assert not messages(tmp_path, locals=action_of(code), ingress="hdr.d.c = act.execute(0);")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("value = value >> 1; rv = 0;", "a stateful ALU of Tofino has no operator >>"),
        ("value *= 3; rv = 0;", "a stateful ALU of Tofino has no operator *"),
        (
            "value = value + hdr.d.c - 1; rv = 0;",
            "a stateful ALU of Tofino has one operator per assignment",
        ),
        (
            "rv = 0; if (value > 5 && value < 9 && hdr.d.c != 0) { value = 1; }",
            "3 comparisons, but a stateful ALU of Tofino has 2",
        ),
    ],
    ids=["shift", "assignment with an operator", "two operators", "three comparisons"],
)
def test_code_beyond_a_stateful_alu(tmp_path: Path, code: str, message: str) -> None:
    found = messages(tmp_path, locals=action_of(code), ingress="hdr.d.c = act.execute(0);")
    assert found == [message]


@pytest.mark.parametrize(
    ("cell", "fits"),
    [("bit<1>", True), ("bit<64>", True), ("two_t", True), ("bit<24>", False), ("three_t", False),
     ("mixed_t", False)],
)  # fmt: skip
def test_types_of_cells(tmp_path: Path, cell: str, fits: bool) -> None:
    structs = (
        "struct two_t { bit<32> a; bit<32> b; } struct mixed_t { bit<8> a; bit<16> b; }"
        "struct three_t { bit<16> a; bit<16> b; bit<16> c; }"
    )
    found = messages(tmp_path, declarations=structs, locals=f"Register<{cell}, bit<8>>(8) reg;")
    expected = [] if fits else ["Tofino has no register with cells of this type: reg"]
    assert found == expected


def test_strict_hardware_refuses_the_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, locals=action_of("value = value >> 1; rv = 0;"),
                 ingress="hdr.d.c = act.execute(0);")  # fmt: skip
    output, log = tmp_path / "program.json", tmp_path / "log.sarif"
    options = ["-o", str(output), "--sarif", str(log)]
    assert main(["compile", str(path), *options, "--strict-hardware"]) != 0
    assert not output.exists()
    assert '"ruleId": "hardware"' in log.read_text()
    assert f"{path}: beyond a Tofino's hardware at 1 place(s)" in capsys.readouterr().err
    assert main(["compile", str(path), "-o", str(output)]) == 0
