"""Loss by alternate marking: is what the switches measure in each block exactly what was lost?

A flow crosses s1, s2 and s3. s1 colours its packets by blocks of time, each switch counts every
colour where packets enter and where they leave, and the controller reads the idle colour half a
block after the switch (RFC 9341 section 3.1; p4src/ampm/step.p4). The links drop packets, and log
what they drop: the measurement of every complete block and segment must equal that log.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from controllers.ampm.collector import Collector
from controllers.ampm.records import Point, PointRecord
from controllers.ampm.schedule import Schedule, guard_us
from controllers.ampm.watch import Bounds, Hop, LimitError, Method, WatchedFlow, check_limits
from controllers.connection import connection, cpu_ports
from controllers.forwarding import forwarding_entries
from testbed import capture, cli, plots
from testbed.books import Books
from testbed.errors import TestbedError
from testbed.isolation import Run
from testbed.network import Network
from testbed.results import Check, Report, table
from testbed.traffic import Flow, FlowRecord, Traffic
from topologies.line import Line

PATH = ("s1", "s2", "s3")
LINK_DELAY_US = 1000
UDP = 17

# A segment lies between two counting points. Its packets are those counted at the first one.
SEGMENTS = {
    "s1-s2": (Point("s1", "departures"), Point("s2", "arrivals")),
    "s2-s3": (Point("s2", "departures"), Point("s3", "arrivals")),
    "end to end": (Point("s1", "departures"), Point("s3", "departures")),
}

# What clocks and delays keep to: one clock for all, two links, and 20 ms for a busy machine.
BOUNDS = Bounds(delay_us=2 * LINK_DELAY_US + 20_000)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--loss", type=cli.percentage, nargs="+", metavar="PERCENT",
        help="loss of each link between switches (default: 0 0.1 1 5 10)",
    )  # fmt: skip
    parser.add_argument(
        "--rate", type=cli.positive_int, default=5000, metavar="PPS",
        help="packets a second of the watched flow (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--blocks", type=cli.positive_int, default=8, metavar="N",
        help="complete blocks to measure for each loss (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--block-us", type=cli.power_of_two, metavar="US",
        help="length of a block, a power of two of microseconds (default: 1048576)",
    )  # fmt: skip
    parser.add_argument(
        "--program", default="p4src/ampm/ampm.p4", metavar="P4",
        help="the switches' program: try your own variant (default: %(default)s)",
    )  # fmt: skip


@dataclass(frozen=True)
class BlockRecords:
    """What all points know of one block of the flow."""

    block: int
    points: dict[Point, PointRecord]


@dataclass(frozen=True)
class Measurement:
    """One run over the line at one loss: what was counted, and what is true."""

    loss_percent: float
    counts: list[BlockRecords]  # complete blocks, and one partial block at either end
    true_losses: dict[str, NDArray[np.int64]]  # segment -> packets lost, block by block
    record: FlowRecord
    marks_delivered: int  # packets that reached h2 with their mark
    books: Books

    def measured_losses(self, segment: str) -> NDArray[np.int64]:
        """Packets lost on a segment as the switches counted them, block by block."""
        first, second = SEGMENTS[segment]
        return np.array([c.points[first].packets - c.points[second].packets for c in self.counts])

    def packets(self, segment: str) -> NDArray[np.int64]:
        """Packets that entered a segment as the switches counted them, block by block."""
        return np.array([c.points[SEGMENTS[segment][0]].packets for c in self.counts])


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    options.loss = options.loss or ([0, 5] if options.quick else [0, 0.1, 1, 5, 10])
    options.block_us = options.block_us or (2**18 if options.quick else 2**20)
    try:
        schedule = Schedule(options.block_us)
        check_limits(Method.STEP, schedule, BOUNDS)
    except (ValueError, LimitError) as error:
        raise TestbedError(f"--block-us {options.block_us}: {error}") from None
    measurements = [await measure(loss, schedule, options, run) for loss in options.loss]
    checks = [check for m in measurements for check in checks_of(m, schedule)]
    return Report(
        samples=[row for m in measurements for row in samples_of(m)],
        checks=checks,
        metrics={f"loss {m.loss_percent:g} %": metrics_of(m) for m in measurements},
        figure=draw(measurements, options.rate, schedule),
        tables=[summary_table(measurements)],
    )


async def measure(
    loss_percent: float, schedule: Schedule, options: argparse.Namespace, run: Run
) -> Measurement:
    """Send the flow over links that lose `loss_percent`, and read the counters block by block."""
    topo = Line(switches=len(PATH), loss=loss_percent / 100, delay_us=LINK_DELAY_US)
    with Network(
        topo, run, program=options.program, name=f"loss-{loss_percent:g}",
        switch_options=cpu_ports(topo),
    ) as net:  # fmt: skip
        flow = flow_of(options, schedule)
        hops = [Hop(connection(net, name), forwarding_entries(net, name)) for name in PATH]
        watched = WatchedFlow(
            flow.id, net.host("h1").IP(), net.host("h2").IP(), UDP, dst_port=flow.port
        )
        async with Collector({watched: hops}, schedule, run.clock, bounds=BOUNDS) as collector:
            await collector.watch()
            # The flow begins and ends in the middle of a block. So it fills the blocks between
            # these two: they are the complete ones, whatever comes out.
            first = schedule.block_at(run.clock.now_ns() // 1000 + 500_000) + 1
            last = first + options.blocks + 1
            start_us = schedule.start_us(first) + schedule.block_us // 2
            async with Traffic(net, [flow], start_ns=1000 * start_us) as traffic:
                counts = []
                async for report in collector.blocks(first, last):
                    known = {p: r for p, r in report.records[flow.id].items() if r is not None}
                    if not report.complete:
                        raise TestbedError(report.problems[0])
                    counts.append(BlockRecords(report.block, known))
                    run.progress.update(
                        f"loss {loss_percent:g} %: block {len(counts)} of {options.blocks + 2}"
                    )
                records = await traffic.finish()
    return Measurement(
        loss_percent,
        counts,
        true_losses(net, records[flow.id], schedule, first, last),
        records[flow.id],
        int(np.count_nonzero(capture.read_flow(net.capture("s3", "h2", "out"), flow).dscp)),
        Books.of(net, records),
    )


def flow_of(options: argparse.Namespace, schedule: Schedule) -> Flow:
    """The watched flow: it lasts from the middle of the first block to that of the last one."""
    count = options.rate * (options.blocks + 1) * schedule.block_us // 1_000_000
    return Flow(1, "h1", "h2", rate_pps=options.rate, count=count)


def true_losses(
    net: Network, record: FlowRecord, schedule: Schedule, first: int, last: int
) -> dict[str, NDArray[np.int64]]:
    """What was really lost in the blocks `first` to `last`, found without any counter.

    A capture at s1's egress says which block each sequence number belongs to; the links' drop
    logs and the receiving host say which sequence numbers were lost.
    """
    flow = record.flow
    sent = capture.read_flow(net.capture("s1", "s2", "out"), flow)
    block_of = np.zeros(flow.count, np.int64)
    block_of[sent.sequence] = schedule.attribute(sent.time_ns // 1000, sent.dscp & 1)
    lost = {
        "s1-s2": capture.read_flow(net.capture("s1", "s2", "lost"), flow).sequence,
        "s2-s3": capture.read_flow(net.capture("s2", "s3", "lost"), flow).sequence,
        "end to end": np.setdiff1d(sent.sequence, record.received["sequence"]),
    }
    return {
        segment: np.bincount(block_of[sequence] - first, minlength=last - first + 1)
        for segment, sequence in lost.items()
    }


def samples_of(m: Measurement) -> list[dict[str, object]]:
    """One row for each block and segment. `complete`: the flow filled the whole block."""
    return [
        {
            "loss_percent": m.loss_percent,
            "block": counts.block,
            "complete": int(0 < index < len(m.counts) - 1),
            "segment": segment,
            "packets": int(m.packets(segment)[index]),
            "measured_loss": int(m.measured_losses(segment)[index]),
            "true_loss": int(m.true_losses[segment][index]),
        }
        for index, counts in enumerate(m.counts)
        for segment in SEGMENTS
    ]


def errors_of(m: Measurement, segment: str) -> NDArray[np.int64]:
    """Measured minus true loss in each complete block, in packets."""
    return (m.measured_losses(segment) - m.true_losses[segment])[1:-1]


def checks_of(m: Measurement, schedule: Schedule) -> list[Check]:
    """Every complete block exact, the totals equal to the hosts', and the books balanced."""
    at = f"loss {m.loss_percent:g} %"
    delay_us = (m.record.received["received_ns"] - m.record.received["sent_ns"]) / 1000
    guard = guard_us(0, float(delay_us.mean()), float(delay_us.std()))  # one clock: A = 0
    lost_by_hosts = m.record.flow.count - len(m.record.received)
    return [
        *(
            Check(f"{at}, {segment}: largest error of a block", abs(errors_of(m, segment)).max(), 0)
            for segment in SEGMENTS
        ),
        Check(
            f"{at}: packets lost in all, by the hosts' sequence numbers",
            int(m.measured_losses("end to end").sum()),
            lost_by_hosts,
        ),
        Check(f"{at}: marked packets that reached h2", m.marks_delivered, 0),
        Check(f"{at}: guard time, us (below half a block)", guard, 0, schedule.block_us / 2),
        *m.books.checks(at),
    ]


