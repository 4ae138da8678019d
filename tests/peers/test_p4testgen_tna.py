"""Tests that p4testgen generates for TNA programs, if it has the target tofino.

The programs are not part of this repository. TNA_PROGRAMS lists them, or folders that contain
them, separated by colons. P4C_16_INCLUDE_PATH is the folder of p4c's tna.p4.

minip4 must send the packets that p4testgen expects. If p4testgen expects other packets,
EXPLANATIONS states why.
"""

import os
import re
from pathlib import Path

import pytest
from generated_tests import Explanation, generate, installed
from ptf_scripts import scripts_of

from minip4.compiler import compile_p4
from minip4.engine.engine import Engine
from minip4.stf.script import StfRun

DEFINE = "__TARGET_TOFINO__=1"
OPTIONS = (
    "--target", "tofino", "--arch", "tna", f"-D{DEFINE}",
    "--max-tests", "20", "--seed", "1", "--track-coverage", "STATEMENTS", "--port-ranges", "0:63",
)  # fmt: skip
# PTF tests have registers, ranges and action profiles. STF tests have short frames, which PTF
# tests cannot send.
PTF = (*OPTIONS, "--test-backend", "PTF", "--packet-size-range", f"{64 * 8}:{1500 * 8}")
STF = (*OPTIONS, "--test-backend", "STF", "--packet-size-range", f"0:{1500 * 8}")
TIMEOUT_S = 120
PIPELINES = 2  # ingress and egress


def programs(paths: str) -> list[Path]:
    """Return the files in a list of files and folders, without those that only others include."""
    files = []
    for path in map(Path, filter(None, paths.split(":"))):
        files += sorted(path.glob("*.p4")) if path.is_dir() else [path]
    return [file for file in files if re.search(r"\bmain\s*;", file.read_text())]


PROGRAMS = programs(os.environ.get("TNA_PROGRAMS", ""))
EXPLANATIONS = (
    Explanation(
        ("parser_reject", "tna_pvs_fixed"), r"(?m)^# \[State\] reject$", "got nothing$",
        "p4testgen continues after the state reject in ingress; minip4 drops the packet",
    ),
    Explanation(
        ("tna_extract_emit_8",), "Drop packet smaller than", "unexpected frame",
        "p4testgen assumes in PTF tests that frames of less than 64 bytes after ingress are lost",
    ),
    Explanation(
        ("tna_register_action_1",), "ping_get.execute", "expected",
        "p4testgen does not store results of register actions, so the second action of a packet "
        "reads the old value; Tofino cannot execute two actions of one register for a packet",
    ),
    Explanation(
        ("port_copying",), "copy_to_cpu = 1", "port 64: unexpected frame",
        "p4testgen does not send the copy to the CPU port",
    ),
)  # fmt: skip

pytestmark = pytest.mark.skipif(not installed(), reason="p4testgen is not on PATH")
of_each_program = pytest.mark.parametrize(
    "program", PROGRAMS, ids=lambda path: f"{path.parent.name}/{path.stem}"
)


@of_each_program
def test_ptf(program: Path) -> None:
    switch = Engine(compile_p4(program, defines=(DEFINE,)).bmv2_json)
    files = generate(program, PTF, ("GREEDY_STATEMENT_SEARCH",), TIMEOUT_S)
    scripts: dict[str, str] = {}
    for tests in files.values():
        scripts |= scripts_of(tests, switch.program)
    check(program, switch, scripts)


@of_each_program
def test_stf(program: Path) -> None:
    switch = Engine(compile_p4(program, defines=(DEFINE,)).bmv2_json)
    if len(switch.program.pipelines) > PIPELINES:
        pytest.skip("several pipelines: the names of tables in STF scripts are ambiguous")
    scripts = generate(program, STF, ("RANDOM_BACKTRACK",), TIMEOUT_S)
    check(program, switch, {n: s.replace("$valid:", "$valid$:") for n, s in scripts.items()})


def check(program: Path, switch: Engine, scripts: dict[str, str]) -> None:
    """Run scripts on new engines. Fail if a difference has no explanation."""
    if not scripts:
        pytest.skip("p4testgen generated no test")
    explained, unexplained = set(), []
    for name, script in scripts.items():
        test = StfRun(switch.another(), name)
        test.run(script.splitlines())
        for failure in test.failures():
            if any(each.applies(program, script, failure) for each in EXPLANATIONS):
                explained.add(name)
            else:
                unexplained.append(failure)
    print(f"{program.stem}: {len(scripts)} generated, {len(explained)} explained")
    assert unexplained == []
