"""TCP in virtual time compared with TCP in the kernel: same network, same lost packets.

Each flow has two hosts and links of its own. Links either lose segments at random or have a short
queue. Flows run first in real time with TCP of the kernel, then in virtual time. The benchmark
compares goodput and segments per RTT, which is goodput times the measured RTT. A loaded machine
increases the RTT. If a machine stalls, delayed packets leave as a burst that overflows a short
queue. Therefore all processes have real-time priority in real-time mode. Probe datagrams measure
how many packets are late. With too many late probes the run is invalid.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

import numpy as np
from matplotlib.figure import Figure
from mininet.topo import Topo

from controllers.connection import connection
from controllers.routing import routing_entries
from telemark.backends.virtual.clock import VirtualClock
from telemark.errors import IDLE_MACHINE, BusyMachineError, TestbedError, note_invalid
from telemark.network import Network
from telemark.results import plots
from telemark.results.report import Check, Report, Table, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.traffic.flows import Flow, FlowRecord, Traffic
from telemark.traffic.tcp import TcpFlow, TcpRecord

ROUTER = "p4src/routing/router.p4"
KINDS = ("reno", "cubic")
SEGMENT_BYTES = 1448
SETTLED_S = 2.0  # time at which slow start has ended
WITHIN = 0.05  # max deviation of a ratio from 1
LATE = 0.06  # if real RTTs are longer by more than this fraction, goodput depends on the machine
PROBES_PPS, PROBES_DELAY_US = 1000, 15_000
LATE_PROBE_NS = 1_000_000  # a probe is late if its delay exceeds the link delay by this time
# max fraction of late probes; in a run with 0.07, the goodput over a short queue was 1/7 lower
MAX_LATE = 0.01


@dataclass(frozen=True)
class PathProfile:
    """Properties of a path: rate, delay, queue and loss of data; delay of acknowledgements."""

    name: str
    rate_bps: int
    delay_us: int  # one-way delay
    queue_packets: int
    loss_probability: float = 0.0


PATHS = (
    *(PathProfile(f"{100 * loss:g} % lost", 10**8, 10_000, 1000, loss)
      for loss in (0.001, 0.005, 0.01, 0.02)),
    *(PathProfile(f"queue of {share:g} BDP", 20_000_000, 15_000, round(50 * share))
      for share in (0.25, 0.5, 1, 2)),
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Path and congestion control algorithm."""

    path: PathProfile
    congestion: str


@dataclass(frozen=True)
class FlowGoodput:
    """Goodput, round-trip time and retransmissions of one flow after slow start."""

    goodput_bps: float
    rtt_ms: float
    retransmitted: int

    @property
    def window(self) -> float:
        """Number of segments per RTT."""
        return self.goodput_bps * self.rtt_ms / 8000 / SEGMENT_BYTES


@dataclass(frozen=True)
class Sample:
    """One flow in real and virtual time."""

    path: str
    congestion: str
    real_bps: float
    virtual_bps: float
    goodput: float  # this and the following fields are ratios: virtual time / real time
    window: float
    rtt: float
    retransmitted: float


class Star(Topo):
    """One switch with the paths a0 to b0, a1 to b1, and so on, and p to q for probes.

    Links have losses and queues.
    """

    def build(self, cases: Sequence[Case]) -> None:
        switch = self.addSwitch("s1")
        for number, case in enumerate(cases):
            path = case.path
            back = {"delay_us": path.delay_us, "queue_packets": 1000}
            self.addLink(self.addHost(f"a{number}"), switch, **back)
            forward = {**back, "rate_bps": path.rate_bps, "queue_packets": path.queue_packets,
                       "loss_probability": path.loss_probability}  # fmt: skip
            self.addLink(self.addHost(f"b{number}"), switch, **forward)
        for probing in "pq":
            self.addLink(self.addHost(probing), switch, delay_us=PROBES_DELAY_US)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds", type=cli.seconds, metavar="S",
        help="duration of each flow (default: 60; 12 with --quick)",
    )  # fmt: skip
    parser.add_argument(
        "--flows", type=cli.positive_int, default=3, metavar="N",
        help="flows per case, each with its own losses (default: %(default)s)",
    )  # fmt: skip


