"""Which blocks are unknown after a switch fails or restarts, or after a controller restarts."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import finsy as fy
import pytest
from block_scene import (
    PATH,
    SCHEDULE,
    FaultInjector,
    Scene,
    Setting,
    check_known,
    collect,
    unknown,
)
from virtual_networks import virtually

from controllers.ampm.records import Point
from controllers.ampm.watch import Method


@pytest.mark.parametrize("name", PATH)
def test_a_switch_that_restarted_is_filled_again(name: str, tmp_path: Path) -> None:
    """After a switch has restarted, the controller fills its tables again.

    The records of this switch are unknown for the two blocks that the restart affects. All other
    records are right.
    """

    async def restart(scene: Scene, block: int) -> None:
        if block == 2:
            FaultInjector(scene, name).restart()

    scene = virtually(tmp_path, lambda run: collect(run, Setting(Method.DOUBLE, 8, restart)))
    assert {s: unknown(scene, s) for s in PATH} == {s: [3, 4] if s == name else [] for s in PATH}
    (problem,) = scene.reports[3].problems
    assert f"switch {name} restarted: its tables and counts were lost" in problem
    (problem,) = scene.reports[4].problems
    assert f"switch {name}: no previous counter values: it restarted" in problem
    check_known(scene, Method.DOUBLE)


@pytest.mark.parametrize("name", PATH)
def test_a_switch_that_is_filled_slowly_lets_no_packet_pass_unmarked(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the tables of a restarted switch are filled slowly, it forwards no unmarked packet.

    The switch also forwards no packet with marks of a wrong clock, because later switches would
    count it.
    """
    insert, modify = fy.Switch.insert, fy.Switch.modify

    def slowly(call: Callable[[fy.Switch, Sequence[Any]], Awaitable[None]]) -> Any:
        async def write(switch: fy.Switch, entities: Sequence[Any]) -> None:
            for entity in entities:
                await asyncio.sleep(0.001)
                await call(switch, [entity])

        return write

    async def restart(scene: Scene, block: int) -> None:
        if block == 2:
            FaultInjector(scene, name).restart()
            monkeypatch.setattr(fy.Switch, "insert", slowly(insert))
            monkeypatch.setattr(fy.Switch, "modify", slowly(modify))

    scene = virtually(tmp_path, lambda run: collect(run, Setting(Method.DOUBLE, 8, restart)))
    assert {s: unknown(scene, s) for s in PATH} == {s: [3, 4] if s == name else [] for s in PATH}
    check_known(scene, Method.DOUBLE)


def test_a_switch_that_is_silent_for_a_while_is_unknown_for_that_while(tmp_path: Path) -> None:
    """The records of a switch are unknown for the block in which the switch does not respond.

    The records are also unknown for the next block of the same colour, because its counters contain
    the packets of both blocks.
    """
    ends: list[Callable[[], None]] = []

    async def silence(scene: Scene, block: int) -> None:
        if block == 1:
            ends.append(FaultInjector(scene, "s2").silence())
        if block == 2:
            ends.pop()()

    scene = virtually(tmp_path, lambda run: collect(run, Setting(Method.STEP, 7, silence)))
    assert unknown(scene, "s2") == [2, 4]
    assert "switch s2: no response: Connection refused" in scene.reports[2].problems[0]
    assert (
        f"no previous counter values: block {scene.first + 2} was not read"
        in (scene.reports[4].problems[0])
    )
    assert unknown(scene, "s1") == unknown(scene, "s3") == []
    check_known(scene, Method.STEP)


def test_a_reading_that_fails_once_is_repeated(tmp_path: Path) -> None:
    async def silence(scene: Scene, block: int) -> None:
        if block == 1:
            end = FaultInjector(scene, "s2").silence()
            at_us = SCHEDULE.reading_us(scene.first + 2) + SCHEDULE.block_us // 4
            asyncio.get_running_loop().call_at(at_us / 1e6, end)

    scene = virtually(tmp_path, lambda run: collect(run, Setting(Method.STEP, 4, silence)))
    assert [report.problems for report in scene.reports] == [[]] * 4
    check_known(scene, Method.STEP)


def test_a_controller_that_restarts_goes_on_where_traffic_is(tmp_path: Path) -> None:
    """A restarted controller keeps the entries that it finds in the switches.

    Only those blocks are unknown that neither controller read.
    """
    setting = Setting(Method.DOUBLE, 8, restarts=[3])
    scene = virtually(tmp_path, lambda run: collect(run, setting))
    for name in PATH:
        assert unknown(scene, name) == [3]
    check_known(scene, Method.DOUBLE)
    pulses = [r.records[7][Point("s1", "departures")].pulses for r in scene.reports if r.complete]
    assert pulses == [1] * 7