def metrics_of(m: Measurement) -> dict[str, object]:
    """Loss rate of the complete blocks by segment: mean and standard deviation, in percent."""
    metrics: dict[str, object] = {}
    for segment in SEGMENTS:
        rates = loss_rates(m, segment)
        metrics[segment] = {"mean_percent": rates.mean(), "sd_percent": rates.std()}
    return metrics


def loss_rates(m: Measurement, segment: str) -> NDArray[np.float64]:
    """Measured loss of each complete block, in percent of the packets that entered."""
    packets = np.maximum(m.packets(segment), 1)
    return 100 * (m.measured_losses(segment) / packets)[1:-1]


def summary_table(measurements: list[Measurement]) -> object:
    """A row for each loss and segment: what was measured, what is true, and the difference."""
    rows = [
        (
            f"{m.loss_percent:g} %",
            segment,
            int(m.packets(segment)[1:-1].sum()),
            int(m.measured_losses(segment)[1:-1].sum()),
            int(m.true_losses[segment][1:-1].sum()),
            int(abs(errors_of(m, segment)).max()),
        )
        for m in measurements
        for segment in SEGMENTS
    ]
    return table(
        "Loss in all complete blocks",
        ("link loss", "segment", "packets", "measured", "true", "largest error of a block"),
        rows,
    )