def experiment(options: argparse.Namespace, run: Run) -> Report:
    cli.require_time(options, "real", "this benchmark measures TCP of the kernel")
    seconds = options.seconds or (12.0 if options.quick else 60.0)
    if seconds <= SETTLED_S:
        raise TestbedError(
            f"--seconds {seconds:g}: the duration must exceed {SETTLED_S:g} s, the time of slow "
            "start"
        )
    folder = run.folder / "virtual"
    folder.mkdir()
    samples = []
    late = {}
    # sequential runs, because all flows together would overload a core
    for number, path in enumerate(PATHS):
        name = f"way{number}"  # the seed of link losses depends on this name
        cases = [Case(path, kind) for kind in KINDS for _ in range(options.flows)]
        with realtime_priority():
            real, probes = run.clock.run(transfer(name, run, cases, seconds))
        late[path.name] = late_share(probes)
        clock = VirtualClock()
        alike = replace(run, clock=clock, folder=folder)
        virtual, _ = clock.run(transfer(name, alike, cases, seconds))
        samples += [sample(*each) for each in zip(cases, real, virtual, strict=True)]
    reject_if_late(samples, late)
    return Report(
        samples=[asdict(each) for each in samples],
        checks=checks(samples),
        figure=draw(samples),
        metrics={"late probes": late},
        caption=f"Ratio of virtual time to real time for {seconds:g} s of {options.flows} flows "
        "per case: mean, minimum and maximum.",
        tables=[summary(samples)],
    )


