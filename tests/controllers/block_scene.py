"""A flow over a line of switches in virtual time, with its collected blocks and ground truth."""

import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from controllers.ampm.collector import BlockReport, Collector
from controllers.ampm.records import Point
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Bounds, Hop, Method, WatchedFlow
from controllers.connection import connection, cpu_ports
from controllers.forwarding import forwarding_entries
from experiments.shared.ampm.truth import read_truths
from minip4.runtime.status import Code, StatusError
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, FlowRecord, Traffic
from topologies.basic import Line

PROGRAM = "p4src/ampm/ampm.p4"
PATH = ("s1", "s2", "s3")
LINK_DELAY_US = 1000
BOUNDS = Bounds(delay_us=2 * LINK_DELAY_US)
SCHEDULE = Schedule(2**17)
RATE_PPS = 2000
UDP = 17


@dataclass
class Scene:
    """A line of three switches, a flow over it, and the collectors' reports."""

    net: Network
    run: Run
    first: int
    reports: list[BlockReport] = field(default_factory=list)
    collector: Collector | None = None
    record: FlowRecord | None = None


def hops(net: Network) -> list[Hop]:
    return [Hop(connection(net, name), forwarding_entries(net, name)) for name in PATH]


def watched(net: Network, methods: Method) -> WatchedFlow:
    return WatchedFlow(
        7, net.host("h1").IP(), net.host("h2").IP(), UDP, dst_port=5001, methods=methods
    )


Disturb = Callable[[Scene, int], Awaitable[None]]


@dataclass
class Setting:
    """Parameters of a test. `disturb` is called after each block, with the number of the block."""

    methods: Method = Method.STEP
    blocks: int = 6
    disturb: Disturb | None = None
    restarts: Sequence[int] = ()  # numbers of blocks after which the controller restarts
    options: dict[str, list[str]] = field(default_factory=dict)  # switch options
    bounds: Bounds = BOUNDS
    schedule: Schedule = SCHEDULE


async def collect(run: Run, setting: Setting) -> Scene:
    """Send a flow; return the scene with the collected reports of the blocks that it fills."""
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
    """Run one controller from start to end."""
    flows = {watched(scene.net, setting.methods): hops(scene.net)}
    clock = scene.run.clock
    async with Collector(
        flows, setting.schedule, clock, bounds=setting.bounds, metrics=scene.run.metrics
    ) as collector:
        await collector.watch()
        scene.collector = collector
        numbers = (scene.first + blocks.start, scene.first + blocks.stop - 1)
        async for report in collector.blocks(*numbers):
            scene.reports.append(report)
            if setting.disturb is not None:
                await setting.disturb(scene, report.block - scene.first)


HASHED = Method.STEP | Method.HASHED
METHODS = [Method.STEP, Method.PULSE, Method.DOUBLE, Method.MULTIPLEXED, HASHED]


def expected_records(scene: Scene, methods: Method, block: int) -> dict[Point, dict[str, object]]:
    """Return the ground truth of a block at each point, from captures."""
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


def unknown(scene: Scene, switch: str) -> list[int]:
    """Return the blocks whose records are unknown at both points of a switch.

    Blocks are numbered relative to the first one.
    """
    known = [[r.records[7][Point(switch, p)] for p in ("arrivals", "departures")]
             for r in scene.reports]  # fmt: skip
    assert all((a is None) == (b is None) for a, b in known)
    return [number for number, (a, _) in enumerate(known) if a is None]


class FaultInjector:
    """Faults that a test can inject into a virtual switch."""

    def __init__(self, scene: Scene, name: str) -> None:
        self.switch = scene.net.backend._running[scene.net.switch(name).node]  # type: ignore[attr-defined]

    def restart(self) -> None:
        """Clear entries, counters and registers."""
        engine = self.switch._make_engine(self.switch._program.bmv2_json)
        self.switch._install(engine)
        self.switch.device.adopt(self.switch._program.p4info, self.switch._program.blob, engine)

    def silence(self) -> Callable[[], None]:
        """Make P4Runtime calls fail as if the process had died.

        Return a function that makes P4Runtime calls succeed again.
        """
        service, device = self.switch.service, self.switch.device
        service._device = Dead()
        return lambda: setattr(service, "_device", device)


class Dead:
    """Stand-in for the device of a dead process."""

    def __getattr__(self, name: str) -> None:
        raise StatusError(Code.UNAVAILABLE, "Connection refused")


def check_known(scene: Scene, methods: Method) -> None:
    """Compare all known records with ground truth."""
    for report in scene.reports:
        for point, expected in expected_records(scene, methods, report.block).items():
            record = report.records[7][point]
            if record is not None:
                assert (point, record.packets) == (point, expected["packets"])
                assert (point, record.sum_us) == (point, expected["sum_us"])
