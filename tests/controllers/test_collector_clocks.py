"""Switch clocks with offsets, drift, or unknown offsets."""

from pathlib import Path

import finsy as fy
import pytest
from block_scene import (
    LINK_DELAY_US,
    PROGRAM,
    SCHEDULE,
    Setting,
    collect,
    unknown,
    watched,
)
from virtual_networks import virtually

from controllers.ampm.collector import Collector
from controllers.ampm.records import difference_us
from controllers.ampm.session import ClockError
from controllers.ampm.watch import Bounds, Hop, Method
from controllers.connection import connection, cpu_ports
from controllers.forwarding import forwarding_entries
from telemark.network import Network
from telemark.session.run import Run
from topologies.basic import Line


@pytest.mark.parametrize(
    ("offset_us", "allowed_us", "words"),
    [
        (
            40_000,
            0,
            "switch s2: its clock error is at least 40000 us, which exceeds the bound of 0 us",
        ),
        (-40_000, 30_000, "switch s2: its clock error is at least 40000 us"),
        (-40_000, 40_000, ""),
    ],
)
def test_a_clock_beyond_its_bound_is_refused(
    offset_us: int, allowed_us: int, words: str, tmp_path: Path
) -> None:
    setting = Setting(
        options={"s2": ["--clock-offset-us", str(offset_us)]},
        bounds=Bounds(allowed_us, 2 * LINK_DELAY_US),
    )
    if words:
        with pytest.raises(ClockError, match=words):
            virtually(tmp_path, lambda run: collect(run, setting))
    else:
        scene = virtually(tmp_path, lambda run: collect(run, setting))
        assert all(report.complete for report in scene.reports)


@pytest.mark.parametrize("methods", [Method.DOUBLE, Method.MULTIPLEXED])
def test_two_clocks_that_are_wrong_in_opposite_ways_are_refused(
    methods: Method, tmp_path: Path
) -> None:
    """Two clocks are rejected if they differ from each other by more than the bound A.

    Each of the two clocks differs from the common clock by less than A.
    """
    setting = Setting(
        methods=methods,
        options={"s1": ["--clock-offset-us", "20000"], "s2": ["--clock-offset-us", "-20000"]},
        bounds=Bounds(26_000, 2 * LINK_DELAY_US),
    )
    words = r"s1: its clock differs from that of s2 by at least (40000|39999) us, which .* 26000 us"
    with pytest.raises(ClockError, match=words):
        virtually(tmp_path, lambda run: collect(run, setting))


def test_clocks_that_drift_apart_make_blocks_unknown(tmp_path: Path) -> None:
    """If two clocks drift apart by more than their bound, the blocks after this are unknown.

    The offset of each clock from the common clock stays within this bound.
    """
    setting = Setting(
        options={"s1": ["--clock-drift-ppb", "500000"], "s3": ["--clock-drift-ppb", "-500000"]},
        bounds=Bounds(1700, 2 * LINK_DELAY_US),
    )
    scene = virtually(tmp_path, lambda run: collect(run, setting))
    late = [n for n in range(6) if SCHEDULE.reading_us(scene.first + n) * 1e-3 > 1703]
    assert 0 < len(late) < 6
    assert unknown(scene, "s1") == unknown(scene, "s3") == late
    assert unknown(scene, "s2") == []
    assert "switch s1: its clock differs from that of s3 by" in scene.reports[late[0]].problems[0]


def test_a_clock_that_drifts_away_makes_blocks_unknown(tmp_path: Path) -> None:
    setting = Setting(
        options={"s3": ["--clock-drift-ppb", "900000"]}, bounds=Bounds(1700, 2 * LINK_DELAY_US)
    )
    scene = virtually(tmp_path, lambda run: collect(run, setting))
    # drift of 0.9 ms per second since the start of the clock
    late = [n for n in range(6) if SCHEDULE.reading_us(scene.first + n) * 9e-4 > 1701]
    assert 0 < len(late) < 6
    assert unknown(scene, "s3") == late
    assert "switch s3: its clock error is at least " in scene.reports[late[0]].problems[0]


UNKNOWN_CLOCKS = {"s1": 5_038_784_323, "s2": -123_456_789}  # offsets in us


@pytest.mark.parametrize("bounds", [None, Bounds(2, 2 * LINK_DELAY_US)])
def test_unknown_clock_offsets_are_measured(bounds: Bounds | None, tmp_path: Path) -> None:
    """Clock offsets are measured, whether bounds are given or not.

    Without bounds, s2 is meant to be 777 us ahead. The measurement keeps this offset.
    """

    async def main(run: Run) -> dict[str, int]:
        topo = Line(switches=2)
        options = {name: [*cpu, "--clock-offset-us", str(UNKNOWN_CLOCKS[name])]
                   for name, cpu in cpu_ports(topo).items()}  # fmt: skip
        with Network(topo, run, program=PROGRAM, switch_options=options) as net:
            path = [
                Hop(connection(net, name), forwarding_entries(net, name), None, ahead_us)
                for name, ahead_us in (("s1", 0), ("s2", 0 if bounds else 777))
            ]
            collector = Collector(
                {watched(net, Method.STEP): path}, SCHEDULE, run.clock, bounds=bounds
            )
            async with collector:
                await collector.watch()
                assert set(collector.clock_errors_us.values()) == {0.5}
                return {hop.name: await clock_entry(hop.switch) for hop in path}

    found = virtually(tmp_path, main)
    wanted = {name: -offset_us for name, offset_us in UNKNOWN_CLOCKS.items()}
    wanted["s2"] += 0 if bounds else 777
    assert {name: abs(difference_us(found[name], us)) <= 1 for name, us in wanted.items()} == {
        "s1": True, "s2": True
    }  # fmt: skip


async def clock_entry(switch: fy.Switch) -> int:
    """Return the clock offset with which a switch was configured."""
    entity = fy.P4TableEntry("clock", is_default_action=True)
    (entry,) = [entry async for entry in switch.read(entity)]
    return int(entry.action.args["offset_us"])
