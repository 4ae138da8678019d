"""The programs of this repository, compiled by p4c, if p4c is installed.

p4c must print no warnings. P4Info and sent packets must be the same as with minip4.
"""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import content
import pytest
import subject
from random_packets import DEEP, PANEL, PROGRAMS, REPOSITORY, SEEDS, fill, frames

from minip4.compiler import compile_p4
from minip4.engine.engine import Engine

pytestmark = pytest.mark.skipif(not subject.has_p4c(), reason="p4c-bm2-ss is not on PATH")
NOT_FOR_P4C = {
    "mixture.p4",  # the BMv2 back end of p4c does not support loops
    "translated.p4",  # p4c crashes on arguments whose type is a string for controllers
}
OF_PROFILES = "(due to action profiles)"  # intended: tables with profiles get no default action
COMMON = [program for program in [*PROGRAMS, PANEL] if program.name not in NOT_FOR_P4C]
TO_BE_USED = [program for program in COMMON if (REPOSITORY / "tests") not in program.parents]
# Programs whose ingress and egress share registers. In bmv2, both are threads, and bmv2 locks
# registers while it executes one action.
SHARING = [p for p in COMMON if p.parent.name == "roce" or p.stem == "translator"]
of_each_program = pytest.mark.parametrize("program", COMMON, ids=lambda path: path.stem)


@pytest.mark.parametrize("program", TO_BE_USED, ids=lambda path: path.stem)
def test_p4c_has_nothing_to_say(program: Path) -> None:
    said = subject.by_p4c(program).said.splitlines()
    assert [line for line in said if "warning" in line and not line.endswith(OF_PROFILES)] == []


@of_each_program
def test_the_p4info_is_ours(program: Path) -> None:
    assert subject.by_p4c(program).p4info == compile_p4(program).p4info


@of_each_program
def test_the_engine_does_the_same_with_p4c_s_json(program: Path) -> None:
    bmv2_json = compile_p4(program).bmv2_json
    first, second, left = Engine(bmv2_json), Engine(subject.by_p4c(program).bmv2_json), 0
    for seed in SEEDS:
        ours, theirs = first.another(), second.another()
        values, same_values = (content.Values(random.Random(seed), bmv2_json) for _ in range(2))
        words = fill(ours, values)
        assert fill(theirs, same_values) == words
        for number, (port, frame) in enumerate(frames(values, words)):
            sent = ours.process(port, frame, 1_000_000 * number)
            assert theirs.process(port, frame, 1_000_000 * number) == sent, frame.hex()
            left += len(sent)
        assert subject.state(theirs) == subject.state(ours)
    assert left >= 10 or program.stem in DEEP


@pytest.mark.parametrize("program", SHARING, ids=lambda path: path.stem)
def test_actions_access_the_same_registers(program: Path) -> None:
    ours, theirs = compile_p4(program).bmv2_json, subject.by_p4c(program).bmv2_json
    assert register_accesses(theirs) == register_accesses(ours)


def register_accesses(bmv2_json: dict[str, Any]) -> Counter[frozenset[tuple[str, str]]]:
    """Return the set of (operation, register) of each action that accesses registers."""
    accesses = [
        frozenset(
            (primitive["op"], parameter["value"])
            for primitive in action["primitives"]
            for parameter in primitive["parameters"]
            if parameter["type"] == "register_array"
        )
        for action in bmv2_json["actions"]
    ]
    return Counter(filter(None, accesses))
