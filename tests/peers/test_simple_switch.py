"""The programs of this repository on simple_switch and on minip4, if simple_switch is installed.

Both switches get random entries, and random frames at the same times. The tests of p4src/ can
compare them, too:

P4_SWITCH=simple_switch python -m pytest tests/p4src
"""

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import content
import pytest
import simple_switch
import subject
from random_packets import DEEP, PORTS, PROGRAMS, SEEDS, fill, frames
from simple_switch import SHORTEST_FRAME
from wire import namespace, run

pytestmark = pytest.mark.skipif(
    not simple_switch.installed(), reason="simple_switch and simple_switch_CLI are not on PATH"
)


@pytest.fixture(autouse=True, scope="module")
def _namespace() -> Iterator[None]:
    with namespace():
        run("ip link set dev lo up")
        yield


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_random_packets_leave_both_alike(program: Path) -> None:
    bmv2_json, first, left = subject.bmv2_json(program), subject.twins(program, PORTS), 0
    for seed in SEEDS:
        values = content.Values(random.Random(seed), bmv2_json)
        twins = first.another()
        words = fill(twins, values)
        for number, (port, frame) in enumerate(frames(values, words)):
            left += len(twins.process(port, frame, 1_000_000 * number))
        twins.compare_state()
    assert left >= 10 or program.stem in DEEP


def test_a_dead_switch_is_reported() -> None:
    twins = subject.twins(PROGRAMS[0], PORTS)
    os.kill(twins._switch._switch.pid, signal.SIGSEGV)
    with pytest.raises(AssertionError, match="simple_switch ended with -11"):
        twins.process(0, bytes(SHORTEST_FRAME), 0)
    twins._switch.close()
