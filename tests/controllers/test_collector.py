"""Collecting blocks in virtual time: complete, or unknown in the very part that something hit."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import finsy as fy
import numpy as np
import pytest
from ampm.truth import read_truths

from controllers.ampm.collector import BlockReport, Collector
from controllers.ampm.records import Point, difference_us
from controllers.ampm.schedule import Schedule
from controllers.ampm.session import AwayError, ClockError
from controllers.ampm.watch import Bounds, Hop, LimitError, Method, WatchedFlow
from controllers.connection import connection, cpu_ports
from controllers.forwarding import forwarding_entries
from minip4.runtime.entities.arrays import Registers
from minip4.runtime.status import Code, StatusError, unimplemented
from testbed.network import Network
from testbed.run import Run
from testbed.traffic import Flow, FlowRecord, Traffic
from testbed.virtual.clock import VirtualClock
from topologies.line import Line

PROGRAM = "p4src/ampm/ampm.p4"
PATH = ("s1", "s2", "s3")
LINK_DELAY_US = 1000
BOUNDS = Bounds(delay_us=2 * LINK_DELAY_US)
SCHEDULE = Schedule(2**17)
RATE_PPS = 2000
UDP = 17


@dataclass
class Scene:
    """A line of three switches, a flow over it, and what collectors reported."""

    net: Network
    run: Run
    first: int
    reports: list[BlockReport] = field(default_factory=list)
    collector: Collector | None = None
    record: FlowRecord | None = None


def virtually(folder: Path, main: Callable[[Run], Awaitable[Any]]) -> Any:
    folder.mkdir(exist_ok=True)
    clock = VirtualClock()
    return clock.run(main(Run("test", folder, 1, clock=clock)))  # type: ignore[arg-type]


def hops(net: Network) -> list[Hop]:
    return [Hop(connection(net, name), forwarding_entries(net, name)) for name in PATH]


def watched(net: Network, methods: Method) -> WatchedFlow:
    return WatchedFlow(
        7, net.host("h1").IP(), net.host("h2").IP(), UDP, dst_port=5001, methods=methods
    )


Disturb = Callable[[Scene, int], Awaitable[None]]


@dataclass
class Setting:
    """What differs from test to test. `disturb` is called after each block, with its number."""

    methods: Method = Method.STEP
    blocks: int = 6
    disturb: Disturb | None = None
    restarts: Sequence[int] = ()  # of the controller: after so many blocks
    options: dict[str, list[str]] = field(default_factory=dict)  # of switches
    bounds: Bounds = BOUNDS
    schedule: Schedule = SCHEDULE


async def collect(run: Run, setting: Setting) -> Scene:
    """Reports of blocks that the flow fills."""
    topo = Line(loss_probability=0.05, delay_us=LINK_DELAY_US)
    options = {name: cpu + setting.options.get(name, []) for name, cpu in cpu_ports(topo).items()}
    with Network(topo, run, program=PROGRAM, switch_options=options) as net:
        scene = Scene(net, run, setting.schedule.block_at(run.clock.now_ns() // 1000) + 3)
        start_ns = 1000 * (setting.schedule.start_us(scene.first) - setting.schedule.block_us // 4)
        count = RATE_PPS * (setting.blocks + 1) * setting.schedule.block_us // 1_000_000
        flow = Flow(1, "h1", "h2", rate_pps=RATE_PPS, count=count)
        async with Traffic(net, [flow], start_ns) as traffic:
            for first, end in itertools.pairwise([0, *setting.restarts, setting.blocks]):
                await one_session(scene, setting, range(first, end))
            scene.record = (await traffic.finish())[flow.id]
    return scene


async def one_session(scene: Scene, setting: Setting, blocks: range) -> None:
    """One controller, from its start to its end."""
    flows = {watched(scene.net, setting.methods): hops(scene.net)}
    clock = scene.run.clock
    async with Collector(flows, setting.schedule, clock, bounds=setting.bounds) as collector:
        await collector.watch()
        scene.collector = collector
        numbers = (scene.first + blocks.start, scene.first + blocks.stop - 1)
        async for report in collector.blocks(*numbers):
            scene.reports.append(report)
            if setting.disturb is not None:
                await setting.disturb(scene, report.block - scene.first)


HASHED = Method.STEP | Method.HASHED
METHODS = [Method.STEP, Method.PULSE, Method.DOUBLE, Method.MULTIPLEXED, HASHED]


def true_records(scene: Scene, methods: Method, block: int) -> dict[Point, dict[str, object]]:
    """What each point must know of a block, by the captures."""
    assert scene.record is not None
    paths, records = {scene.record.flow: PATH}, {1: scene.record}
    truth = read_truths(scene.net, paths, SCHEDULE, methods, records)[1]
    known = {}
    for point, times_ns in truth.time_ns.items():
        here = truth.passed(point) & (truth.block == block)
        times_us = np.sort(times_ns[here]) // 1000
        pulses_us = times_ns[here & truth.pulse] // 1000
        known[point] = {
            "block": block,
            "packets": int(here.sum()),
            "bytes": 64 * int(here.sum()),
            "sum_us": int((times_us - SCHEDULE.start_us(block)).sum()),
            "first_us": int(times_us[0]),
            "pulses": len(pulses_us),
            "pulse_us": int(pulses_us[0]) if len(pulses_us) else 0,
        }
    return known


@pytest.mark.parametrize("methods", METHODS)
def test_every_block_is_complete_and_exact_when_nothing_happens(
    methods: Method, tmp_path: Path
) -> None:
    scene = virtually(tmp_path, lambda run: collect(run, Setting(methods)))
    assert [report.problems for report in scene.reports] == [[]] * 6
    for report in scene.reports:
        for point, expected in true_records(scene, methods, report.block).items():
            record = asdict(report.records[7][point])
            # Without a colour a packet is of the block in which it comes, at each point.
            keys = expected if methods is not Method.PULSE else ("pulses", "pulse_us")
            assert {key: record[key] for key in keys} == {key: expected[key] for key in keys}
    pulses = [r.records[7][Point("s1", "departures")].pulses for r in scene.reports]
    assert pulses == [int(bool(methods & (Method.PULSE | Method.MULTIPLEXED)))] * 6
    samples = [len(r.records[7][Point("s3", "departures")].samples) for r in scene.reports]
    assert (sum(samples) > 6) == (Method.HASHED in methods)


def unknown(scene: Scene, switch: str) -> list[int]:
    """The blocks, from the first one, of which a switch's records are unknown; both or neither."""
    known = [[r.records[7][Point(switch, p)] for p in ("arrivals", "departures")]
             for r in scene.reports]  # fmt: skip
    assert all((a is None) == (b is None) for a, b in known)
    return [number for number, (a, _) in enumerate(known) if a is None]


