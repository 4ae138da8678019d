"""Draw the figures of docs/reference/alternate-marking.md: the packets and records of each method.

The figures show a simulation in virtual time. A few packets cross a link between two switches,
which delays all packets and loses some. The figures are drawn from the captures of the link and
the records of the switches.

    .venv/bin/python tools/figures.py [folder]      (default: docs/figures)
"""

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import finsy as fy
import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from controllers.ampm.collector import BlockReport, Collector
from controllers.ampm.records import Point, pulse_delay, sample_delays
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Bounds, Hop, Method, WatchedFlow
from controllers.connection import connection, cpu_ports
from controllers.forwarding import forwarding_entries
from minip4.compiler import CompiledProgram
from telemark.accounting import pcap
from telemark.backends.virtual.clock import VirtualClock
from telemark.network import Network
from telemark.programs import Source
from telemark.results import plots
from telemark.results.report import FIGURE_KINDS
from telemark.session.progress import Progress
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic
from telemark.traffic.patterns import Poisson
from topologies.basic import Line

PATH = ("s1", "s2")
SENT, RECEIVED = Point("s1", "departures"), Point("s2", "arrivals")
SCHEDULE = Schedule(2**20)
L = SCHEDULE.block_us
BLOCKS = 3
DELAY_US = L // 10
LOSS = 0.12
UDP = 17

SAMPLING = 0x3  # one packet in four is a sample, because few packets are sent


class Drawing(NamedTuple):
    """Marking method of a figure, and a seed for which the figure shows losses and pulses."""

    methods: Method
    seed: int = 1


DRAWINGS = {
    "step": Drawing(Method.STEP),
    "pulse": Drawing(Method.PULSE, 7),
    "double": Drawing(Method.DOUBLE, 7),
    "multiplexed": Drawing(Method.MULTIPLEXED, 35),
    "hashed": Drawing(Method.STEP | Method.HASHED, 9),
}


@dataclass(frozen=True)
class Wire:
    """Packets in sending order, as arrays with n elements.

    Times are in block lengths since the start of the first block; NaN means that the packet was
    lost.
    """

    sent: np.ndarray
    received: np.ndarray
    colour: np.ndarray  # the L bit
    pulse: np.ndarray  # the D bit, or the multiplexed pulse
    sample: np.ndarray
    reports: list[BlockReport]


