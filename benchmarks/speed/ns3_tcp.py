"""TCP in virtual time compared with TCP in ns-3: same bottleneck, flows and loss probability.

There are links with a queue of 0.25 to 2 BDP, a link with ten flows, and links with random losses.
With a queue, the goodput of both simulators must agree. With random losses, goodput depends on the
model, so it is only reported. The benchmark needs ns-3 (apt install libns3-dev).
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import sqrt
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from mininet.topo import Topo

from benchmarks.speed.shared.claims import AtLeast
from benchmarks.speed.shared.ns3 import Ns3
from controllers.connection import connection
from controllers.routing import routing_entries
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.results import plots
from telemark.results.report import Check, Report, Table, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.traffic.flows import Traffic
from telemark.traffic.tcp import TcpFlow, TcpRecord

SOURCE = Path(__file__).parent / "cpp" / "bottleneck.cc"
LIBRARIES = ("ns3-core", "ns3-network", "ns3-internet", "ns3-point-to-point", "ns3-applications")
ROUTER = "p4src/routing/router.p4"
# congestion control of Linux -> corresponding class of ns-3
VARIANTS = {"reno": "TcpLinuxReno", "cubic": "TcpCubic"}
# length of a segment; length of its frame with Ethernet header, and in ns-3 with PPP header
SEGMENT_BYTES, FRAME_BYTES, NS3_FRAME_BYTES = 1448, 1514, 1502
SETTLED_S, BETWEEN_S = 10.0, 0.1  # start of the measurement; time between the starts of two flows
RATE_BPS, DELAY_US = 20_000_000, 15_000  # rate of the bottleneck with a queue; one-way delay
WITHIN, FAIR = 0.02, 0.95


@dataclass(frozen=True)
class Link:
    """Bottleneck link, and number of flows that share it."""

    name: str
    rate_bps: int
    delay_us: int
    queue_packets: int
    loss_probability: float = 0.0
    flows: int = 1

    @property
    def goodput_bps(self) -> float:
        """Goodput of a fully used link in bit/s."""
        return self.rate_bps * SEGMENT_BYTES / FRAME_BYTES


PRODUCT = RATE_BPS * 2 * DELAY_US / 1e6 / 8 / FRAME_BYTES  # product of delay and rate, in frames
QUEUES = [Link(f"queue {share:g}", RATE_BPS, DELAY_US, round(share * PRODUCT))
          for share in (0.25, 0.5, 1, 2)]  # fmt: skip
SHARED = Link("ten flows", 10**8, 5000, 80, flows=10)
LOSSES = [Link(f"{100 * loss:g} % lost", 10**8, 10_000, 1000, loss)
          for loss in (0.001, 0.005, 0.01, 0.02)]  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """Link utilization and Jain's fairness index in both simulators."""

    link: str
    congestion: str
    minip4: float
    ns3: float
    minip4_fairness: float
    ns3_fairness: float
    minip4_constant: float  # (segments per RTT without queueing) * sqrt(loss probability)
    ns3_constant: float


class Bottleneck(Topo):
    """Network h1 - s1 - h2 with a slow link to h2."""

    def build(self, link: Link) -> None:
        switch = self.addSwitch("s1")
        self.addLink(self.addHost("h1"), switch, delay_us=link.delay_us, queue_packets=10**6)
        self.addLink(
            switch, self.addHost("h2"), rate_bps=link.rate_bps, delay_us=link.delay_us,
            queue_packets=link.queue_packets, loss_probability=link.loss_probability,
        )  # fmt: skip


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds", type=cli.seconds, metavar="S",
        help="duration of the measurement (default: 200; 30 with --quick)",
    )  # fmt: skip


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    cli.require_time(options, "virtual", "this benchmark measures virtual time")
    ns3 = Ns3(run.folder, SOURCE, LIBRARIES)
    seconds = options.seconds or (30.0 if options.quick else 200.0)
    samples = []
    for link in (*QUEUES, SHARED, *LOSSES):
        for kind in VARIANTS:
            ours = await measure(link, kind, seconds, run)
            run.progress.update(f"{link.name}, {kind}, in ns-3")
            output = ns3.run("\n".join(describe(link, kind, seconds, run.seed)))
            samples.append(sample(link, kind, ours, parse_goodputs(output, seconds)))
    return Report(
        samples=[asdict(each) for each in samples],
        checks=checks(samples),
        metrics={"ns-3": ns3.version},
        figure=draw(samples),
        caption=f"{seconds:g} s of TCP in virtual time (minip4) and in ns-3 {ns3.version}. (a) "
        "Link utilization for different queue lengths (in BDP). (b) Segments per RTT times the "
        "square root of the loss probability.",
        tables=[summary(samples, ns3.version)],
    )