class Kit:
    """What a test may do to a virtual switch."""

    def __init__(self, scene: Scene, name: str) -> None:
        self.switch = scene.net.plant._running[scene.net.switch(name).node]  # type: ignore[attr-defined]

    def restart(self) -> None:
        """Nothing is left of entries, counters and registers."""
        engine = self.switch._make_engine(self.switch._program.bmv2_json)
        self.switch._install(engine)
        self.switch.device.adopt(self.switch._program.p4info, self.switch._program.blob, engine)

    def silence(self) -> Callable[[], None]:
        """Let P4Runtime calls fail as those to a dead process do; return what ends that."""
        service, device = self.switch.service, self.switch.device
        service._device = Dead()
        return lambda: setattr(service, "_device", device)


class Dead:
    """In place of a device: nobody is there."""

    def __getattr__(self, name: str) -> None:
        raise StatusError(Code.UNAVAILABLE, "Connection refused")


@pytest.mark.parametrize("name", PATH)
def test_a_switch_that_restarted_is_filled_again(name: str, tmp_path: Path) -> None:
    """Its part of that block and of the one under way is unknown; the next ones are right."""

    async def restart(scene: Scene, block: int) -> None:
        if block == 2:
            Kit(scene, name).restart()

    scene = virtually(tmp_path, lambda run: collect(run, Setting(Method.DOUBLE, 8, restart)))
    assert {s: unknown(scene, s) for s in PATH} == {s: [3, 4] if s == name else [] for s in PATH}
    (problem,) = scene.reports[3].problems
    assert f"switch {name} restarted: its tables and counts were lost" in problem
    (problem,) = scene.reports[4].problems
    assert f"switch {name}: no count to start from: it had restarted" in problem
    check_known(scene, Method.DOUBLE)