def draw(measurements: list[Measurement], rate_pps: int, schedule: Schedule) -> Figure:
    """Left: loss measured against loss configured. Right: error of every block, in packets."""
    figure, (left, right) = plots.figure(
        f"Loss by alternate marking: {rate_pps:,} packets/s, "
        f"blocks of {schedule.block_us / 1e6:.3g} s",
        columns=2,
    )
    places = np.arange(len(measurements))
    for number, segment in enumerate(SEGMENTS):
        style = {"color": plots.COLOURS[number], "marker": plots.MARKERS[number]}
        x = places + 0.22 * (number - 1)
        rates = [loss_rates(m, segment) for m in measurements]
        left.errorbar(
            x, [r.mean() for r in rates], [r.std() for r in rates],
            linestyle="", label=f"{segment}, measured", **style,
        )  # fmt: skip
        left.plot(
            x, [true_rate(m, segment) for m in measurements],
            "o", color="black", fillstyle="none", markersize=11, label="true" if not number else "",
        )  # fmt: skip
        for place, m in zip(x, measurements, strict=True):
            errors = errors_of(m, segment)
            spread = np.linspace(-0.08, 0.08, len(errors))
            right.plot(place + spread, errors, linestyle="", markersize=3, **style)
    for axes in (left, right):
        axes.set_xticks(places, [f"{m.loss_percent:g}" for m in measurements])
        axes.set_xlim(-0.5, len(measurements) - 0.5)
        axes.set_xlabel("Loss configured on each link (%)")
    left.set_yscale("symlog", linthresh=0.1)
    left.set_yticks([0, 0.1, 1, 10, 100], ["0", "0.1", "1", "10", "100"])
    left.set_ylim(-0.03, 100)
    left.set_ylabel("Loss in a block (%), mean and sd over blocks")
    left.legend(loc="upper left")
    right.set_ylabel("Measured - true loss of each block (packets)")
    right.set_ylim(min(-5, right.get_ylim()[0]), max(5, right.get_ylim()[1]))
    return figure


def true_rate(m: Measurement, segment: str) -> float:
    """True loss over all complete blocks, in percent."""
    packets = max(int(m.packets(segment)[1:-1].sum()), 1)
    return 100 * float(m.true_losses[segment][1:-1].sum()) / packets


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
