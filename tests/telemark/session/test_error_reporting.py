"""Error reports: one line for a mistake in a controller, else a short traceback."""

import shutil
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import finsy as fy
import numpy as np
import pytest
from loaded import StartExperiment
from virtual_networks import virtually

from controllers.connection import connection
from controllers.tables import reconcile
from telemark.backends.real.targets.bmv2 import PROGRAM
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.session import error_reporting
from telemark.session.run import Run
from telemark.traffic.flows import Flow
from topologies.basic import Line

HERE = Path(__file__).name
KEY = {"hdr.ipv4.dst_addr": "10.0.0.1/32"}
SEND = {"mac_addr": "00:00:00:00:00:01", "port": 1}


def entry(
    table: str = "routes", match: Mapping[str, Any] = KEY, action: str = "send", **params: Any
) -> fy.P4TableEntry:
    return fy.P4TableEntry(table, match=fy.Match(match), action=fy.Action(action, **params))


def insert(**changes: Any) -> Callable[[fy.Switch], Awaitable[None]]:
    return lambda s1: s1.write([+entry(**(SEND | changes))])


async def insert_twice(s1: fy.Switch) -> None:
    for _ in range(2):
        await s1.write([+entry(**SEND)])


async def read(s1: fy.Switch, entity: Any) -> None:
    async for _ in s1.read(entity):
        pass


MISTAKES: list[tuple[str, Callable[[fy.Switch], Awaitable[None]], str]] = [
    ("table", insert(table="rotues"), "no P4Table named 'rotues'. Did you mean 'routes'?"),
    ("field", insert(match={"ipv4.dst": "10.0.0.1"}), "no match field named 'ipv4.dst'"),
    ("action", insert(action="sent"), "no table action named 'sent'. Did you mean 'send'?"),
    ("parameter", insert(mac=1), "no action parameter named 'mac'"),
    ("no parameter", lambda s1: s1.write([+entry(port=1)]), "missing parameters {'mac_addr'}"),
    ("address", insert(match={"hdr.ipv4.dst_addr": "10.0.0.300/32"}), "Octet 300 (> 255)"),
    ("mac", insert(mac_addr="00:00:zz"), "invalid MAC address: '00:00:zz'"),
    ("width", insert(port=512), "'send': invalid value for bitwidth 9: 512"),
    ("kind", lambda s1: s1.write([entry(**SEND)]), "unspecified update type (+, ~, -)"),
    ("no entity", lambda s1: s1.write([5]), "AttributeError: 'int' object has no attribute"),
    ("missing", lambda s1: s1.write([-entry(**SEND)]),
     "entry hdr.ipv4.dst_addr=0x0a000001/32: no such entry"),
    ("twice", insert_twice,
     "ALREADY_EXISTS: 1 of 1 updates failed; the first one is update 0: table"),
    ("counter", lambda s1: read(s1, fy.P4CounterEntry("nope")), "you asked for 'nope'"),
    ("register", lambda s1: read(s1, fy.P4RegisterEntry("nope")), "you asked for 'nope'"),
    ("elsewhere", lambda s1: reconcile(s1, [entry(table="rotues", **SEND)]), "no P4Table named"),
]  # fmt: skip


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the error report of each mistake."""

    async def main(run: Run) -> dict[str, str]:
        told = {}
        with Network(Line(switches=1), run, program="p4src/routing/router.p4") as net:
            async with connection(net, "s1") as s1:
                for name, make, _ in MISTAKES:
                    try:
                        await make(s1)
                    except Exception as error:
                        told[name] = str(error_reporting.controller_error(error))
            try:
                await s1.write([+entry(**SEND)])
            except AssertionError as error:
                told["closed"] = str(error_reporting.controller_error(error))
        return told

    told: dict[str, str] = virtually(tmp_path_factory.mktemp("mistakes") / "run", main)
    return told


@pytest.mark.parametrize(
    ("name", "words"),
    [*((name, words) for name, _, words in MISTAKES), ("closed", "not connected; call it")],
)
def test_a_controllers_mistake_gets_one_line(lines: dict[str, str], name: str, words: str) -> None:
    assert words in lines[name]
    assert lines[name].startswith("switch s1: ")
    assert f"({HERE}:" in lines[name]
    assert "\n" not in lines[name]


def reported_by(call: Callable[[], object]) -> str:
    with pytest.raises(Exception) as error:  # noqa: PT011 of any kind
        call()
    assert error_reporting.controller_error(error.value) is None
    return error_reporting.short_traceback(error.value)


def test_pythons_own_errors_are_told_from_the_users_lines() -> None:
    def slip() -> float:
        return 1 / 0

    told = reported_by(slip)
    assert told.startswith("Traceback (shortened; use --traceback for all frames):\n")
    assert told.endswith("    return 1 / 0\nZeroDivisionError: division by zero\n")


def test_what_a_library_says_comes_without_its_lines_but_with_ours() -> None:
    told = reported_by(lambda: np.zeros(3).reshape(2, 2))
    assert told.count("  File ") == told.count(HERE)
    assert "cannot reshape array of size 3 into shape (2,2)" in told
    told = reported_by(lambda: Flow("one", "h1", "h2", rate_pps=1, count=1))  # type: ignore[arg-type]
    assert "flows.py" in told


def test_a_finding_of_the_testbed_is_no_mistake_of_a_client() -> None:
    with pytest.raises(TestbedError) as error:
        Flow(1, "h1", "h2", rate_pps=1, count=0)
    assert error_reporting.controller_error(error.value) is None


ONE_SWITCH = """
with Network(Line(switches=1), run, program="p4src/routing/router.p4") as net:
    async with connection(net, "s1") as s1:
        {}
