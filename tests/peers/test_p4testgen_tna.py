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
    "--max-tests", "10", "--seed", "1", "--track-coverage", "STATEMENTS", "--port-ranges", "0:63",
)  # fmt: skip
# PTF tests have registers, ranges and action profiles, but expect that frames of less than 64
# bytes are dropped. STF tests have short frames.
STF = (*OPTIONS, "--test-backend", "STF", "--packet-size-range", f"0:{1500 * 8}")
PTF = (*OPTIONS, "--test-backend", "PTF", "--packet-size-range", f"{64 * 8}:{1500 * 8}")
TIMEOUT_S = 60
"""For each of the two path selections."""


def programs(paths: str) -> list[Path]:
    """Return the files in a list of files and folders, without those that only others include."""
    files = []
    for path in map(Path, filter(None, paths.split(":"))):
        files += sorted(path.glob("*.p4")) if path.is_dir() else [path]
    return [file for file in files if re.search(r"\bmain\s*;", file.read_text())]


PROGRAMS = programs(os.environ.get("TNA_PROGRAMS", ""))
EXPLANATIONS: tuple[Explanation, ...] = ()

pytestmark = pytest.mark.skipif(not installed(), reason="p4testgen is not on PATH")
of_each_program = pytest.mark.parametrize(
    "program", PROGRAMS, ids=lambda path: f"{path.parent.name}/{path.stem}"
)


@pytest.mark.parametrize("backend", ["STF", "PTF"])
@of_each_program
def test_generated_packets_leave_as_expected(program: Path, backend: str) -> None:
    switch = Engine(compile_p4(program, defines=(DEFINE,)).bmv2_json)
    if backend == "STF":
        scripts = generate(program, STF, TIMEOUT_S)
    else:
        scripts = {
            f"{file} {test}": script
            for file, tests in generate(program, PTF, TIMEOUT_S).items()
            for test, script in scripts_of(tests, switch.program).items()
        }
    explained, unexplained = set(), []
    for name, script in scripts.items():
        test = StfRun(switch.another(), name)
        test.run(script.splitlines())
        for failure in test.failures():
            if any(each.applies(program, script, failure) for each in EXPLANATIONS):
                explained.add(name)
            else:
                unexplained.append(failure)
    print(f"{program.stem} {backend}: {len(scripts)} generated, {len(explained)} explained")
    assert unexplained == []