@pytest.mark.parametrize("name", PATH)
def test_a_switch_that_is_filled_slowly_lets_no_packet_pass_unmarked(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or with the marks of another clock: those behind it would count it in a block."""
    insert, modify = fy.Switch.insert, fy.Switch.modify

    def slowly(call: Callable[[fy.Switch, Sequence[Any]], Awaitable[None]]) -> Any:
        async def write(switch: fy.Switch, entities: Sequence[Any]) -> None:
            for entity in entities:
                await asyncio.sleep(0.001)
                await call(switch, [entity])

        return write

    async def restart(scene: Scene, block: int) -> None:
        if block == 2:
            Kit(scene, name).restart()
            monkeypatch.setattr(fy.Switch, "insert", slowly(insert))
            monkeypatch.setattr(fy.Switch, "modify", slowly(modify))

    scene = virtually(tmp_path, lambda run: collect(run, Setting(Method.DOUBLE, 8, restart)))
    assert {s: unknown(scene, s) for s in PATH} == {s: [3, 4] if s == name else [] for s in PATH}
    check_known(scene, Method.DOUBLE)


def check_known(scene: Scene, methods: Method) -> None:
    """Hold all that is known against the truth."""
    for report in scene.reports:
        for point, expected in true_records(scene, methods, report.block).items():
            record = report.records[7][point]
            if record is not None:
                assert (point, record.packets) == (point, expected["packets"])
                assert (point, record.sum_us) == (point, expected["sum_us"])


def test_a_switch_that_is_silent_for_a_while_is_unknown_for_that_while(tmp_path: Path) -> None:
    """What was not read cannot be told from the next block of that colour, so that goes too."""
    ends: list[Callable[[], None]] = []

    async def silence(scene: Scene, block: int) -> None:
        if block == 1:
            ends.append(Kit(scene, "s2").silence())
        if block == 2:
            ends.pop()()

    scene = virtually(tmp_path, lambda run: collect(run, Setting(Method.STEP, 7, silence)))
    assert unknown(scene, "s2") == [2, 4]
    assert "switch s2 does not answer: Connection refused" in scene.reports[2].problems[0]
    assert (
        f"no count to start from: block {scene.first + 2} was not read"
        in (scene.reports[4].problems[0])
    )
    assert unknown(scene, "s1") == unknown(scene, "s3") == []
    check_known(scene, Method.STEP)


def test_a_reading_that_fails_once_is_repeated(tmp_path: Path) -> None:
    async def silence(scene: Scene, block: int) -> None:
        if block == 1:
            end = Kit(scene, "s2").silence()
            at_us = SCHEDULE.reading_us(scene.first + 2) + SCHEDULE.block_us // 4
            asyncio.get_running_loop().call_at(at_us / 1e6, end)

    scene = virtually(tmp_path, lambda run: collect(run, Setting(Method.STEP, 4, silence)))
    assert [report.problems for report in scene.reports] == [[]] * 4
    check_known(scene, Method.STEP)


def test_a_controller_that_is_late_knows_nothing_of_that_block(tmp_path: Path) -> None:
    async def dawdle(scene: Scene, block: int) -> None:
        if block == 2:
            await asyncio.sleep(1.6 * SCHEDULE.block_us / 1e6)  # beyond the end of block 4

    scene = virtually(tmp_path, lambda run: collect(run, Setting(Method.STEP, 8, dawdle)))
    for name in PATH:
        assert unknown(scene, name) == [3, 5]
    assert "too late for its counters to stand still" in scene.reports[3].problems[0]
    check_known(scene, Method.STEP)


@pytest.mark.parametrize(("guards", "lost"), [(1.5, []), (0.5, [3, 5])])
def test_counters_are_read_a_guard_before_the_next_block_of_their_colour(
    guards: float, lost: list[int], tmp_path: Path
) -> None:
    """Nearer to its start early packets of that block may have been counted already."""

    async def dawdle(scene: Scene, block: int) -> None:
        if block == 2:
            end_us = SCHEDULE.start_us(scene.first + 5) - guards * BOUNDS.guard_us
            await scene.run.clock.sleep_until(round(1000 * end_us))

    scene = virtually(tmp_path, lambda run: collect(run, Setting(Method.STEP, 8, dawdle)))
    assert unknown(scene, "s2") == lost


def test_a_controller_that_restarts_goes_on_where_traffic_is(tmp_path: Path) -> None:
    """It finds the switches filled, and leaves them so: only what it could not read is unknown."""
    setting = Setting(Method.DOUBLE, 8, restarts=[3])
    scene = virtually(tmp_path, lambda run: collect(run, setting))
    for name in PATH:
        assert unknown(scene, name) == [3]
    check_known(scene, Method.DOUBLE)
    pulses = [r.records[7][Point("s1", "departures")].pulses for r in scene.reports if r.complete]
    assert pulses == [1] * 7


@pytest.mark.parametrize(
    ("offset_us", "allowed_us", "words"),
    [
        (40_000, 0, "switch s2: its clock is off by 40000 us or more, and 0 us are allowed"),
        (-40_000, 30_000, "switch s2: its clock is off by 40000 us"),
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
    """A is the greatest difference between two clocks, not between one and the common clock."""
    setting = Setting(
        methods=methods,
        options={"s1": ["--clock-offset-us", "20000"], "s2": ["--clock-offset-us", "-20000"]},
        bounds=Bounds(26_000, 2 * LINK_DELAY_US),
    )
    words = r"switch s1: its clock and that of s2 differ by (40000|39999) us or more, and 26000 us"
    with pytest.raises(ClockError, match=words):
        virtually(tmp_path, lambda run: collect(run, setting))


def test_clocks_that_drift_apart_make_blocks_unknown(tmp_path: Path) -> None:
    """Each for itself stays as near to the common clock as two may be to each other."""
    setting = Setting(
        options={"s1": ["--clock-drift-ppb", "500000"], "s3": ["--clock-drift-ppb", "-500000"]},
        bounds=Bounds(1700, 2 * LINK_DELAY_US),
    )
    scene = virtually(tmp_path, lambda run: collect(run, setting))
    late = [n for n in range(6) if SCHEDULE.reading_us(scene.first + n) * 1e-3 > 1703]
    assert 0 < len(late) < 6
    assert unknown(scene, "s1") == unknown(scene, "s3") == late
    assert unknown(scene, "s2") == []
    assert "switch s1: its clock and that of s3 differ by" in scene.reports[late[0]].problems[0]


def test_a_clock_that_drifts_away_makes_blocks_unknown(tmp_path: Path) -> None:
    setting = Setting(
        options={"s3": ["--clock-drift-ppb", "900000"]}, bounds=Bounds(1700, 2 * LINK_DELAY_US)
    )
    scene = virtually(tmp_path, lambda run: collect(run, setting))
    # 0.9 ms a second, from the clock's beginning.
    late = [n for n in range(6) if SCHEDULE.reading_us(scene.first + n) * 9e-4 > 1701]
    assert 0 < len(late) < 6
    assert unknown(scene, "s3") == late
    assert "switch s3: its clock is off by " in scene.reports[late[0]].problems[0]


UNKNOWN_CLOCKS = {"s1": 5_038_784_323, "s2": -123_456_789}  # us


@pytest.mark.parametrize("bounds", [None, Bounds(2, 2 * LINK_DELAY_US)])
def test_clocks_that_nobody_knows_are_found(bounds: Bounds | None, tmp_path: Path) -> None:
    """Also where nobody promises anything; and one that is to be ahead is so by just that."""

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
    """What a switch was told to add to its clock."""
    entity = fy.P4TableEntry("clock", is_default_action=True)
    (entry,) = [entry async for entry in switch.read(entity)]
    return int(entry.action.args["offset_us"])


def no_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As P4Runtime servers made with PI have it: only readout packets get at registers."""

    def read(_self: Registers, _message: object) -> NoReturn:
        raise unimplemented("registers are not supported")

    monkeypatch.setattr(Registers, "read", read)


@pytest.mark.parametrize("methods", METHODS)
def test_readout_packets_tell_the_same(
    methods: Method, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = virtually(tmp_path / "asked", lambda run: collect(run, Setting(methods)))
    no_registers(monkeypatch)
    sent = virtually(tmp_path / "sent", lambda run: collect(run, Setting(methods)))
    assert asked.reports == sent.reports


def test_readout_packets_go_on_over_a_new_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a server is found out anew: the first answer must not stand for registers read."""
    no_registers(monkeypatch)

    async def disconnect(scene: Scene, block: int) -> None:
        if block == 1:
            assert scene.collector is not None
            await scene.collector._sessions["s2"].close()

    scene = virtually(tmp_path, lambda run: collect(run, Setting(HASHED, 4, disconnect)))
    assert [report.problems for report in scene.reports] == [[]] * 4
    check_known(scene, HASHED)


@pytest.mark.parametrize(("share", "is_complete"), [(2, True), (1, False)])
def test_lost_readout_packets_are_asked_for_again(
    share: int, is_complete: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When each second one is lost; when all are, that switch is unknown."""
    no_registers(monkeypatch)

    async def lose(scene: Scene, block: int) -> None:
        if block == 1:
            switch = Kit(scene, "s2").switch
            receive, numbers = switch.cpu_receive, itertools.count()
            switch.cpu_receive = lambda: [f for f in receive() if next(numbers) % share]

    long = Schedule(2**22)
    scene = virtually(tmp_path, lambda run: collect(run, Setting(HASHED, 4, lose, schedule=long)))
    assert unknown(scene, "s2") == ([] if is_complete else [2, 3])
    if not is_complete:
        assert "s2 left 5 readout packets unanswered" in scene.reports[2].problems[0]


def test_a_switch_without_readouts_is_refused(tmp_path: Path) -> None:
    setting = Setting(options={"s2": ["--cpu-port", "254"]})
    with pytest.raises(AwayError, match="s2 left 5 readout packets unanswered"):
        virtually(tmp_path, lambda run: collect(run, setting))


def test_limits_are_held_against_the_methods(tmp_path: Path) -> None:
    setting = Setting(Method.MULTIPLEXED, bounds=Bounds(delay_us=SCHEDULE.block_us / 4))
    with pytest.raises(LimitError, match="multiplexed marking is exact only while"):
        virtually(tmp_path, lambda run: collect(run, setting))


def test_flows_of_both_directions_are_collected_at_once(tmp_path: Path) -> None:
    """Many flows, each along its own path; counters alone."""

    async def main(run: Run) -> tuple[Network, list[BlockReport], list[Flow]]:
        topo = Line(loss_probability=0.05, delay_us=LINK_DELAY_US)
        with Network(topo, run, program=PROGRAM, switch_options=cpu_ports(topo)) as net:
            path = hops(net)
            flows = [
                Flow(n, *(("h1", "h2") if n % 2 else ("h2", "h1")), rate_pps=500, count=300)
                for n in range(1, 9)
            ]
            watch = {
                WatchedFlow(
                    flow.id, net.host(flow.source).IP(), net.host(flow.destination).IP(), UDP,
                    dst_port=flow.port, methods=METHODS[flow.id % 5],
                ): path if flow.id % 2 else path[::-1]
                for flow in flows
            }  # fmt: skip
            async with Collector(
                watch, SCHEDULE, run.clock, bounds=BOUNDS, records=()
            ) as collector:
                await collector.watch()
                first = SCHEDULE.block_at(run.clock.now_ns() // 1000) + 3
                async with Traffic(net, flows, 1000 * SCHEDULE.start_us(first)) as traffic:
                    reports = [r async for r in collector.blocks(first, first + 4)]
                    records = await traffic.finish()
        return net, reports, flows, records

    net, reports, flows, records = virtually(tmp_path, main)
    paths = {flow: PATH if flow.id % 2 else PATH[::-1] for flow in flows}
    truths = read_truths(net, paths, SCHEDULE, Method.STEP, records)
    for flow in flows:
        if METHODS[flow.id % 5] in (Method.PULSE, Method.MULTIPLEXED):
            continue  # by the other reading of the bits; one flow shows them above
        blocks = range(reports[0].block, reports[-1].block + 1)
        for point in reports[0].records[flow.id]:
            counted = [report.records[flow.id][point].packets for report in reports]
            assert counted == truths[flow.id].packets(point, blocks).tolist()
        assert sum(r.records[flow.id][Point("s2", "arrivals")].packets for r in reports) > 200