def main(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    # store text as characters instead of outlines, for smaller files
    mpl.rcParams["svg.fonttype"] = "none"
    programs: dict[Source, CompiledProgram] = {}  # all figures use one program, compiled once
    for name, drawing in DRAWINGS.items():
        with tempfile.TemporaryDirectory() as scratch, Progress() as progress:
            clock = VirtualClock()
            run = Run(name, Path(scratch), drawing.seed, clock=clock, progress=progress,
                      programs=programs)  # fmt: skip
            wire = clock.run(transfer(run, drawing.methods))
        figure = draw(drawing.methods, wire)
        for kind in ("svg", "pdf"):
            path = folder / f"ampm_{name}.{kind}"
            figure.savefig(path, metadata=FIGURE_KINDS[kind])
            print(path)


async def transfer(run: Run, methods: Method) -> Wire:
    """Send packets for about three blocks, starting a quarter of a block before the first block."""
    topo = Line(switches=2, loss_probability=LOSS, delay_us=DELAY_US)
    with Network(topo, run, program="p4src/ampm/ampm.p4", switch_options=cpu_ports(topo)) as net:
        hops = [Hop(connection(net, name), forwarding_entries(net, name)) for name in PATH]
        source, destination = (net.host(name).IP() for name in ("h1", "h2"))
        watched = WatchedFlow(1, source, destination, UDP, methods=methods)
        bounds = Bounds(delay_us=DELAY_US)
        async with Collector({watched: hops}, SCHEDULE, run.clock, bounds=bounds) as collector:
            await collector.watch()
            sampling = fy.Action("set_sampling", mask=SAMPLING)
            for hop in hops:
                await hop.switch.modify(
                    [fy.P4TableEntry("sampling", action=sampling, is_default_action=True)]
                )
            first = 2 * (SCHEDULE.block_at(run.clock.now_ns() // 1000) // 2 + 2)
            start_us = SCHEDULE.start_us(first) - L // 4
            flow = Flow(1, "h1", "h2", rate_pps=15, count=52, pattern=Poisson())
            async with Traffic(net, [flow], start_ns=1000 * start_us) as traffic:
                reports = [r async for r in collector.blocks(first, first + BLOCKS - 1)]
                await traffic.finish()
    return seen(net, flow, methods, first, reports)


def seen(net: Network, flow: Flow, methods: Method, first: int, reports: list[BlockReport]) -> Wire:
    """Return the packets of the flow in the captures of both ends of the link."""
    out = pcap.read_flow(net.capture("s1", "s2", "out"), flow)
    come = pcap.read_flow(net.capture("s2", "s1", "in"), flow)
    received_us = np.full(flow.count, np.nan)
    received_us[come.sequence] = come.time_ns / 1000
    start_us = SCHEDULE.start_us(first)
    sent_us = out.time_ns.astype(np.int64) // 1000
    colour, pulse = out.dscp & 1, out.dscp >> 1 & 1
    if Method.MULTIPLEXED in methods:
        pulse = colour ^ sent_us // L & 1
    samples = {t for r in reports for t in r.known_records(1)[SENT].samples.values()}
    return Wire(
        (sent_us - start_us) / L,
        (received_us[out.sequence] - start_us) / L,
        colour,
        pulse,
        np.array([t in samples for t in sent_us]),
        reports,
    )


def draw(methods: Method, wire: Wire) -> Figure:
    """Draw time to the right, and packets as lines from s1 (top) to s2 (bottom)."""
    figure = Figure(figsize=(plots.TWO_COLUMNS_IN, 2.4))
    axes = figure.subplots()
    draw_windows(axes, methods)
    colours = ("0.4", "0.4") if methods == Method.PULSE else plots.COLOURS
    for sent, received, colour, pulse, sample in zip(
        wire.sent, wire.received, wire.colour, wire.pulse, wire.sample, strict=True
    ):
        paint = colours[colour]
        is_lost = np.isnan(received)
        end = (sent + DELAY_US / L / 2, 0.5) if is_lost else (received, 0)
        axes.plot((sent, end[0]), (1, end[1]), "-", color=paint, linewidth=2 if pulse else 0.6)
        shape: dict[str, Any] = {"marker": "D" if pulse else "o", "markersize": 6 if pulse else 3.5}
        edge: dict[str, Any] = {
            "markeredgecolor": "black" if pulse or sample else paint,
            "markeredgewidth": 1.4 if sample else 0.7,
        }
        for x, y in ((sent, 1), (received, 0)):
            axes.plot(x, y, color=paint, zorder=3, **shape, **edge)
        if is_lost:
            axes.plot(*end, "x", color="black", markersize=4.5, zorder=3)
    for block in range(BLOCKS + 1):
        axes.axvline(block, color="black", linewidth=0.8, linestyle=":")
    for report in wire.reports:
        number = report.block - wire.reports[0].block
        axes.text(number + 0.5, 1.42, f"block {number}", ha="center", fontweight="bold")
        axes.text(number + 0.5, -0.42, known(methods, report), ha="center", va="top")
    axes.set_xlim(-0.27, BLOCKS + 0.22)
    axes.set_ylim(-1.0, 1.65)
    axes.set_yticks([1, 0], ["s1 sends", "s2 receives"])
    axes.set_xticks(range(BLOCKS + 1), [f"{n} L" for n in range(BLOCKS + 1)])
    axes.set_xlabel("Time (blocks of L)")
    axes.grid(visible=False)
    plots.legend(axes, 5, legend(methods))
    return figure


def draw_windows(axes: Axes, methods: Method) -> None:
    """Shade the times at which a pulse may be sent or, for multiplexed marking, be received."""
    for block in range(BLOCKS):
        if Method.PULSE in methods:
            axes.fill_between((block + 0.25, block + 0.75), 0.82, 1.18, color="0.88")
        if Method.MULTIPLEXED in methods:
            axes.fill_between((block + 0.5, block + 0.5 + 1 / 32), 0.82, 1.18, color="0.75")
            axes.fill_between((block + 0.25, block + 0.75), -0.18, 0.18, color="0.88")


def known(methods: Method, report: BlockReport) -> str:
    """Return the results that the records of both switches give for a block, as text."""
    sent, received = (report.records[1][point] for point in (SENT, RECEIVED))
    assert sent is not None
    assert received is not None
    lines = []
    if methods & (Method.STEP | Method.MULTIPLEXED):
        lines.append(
            f"{sent.packets} - {received.packets} = {sent.packets - received.packets} lost"
        )
    if methods & (Method.PULSE | Method.MULTIPLEXED):
        delay = pulse_delay(sent, received)
        lines.append(delay.problem or f"pulse: {(delay.delay_us or 0) / L:.3f} L of delay")
    if methods == Method.PULSE and sent.pulses == received.pulses == 1:
        lines.append(f"packets so far: {sent.pulse_count}, {received.pulse_count}")
    if Method.HASHED in methods:
        delays, unpaired = sample_delays(sent, received)
        lines.append(f"delays of {len(delays)}, {unpaired} unpaired")
    if methods == Method.STEP:
        delay_us = received.first_us - sent.first_us
        lines.append(f"first packets: {delay_us / L:.3f} L")
    return "\n".join(lines)


def legend(methods: Method) -> list[Line2D]:
    def dot(label: str, paint: str = "white", **style: object) -> Line2D:
        shape: dict[str, Any] = {"marker": "o", "markeredgecolor": paint, **style}
        return Line2D([], [], linestyle="", color=paint, label=label, **shape)

    entries = []
    if methods & (Method.STEP | Method.MULTIPLEXED):
        entries += [dot(f"L = {bit}", plots.COLOURS[bit]) for bit in (0, 1)]
    if Method.PULSE in methods:
        entries.append(dot("D = 1: pulse", marker="D", markeredgecolor="black", markersize=6))
    if Method.MULTIPLEXED in methods:
        entries.append(dot("L inverted: pulse", marker="D", markeredgecolor="black", markersize=6))
    if Method.HASHED in methods:
        entries.append(dot("hash AND mask = 0", markeredgecolor="black", markeredgewidth=1.4))
    return [*entries, dot("lost", marker="x", markeredgecolor="black", markersize=4.5)]


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs" / "figures")
