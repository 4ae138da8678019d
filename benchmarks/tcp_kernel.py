"""TCP of virtual time beside the kernel's: the same network, the same losses packet by packet.

Each flow has two hosts and links of its own, which lose segments at random; others fill a queue as
long as the link. First in real time, where the hosts' kernel speaks TCP, then in virtual time.
Compared are goodput, and segments a round trip: goodput times the round trip that TCP measured,
which a machine that is late makes longer. What waited in a machine that stood still goes on all at
once, and a short queue has no room for it: in real time all runs at real-time priority, datagrams
beside the flows tell how many came late, and where too many did, the run is invalid.
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
from telemark.errors import TestbedError
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
SETTLED_S = 2.0  # slow start is over
WITHIN = 0.05  # how far from one the ratio may be
LATE = 0.06  # round trips longer by more in real time: then goodput tells of the machine
PROBES_PPS, PROBES_DELAY_US = 1000, 15_000
LATE_PROBE_NS = 1_000_000  # later than the link says: one and a half segments of the slower links
MOST_LATE = 0.01  # of the probes: with seven times as many a short queue carried a seventh less


@dataclass(frozen=True)
class Way:
    """What data meet on their way, and what their acknowledgements do."""

    name: str
    rate_bps: int
    delay_us: int  # each way
    queue_packets: int
    loss_probability: float = 0.0


WAYS = (
    *(Way(f"{100 * loss:g} % lost", 10**8, 10_000, 1000, loss)
      for loss in (0.001, 0.005, 0.01, 0.02)),
    *(Way(f"queue of {share:g} BDP", 20_000_000, 15_000, round(50 * share))
      for share in (0.25, 0.5, 1, 2)),
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One flow."""

    way: Way
    congestion: str


@dataclass(frozen=True)
class Got:
    """What one flow got, once it had settled."""

    goodput_bps: float
    rtt_ms: float
    retransmitted: int

    @property
    def window(self) -> float:
        """Segments a round trip."""
        return self.goodput_bps * self.rtt_ms / 8000 / SEGMENT_BYTES


@dataclass(frozen=True)
class Sample:
    """One flow in both kinds of time."""

    way: str
    congestion: str
    real_bps: float
    virtual_bps: float
    goodput: float  # virtual by real; so is what follows
    window: float
    rtt: float
    retransmitted: float


class Star(Topo):
    """One switch: a0 to b0, a1 to b1, ..., p to q; links behave towards the hosts."""

    def build(self, cases: Sequence[Case]) -> None:
        switch = self.addSwitch("s1")
        for number, case in enumerate(cases):
            way = case.way
            back = {"delay_us": way.delay_us, "queue_packets": 1000}
            self.addLink(self.addHost(f"a{number}"), switch, **back)
            there = {**back, "rate_bps": way.rate_bps, "queue_packets": way.queue_packets,
                     "loss_probability": way.loss_probability}  # fmt: skip
            self.addLink(self.addHost(f"b{number}"), switch, **there)
        for probing in "pq":
            self.addLink(self.addHost(probing), switch, delay_us=PROBES_DELAY_US)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds", type=cli.seconds, metavar="S",
        help="of each flow (default: 60; 12 with --quick)",
    )  # fmt: skip
    parser.add_argument(
        "--flows", type=cli.positive_int, default=3, metavar="N",
        help="of each kind, with losses of their own (default: %(default)s)",
    )  # fmt: skip


def experiment(options: argparse.Namespace, run: Run) -> Report:
    if options.time != "real":
        raise TestbedError("this measures the kernel's TCP: it takes --time real, and root")
    seconds = options.seconds or (12.0 if options.quick else 60.0)
    if seconds <= SETTLED_S:
        raise TestbedError(f"--seconds {seconds:g}: flows settle in {SETTLED_S:g}")
    folder = run.folder / "virtual"
    folder.mkdir()
    samples = []
    late = {}
    for number, way in enumerate(WAYS):  # not all at once: that is more than a core can carry
        name = f"way{number}"
        cases = [Case(way, kind) for kind in KINDS for _ in range(options.flows)]
        with before_others():
            real, probes = run.clock.run(transfer(name, run, cases, seconds))
        late[way.name] = late_share(probes)
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
        caption=f"Virtual time over real time, {seconds:g} s of {options.flows} flows each: mean, "
        "least and most.",
        tables=[summary(samples)],
    )