"""
IMPORTS = """
import asyncio, os
import finsy as fy
from controllers.connection import connection
from telemark.network import Network
from topologies.basic import Line
"""


BMV2 = pytest.mark.skipif(shutil.which(PROGRAM) is None, reason=f"{PROGRAM} is not on PATH")
WRONG_TABLE = "await s1.write([+fy.P4TableEntry('rotues')])"
DEAD = f"os.kill(net.switch('s1')._running.pid, 9); await asyncio.sleep(0.5); {WRONG_TABLE}"
DEAD_BMV2 = DEAD.replace("_running", "_bmv2")
GROUP_ENDED = "error: switch s1: the process of all switches (minip4) ended by SIGKILL"


@pytest.mark.parametrize(
    ("body", "arguments", "status", "words"),
    [
        (WRONG_TABLE, "--time virtual", 2, "example: error: switch s1: no P4Table named 'rotues'"),
        (WRONG_TABLE, "--time virtual --traceback", 2, "error: switch s1: no P4Table named"),
        (WRONG_TABLE, "--time real", 2, "error: switch s1: no P4Table named"),
        ("nmae", "--time virtual", 3, "NameError: name 'nmae' is not defined"),
        ("nmae", "--time virtual --traceback", 3, "NameError: name 'nmae' is not defined"),
        (DEAD, "--time real", 2, GROUP_ENDED),
        # the two processes of a switch on bmv2: the panel, and bmv2 itself
        pytest.param(DEAD, "--target bmv2", 2, GROUP_ENDED, marks=BMV2),
        pytest.param(
            DEAD_BMV2, "--target bmv2", 2, "error: switch s1: bmv2 ended by SIGKILL", marks=BMV2
        ),
    ],
)
def test_exit_status_and_lines(
    start_experiment: StartExperiment, body: str, arguments: str, status: int, words: str
) -> None:
    process = start_experiment(ONE_SWITCH.format(body), *arguments.split(), head=IMPORTS)
    output, errors = process.communicate()
    assert process.returncode == status, output + errors
    assert words in errors
    if "--traceback" in arguments:
        assert "asyncio" in errors
    elif status == 2:
        assert errors.count("\n") == 1
    else:
        assert errors.count("  File ") == 1


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("return 5", 2, "error: experiment: returned 5; expected `return Report(...)`"),
        ("pass", 2, "error: experiment: returned None; expected"),
        ("return Report([], [])", 1, "No checks: counts as failed; return"),
    ],
)
def test_what_an_experiment_returns(
    start_experiment: StartExperiment, body: str, status: int, words: str
) -> None:
    process = start_experiment(body, "--time", "virtual")
    output, errors = process.communicate()
    assert process.returncode == status, errors
    assert words in output + errors
    assert errors.count("\n") == (status == 2)
