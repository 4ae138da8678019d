"""Tests that p4testgen generates for our programs, if p4testgen is installed.

A script has table entries, a packet, and the packets that p4testgen expects. minip4 and
simple_switch must send the same packets. If p4testgen expects other packets, EXPLANATIONS states
why it is wrong.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import simple_switch
import subject
from generated_tests import CASES, PORTS, Explanation, clone_ports, generate, installed
from wire import namespace, run

from minip4.compiler import compile_p4
from minip4.engine.engine import Engine
from minip4.stf.script import StfRun

pytestmark = pytest.mark.skipif(not installed(), reason="p4testgen is not on PATH")
of_each_program = pytest.mark.parametrize(
    "program", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}"
)


CLONING = ("roce", "hold_off", "reporter")
EXPLANATIONS = (
    Explanation(
        ("link_monitor",), r"(extract<probe_fwd_t>\(hdr\.probe_fwd\[0\]\)[\s\S]*){2}", "expected",
        "p4testgen extracts all elements of the stack probe_fwd into the first one, and so it "
        "expects a packet without the other elements",
    ),
    # p4testgen follows a packet or its clone, but not both. simple_switch always sends the packet.
    # Egress drops the clone if its session has no collector or translator.
    Explanation(
        CLONING, r"(?m)^mirroring_add ", "expected any packet, got nothing$",
        "p4testgen follows the packet and expects any clone of it",
    ),
    Explanation(
        CLONING, r"(?m)^mirroring_add (?![\s\S]*^expect )", "unexpected frame",
        "p4testgen follows the dropped clone and expects no packet",
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def _namespace() -> Iterator[None]:
    with namespace():
        run("ip link set dev lo up")
        yield


class Pair:
    """Two engines that get the same calls. A call fails if the two results differ."""

    def __init__(self, first: Engine, second: Engine) -> None:
        self._first, self._second = first, second

    def __getattr__(self, name: str) -> Any:
        of_first, of_second = getattr(self._first, name), getattr(self._second, name)
        if not callable(of_first):
            return of_first

        def call(*args: object) -> object:
            result = of_first(*args)
            assert of_second(*args) == result, f"{name}{args}"
            return result

        return call


@pytest.mark.skipif(
    not simple_switch.installed(), reason="simple_switch and simple_switch_CLI are not on PATH"
)
@pytest.mark.usefixtures("_namespace")
@of_each_program
def test_generated_packets_leave_both_alike(program: Path) -> None:
    scripts = generate(program)
    ports = {*PORTS}.union(*map(clone_ports, scripts.values()))
    first, explained, unexplained = subject.twins(program, sorted(ports)), set(), []
    for name, script in scripts.items():
        test = StfRun(first.another(), name)
        test.run(script.splitlines())
        for failure in test.failures():
            if any(each.applies(program, script, failure) for each in EXPLANATIONS):
                explained.add(name)
            else:
                unexplained.append(failure)
    name = f"{program.parent.name}/{program.stem}"
    print(f"{name}: {len(scripts)} generated, {len(explained)} explained")
    assert unexplained == []


@pytest.mark.skipif(not subject.has_p4c(), reason="p4c-bm2-ss is not on PATH")
@of_each_program
def test_generated_packets_leave_alike_with_p4c_s_json(program: Path) -> None:
    ours = Engine(compile_p4(program).bmv2_json)
    theirs = Engine(subject.by_p4c(program).bmv2_json)
    for name, script in generate(program).items():
        first, second = ours.another(), theirs.another()
        StfRun(Pair(first, second), name).run(script.splitlines())
        assert subject.state(second) == subject.state(first), name