@contextmanager
def before_others() -> Iterator[None]:
    """Let what is started meanwhile run before all that does not ask for it (sched(7)).

    Raises TestbedError where that is not allowed.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError as error:
        raise TestbedError("this machine allows no real-time priority, even to root") from error
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


async def transfer(
    name: str, run: Run, cases: Sequence[Case], seconds: float
) -> tuple[list[Got], FlowRecord]:
    """All flows at once, and the probes. The name and the seed say which frames links lose."""
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
    fared = [got(records[number], seconds) for number in range(len(cases))]  # type: ignore[arg-type]
    return fared, records[probes.id]  # type: ignore[return-value]


def late_share(probes: FlowRecord) -> float:
    """Of the probes, those that took longer than their link says, or never came."""
    took_ns = probes.received["received_ns"] - probes.received["sent_ns"]
    in_time = took_ns <= 1000 * PROBES_DELAY_US + LATE_PROBE_NS
    return 1 - float(np.count_nonzero(in_time)) / len(probes.sent)


def got(record: TcpRecord, seconds: float) -> Got:
    """Of the time in which the flow had settled, and was still sending."""

    def since_s(times_ns: np.ndarray) -> np.ndarray:
        return (times_ns.astype(np.int64) - record.began_ns) / 1e9

    received = record.received[since_s(record.received["time_ns"]).searchsorted(SETTLED_S) :]
    received = received[since_s(received["time_ns"]) < seconds]
    at_s = since_s(record.progress["time_ns"])
    rtt_us = record.progress["rtt_us"][(at_s >= SETTLED_S) & (at_s < seconds)]
    goodput_bps = 8e9 * float(np.ptp(received["bytes"])) / float(np.ptp(received["time_ns"]))
    return Got(goodput_bps, float(rtt_us.mean()) / 1000, record.retransmitted_segments)


def sample(case: Case, real: Got, virtual: Got) -> Sample:
    """Both kinds of time of one flow."""
    return Sample(
        case.way.name, case.congestion, real.goodput_bps, virtual.goodput_bps,
        virtual.goodput_bps / real.goodput_bps, virtual.window / real.window,
        virtual.rtt_ms / real.rtt_ms, virtual.retransmitted / real.retransmitted,
    )  # fmt: skip


def reject_if_late(samples: list[Sample], late: Mapping[str, float]) -> None:
    """Raise TestbedError where the machine made round trips longer than TCP's differences are, or
    stood still too often; `late` is each way's share of probes that were."""
    if max(late.values()) > MOST_LATE:
        raise TestbedError(
            f"run invalid: {max(late.values()):.1%} of the probes were late by over "
            f"{LATE_PROBE_NS / 1e6:g} ms; reduce the load on the machine"
        )
    worst = min(samples, key=lambda each: each.rtt)
    if worst.rtt < 1 - LATE:
        raise TestbedError(
            f"run invalid: {worst.way}, {worst.congestion}: round trips took "
            f"{1 / worst.rtt - 1:.0%} longer in real time than the network says; reduce "
            "the load on the machine"
        )


def group_by_case(samples: list[Sample]) -> dict[tuple[str, str], list[Sample]]:
    """Flows alike, in order."""
    cases: dict[tuple[str, str], list[Sample]] = {}
    for each in samples:
        cases.setdefault((each.way, each.congestion), []).append(each)
    return cases


def checks(samples: list[Sample]) -> list[Check]:
    """Of segments a round trip: goodput also has what the machine took away.

    Raises TestbedError where flows alike are not alike enough to tell.
    """
    return [
        agreed(f"{way}, {kind}: segments a round trip, virtual by real",
               [each.window for each in ours])
        for (way, kind), ours in group_by_case(samples).items()
    ]  # fmt: skip


def agreed(name: str, found: Sequence[float]) -> Check:
    """The mean decides; if it is off, only where each flow is, on the same side."""
    check = Check(name, statistics.mean(found), 1, WITHIN)
    if not check.passed and min(found) <= 1 + WITHIN and max(found) >= 1 - WITHIN:
        raise TestbedError(
            f"run invalid: {name}: {min(found):.3f} to {max(found):.3f} in flows alike, whose mean "
            "would be off; reduce the load on the machine, or give more --seconds"
        )
    return check


def summary(samples: list[Sample]) -> Table:
    """Means of the flows alike; least and most of goodput."""
    columns = ("way", "TCP", "real, Mbit/s", "virtual, Mbit/s", "goodput, ratio", "least - most",
               "segments a round trip", "round trip", "sent again")  # fmt: skip
    rows = []
    for (way, kind), ours in group_by_case(samples).items():
        mean = {what: statistics.mean(getattr(each, what) for each in ours) for what in
                ("real_bps", "virtual_bps", "goodput", "window", "rtt",
                 "retransmitted")}  # fmt: skip
        ratios = [each.goodput for each in ours]
        rows.append((
            way, kind, mean["real_bps"] / 1e6, mean["virtual_bps"] / 1e6, mean["goodput"],
            f"{min(ratios):.3f} - {max(ratios):.3f}", mean["window"], mean["rtt"],
            mean["retransmitted"],
        ))  # fmt: skip
    return table("TCP in virtual time by the kernel's: ratios within flows", columns, rows)


def draw(samples: list[Sample]) -> Figure:
    """Ratios of goodput and of segments a round trip, for each way."""
    figure, axes = plots.figure(2)
    names = [way.name for way in WAYS]
    for plot, what, label in zip(
        axes, ("goodput", "window"), ("Goodput", "Segments a round trip"), strict=True
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