@contextmanager
def realtime_priority() -> Iterator[None]:
    """Give real-time priority (sched(7)) to processes started in the `with` block.

    Raises TestbedError if the machine does not allow it.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError as error:
        raise TestbedError(
            "this machine does not allow real-time priority, not even for root"
        ) from error
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


async def transfer(
    name: str, run: Run, cases: Sequence[Case], seconds: float
) -> tuple[list[FlowGoodput], FlowRecord]:
    """Run all flows and the probes. The name and the seed determine which frames links lose."""
    with Network(Star(cases), run, program=ROUTER, name=name, capture=False) as net:
        async with connection(net, "s1") as controller:
            await controller.write([+entry for entry in routing_entries(net, "s1", [])])
        flows = [
            TcpFlow(number, f"a{number}", f"b{number}", duration_s=seconds,
                    congestion=case.congestion)
            for number, case in enumerate(cases)
        ]  # fmt: skip
        probes = Flow(len(flows), "p", "q", PROBES_PPS, round(PROBES_PPS * seconds))
        async with Traffic(net, [*flows, probes]) as traffic:
            records = await traffic.finish()
    goodputs = [goodput_of(records[number], seconds) for number in range(len(cases))]  # type: ignore[arg-type]
    return goodputs, records[probes.id]  # type: ignore[return-value]


def late_share(probes: FlowRecord) -> float:
    """Return the fraction of probes that were late or lost."""
    took_ns = probes.received["received_ns"] - probes.received["sent_ns"]
    in_time = took_ns <= 1000 * PROBES_DELAY_US + LATE_PROBE_NS
    return 1 - float(np.count_nonzero(in_time)) / len(probes.sent)


def goodput_of(record: TcpRecord, seconds: float) -> FlowGoodput:
    """Return the goodput of a flow between the end of slow start and the end of sending."""

    def since_s(times_ns: np.ndarray) -> np.ndarray:
        return (times_ns.astype(np.int64) - record.began_ns) / 1e9

    received = record.received[since_s(record.received["time_ns"]).searchsorted(SETTLED_S) :]
    received = received[since_s(received["time_ns"]) < seconds]
    at_s = since_s(record.progress["time_ns"])
    rtt_us = record.progress["rtt_us"][(at_s >= SETTLED_S) & (at_s < seconds)]
    goodput_bps = 8e9 * float(np.ptp(received["bytes"])) / float(np.ptp(received["time_ns"]))
    return FlowGoodput(goodput_bps, float(rtt_us.mean()) / 1000, record.retransmitted_segments)


def sample(case: Case, real: FlowGoodput, virtual: FlowGoodput) -> Sample:
    """Compare virtual with real time for one flow."""
    return Sample(
        case.path.name, case.congestion, real.goodput_bps, virtual.goodput_bps,
        virtual.goodput_bps / real.goodput_bps, virtual.window / real.window,
        virtual.rtt_ms / real.rtt_ms, virtual.retransmitted / real.retransmitted,
    )  # fmt: skip


def reject_if_late(samples: list[Sample], late: Mapping[str, float]) -> None:
    """Make the run inconclusive if the machine increased RTTs or stalled too often.

    `late` is the fraction of late probes on each path.
    """
    if max(late.values()) > MAX_LATE:
        share, late_ms = max(late.values()), LATE_PROBE_NS / 1e6
        problem = f"{share:.1%} of the probes were late by more than {late_ms:g} ms"
        note_invalid(BusyMachineError(problem))
    worst = min(samples, key=lambda each: each.rtt)
    if worst.rtt < 1 - LATE:
        problem = (
            f"{worst.path}, {worst.congestion}: the RTT was {1 / worst.rtt - 1:.0%} longer in real "
            "time than in virtual time"
        )
        note_invalid(BusyMachineError(problem))


def group_by_case(samples: list[Sample]) -> dict[tuple[str, str], list[Sample]]:
    """Group the flows by path and congestion control, in order."""
    cases: dict[tuple[str, str], list[Sample]] = {}
    for each in samples:
        cases.setdefault((each.path, each.congestion), []).append(each)
    return cases


def checks(samples: list[Sample]) -> list[Check]:
    """Check segments per RTT, because goodput also depends on the load of the machine.

    The run is inconclusive if the flows of a case differ too much.
    """
    return [
        check_mean(f"{path}, {kind}: segments per round trip, virtual / real",
               [each.window for each in ours])
        for (path, kind), ours in group_by_case(samples).items()
    ]  # fmt: skip


def check_mean(name: str, found: Sequence[float]) -> Check:
    """Check the mean over flows.

    The check fails if all flows are out of tolerance on the same side. If only the mean is out of
    tolerance, the run is inconclusive.
    """
    check = Check(name, statistics.mean(found), 1, WITHIN)
    if not check.passed and min(found) <= 1 + WITHIN and max(found) >= 1 - WITHIN:
        problem = (
            f"{name}: flows of one case have {min(found):.3f} to {max(found):.3f}, and the mean is "
            "out of tolerance"
        )
        note_invalid(BusyMachineError(problem, f"{IDLE_MACHINE}, or increase --seconds"))
    return check


def summary(samples: list[Sample]) -> Table:
    """Return a table of the means of each case, with the range of goodput."""
    columns = ("path", "TCP", "real, Mbit/s", "virtual, Mbit/s", "goodput, ratio", "min - max",
               "segments/RTT", "RTT", "retransmitted")  # fmt: skip
    rows = []
    for (path, kind), ours in group_by_case(samples).items():
        mean = {what: statistics.mean(getattr(each, what) for each in ours) for what in
                ("real_bps", "virtual_bps", "goodput", "window", "rtt",
                 "retransmitted")}  # fmt: skip
        ratios = [each.goodput for each in ours]
        rows.append((
            path, kind, mean["real_bps"] / 1e6, mean["virtual_bps"] / 1e6, mean["goodput"],
            f"{min(ratios):.3f} - {max(ratios):.3f}", mean["window"], mean["rtt"],
            mean["retransmitted"],
        ))  # fmt: skip
    return table("TCP in virtual time / TCP in the kernel: ratios within flows", columns, rows)


def draw(samples: list[Sample]) -> Figure:
    """Draw the ratios of goodput and of segments per RTT, for each path."""
    figure, axes = plots.figure(2)
    names = [path.name for path in PATHS]
    for plot, what, label in zip(
        axes, ("goodput", "window"), ("Goodput", "Segments per RTT"), strict=True
    ):
        for shift, kind in zip((-0.1, 0.1), KINDS, strict=True):
            ratios = [[getattr(each, what) for each in group_by_case(samples)[name, kind]]
                      for name in names]  # fmt: skip
            middle = [statistics.mean(each) for each in ratios]
            spread = [[m - min(each) for m, each in zip(middle, ratios, strict=True)],
                      [max(each) - m for m, each in zip(middle, ratios, strict=True)]]  # fmt: skip
            at = [number + shift for number in range(len(names))]
            plot.errorbar(at, middle, yerr=spread, fmt="o", label=kind)
        plot.axhspan(1 - WITHIN, 1 + WITHIN, alpha=0.15, color="grey")
        plot.set_xticks(range(len(names)), names, rotation=30, ha="right")
        plot.set_ylabel(f"{label}: virtual / real")
        plots.legend(plot, 2)
    return figure


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