async def measure(link: Link, kind: str, seconds: float, run: Run) -> list[float]:
    """Return the goodput of each flow in minip4, in bit/s."""
    name = f"{link.name} {kind}".replace(" ", "-").replace("%", "percent")
    last_s = SETTLED_S + seconds
    flows = [
        TcpFlow(number, "h1", "h2", duration_s=last_s - number * BETWEEN_S, congestion=kind,
                after_s=number * BETWEEN_S)
        for number in range(link.flows)
    ]  # fmt: skip
    with Network(Bottleneck(link), run, program=ROUTER, name=name, capture=False) as net:
        async with connection(net, "s1") as controller:
            await controller.write([+entry for entry in routing_entries(net, "s1", [])])
        async with Traffic(net, flows) as traffic:
            records = await traffic.finish()
    found = []
    for number in range(link.flows):
        record = records[number]
        assert isinstance(record, TcpRecord)
        received_s = (record.received["time_ns"].astype(np.int64) - traffic.start_ns) / 1e9
        at = np.searchsorted(received_s, [SETTLED_S, last_s])
        before, after = np.append(0, record.received["bytes"])[at]
        found.append(8 * float(after - before) / seconds)
    return found


def describe(link: Link, kind: str, seconds: float, seed: int) -> Iterator[str]:
    """Yield the input lines of cpp/bottleneck.cc.

    The rate is scaled so that the shorter frames of ns-3 have the same transmission time.
    """
    rate_bps = round(link.rate_bps * NS3_FRAME_BYTES / FRAME_BYTES)
    yield (
        f"link {rate_bps} {1000 * link.delay_us} {link.queue_packets} {link.loss_probability} "
        f"{seed % 2**31 + 1}"
    )
    for number in range(link.flows):
        yield f"flow {VARIANTS[kind]} {round(1e9 * number * BETWEEN_S)}"
    yield f"measure {round(1e9 * SETTLED_S)} {round(1e9 * (SETTLED_S + seconds))}"


def parse_goodputs(output: str, seconds: float) -> list[float]:
    """Return the goodput of each flow in bit/s from the scenario output. Raises TestbedError."""
    try:
        return [8 * int(line.split()[1]) / seconds for line in output.splitlines()]
    except (IndexError, ValueError):
        raise TestbedError(f"ns-3: cannot parse its output: {output[:200]!r}") from None


def sample(link: Link, kind: str, ours: list[float], theirs: list[float]) -> Sample:
    """Combine the results of both simulators for one link."""
    rtt_s = 2 * link.delay_us / 1e6
    to_constant = rtt_s / 8 / SEGMENT_BYTES * sqrt(link.loss_probability)
    return Sample(
        link.name, kind, sum(ours) / link.goodput_bps, sum(theirs) / link.goodput_bps,
        fairness(ours), fairness(theirs), sum(ours) * to_constant, sum(theirs) * to_constant,
    )  # fmt: skip


def fairness(rates: list[float]) -> float:
    """Return Jain's fairness index."""
    return sum(rates) ** 2 / (len(rates) * sum(rate * rate for rate in rates))


def checks(samples: list[Sample]) -> list[Check]:
    """Check that both simulators agree on links with a queue and that ten flows are fair."""
    names = [link.name for link in (*QUEUES, SHARED)]
    alike = [Check(f"{s.link}, {s.congestion}: share of the link, minip4 / ns-3",
                   s.minip4 / s.ns3, 1, WITHIN) for s in samples if s.link in names]  # fmt: skip
    fair = [AtLeast(f"{s.link}, {s.congestion}: Jain's index", s.minip4_fairness, FAIR)
            for s in samples if s.link == SHARED.name]  # fmt: skip
    return [*alike, *fair]


def summary(samples: list[Sample], version: str) -> Table:
    """Return a table with a row per link and congestion control."""
    columns = ("link", "TCP", "minip4", "ns-3", "minip4 / ns-3", "Jain's index", "Jain's, ns-3",
               "constant", "constant, ns-3")  # fmt: skip
    rows = [(s.link, s.congestion, s.minip4, s.ns3, s.minip4 / s.ns3, s.minip4_fairness,
             s.ns3_fairness, s.minip4_constant, s.ns3_constant) for s in samples]  # fmt: skip
    return table(f"Link utilization in minip4 and ns-3 {version}", columns, rows)


def draw(samples: list[Sample]) -> Figure:
    """Draw the link utilization against the queue length (left) and segments per RTT (right)."""
    figure, (left, right) = plots.figure(2)
    for kind in VARIANTS:
        ours = [s for s in samples if s.congestion == kind]
        for axes, links, what in ((left, QUEUES, ""), (right, LOSSES, "_constant")):
            names = [link.name for link in links]
            these = [s for s in ours if s.link in names]
            for simulator, style in (("minip4", "o-"), ("ns3", "x--")):
                label = f"{kind}, {simulator.replace('ns3', 'ns-3')}"
                axes.plot(names, [getattr(s, simulator + what) for s in these], style, label=label)
    left.set_ylabel("Share of the link")
    right.set_ylabel("Segments per RTT x sqrt(loss)")
    right.set_ylim(bottom=0)
    for axes in (left, right):
        axes.tick_params("x", rotation=30)
        plots.legend(axes, 2)
    return figure


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
