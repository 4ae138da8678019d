"""The compiler and the switch that the tests of p4src/ use. By default, both are those of minip4.

P4_COMPILER=p4c           p4c-bm2-ss compiles the program, instead of minip4
P4_SWITCH=simple_switch   simple_switch runs it in parallel with minip4's engine; both must agree
"""

import functools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finsy.proto import p4i
from google.protobuf import text_format
from simple_switch import Twins

from minip4.compiler import compile_p4
from minip4.engine.engine import Engine

P4C = "p4c-bm2-ss"


@dataclass(frozen=True)
class ByP4c:
    """The output of p4c for a program: BMv2 JSON, P4Info, and messages."""

    bmv2_json: dict[str, Any]
    p4info: p4i.P4Info
    said: str


def has_p4c() -> bool:
    """Return whether p4c-bm2-ss is on PATH."""
    return shutil.which(P4C) is not None


@functools.cache
def by_p4c(program: Path) -> ByP4c:
    """Compile a program with p4c. Raises AssertionError if p4c fails."""
    with tempfile.TemporaryDirectory() as folder:
        output, p4info = Path(folder) / "program.json", Path(folder) / "program.txtpb"
        command = [P4C, str(program), "-o", str(output), "--p4runtime-files", str(p4info)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        assert done.returncode == 0, said
        message = text_format.Parse(p4info.read_text(), p4i.P4Info())
        return ByP4c(json.loads(output.read_text()), message, said)


def bmv2_json(program: Path) -> dict[str, Any]:
    """Return the BMv2 JSON of a program. P4_COMPILER selects the compiler."""
    if os.environ.get("P4_COMPILER") == "p4c":
        return by_p4c(program).bmv2_json
    return compile_p4(program).bmv2_json


def twins(program: Path, ports: Sequence[int]) -> Twins:
    """Return a pair of minip4's engine and simple_switch. Both run the program, and must agree."""
    return Twins(Engine(bmv2_json(program)), bmv2_json(program), ports)


def switch(program: Path, ports: Sequence[int]) -> Engine | Twins:
    """Return a new switch that runs the program. P4_SWITCH selects the kind of switch."""
    return _compiled_switch(program, tuple(ports)).another()


@functools.cache
def _compiled_switch(program: Path, ports: Sequence[int]) -> Engine | Twins:
    if os.environ.get("P4_SWITCH") == "simple_switch":
        return twins(program, ports)
    return Engine(bmv2_json(program))


def state(engine: Engine) -> dict[str, object]:
    """Return all counters and registers of an engine."""
    counters = {
        name: engine.counter_read_all(name)
        for name, counter in engine.program.counters.items()
        if counter.table is None
    }
    return counters | {name: engine.register_read_all(name) for name in engine.program.registers}
