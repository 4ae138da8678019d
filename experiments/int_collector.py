"""INT collector: what is the CPU time per report, and at what rate are reports lost?

A program on another host replays INT-MD Telemetry Reports over a veth pair. The collector is a
process on its own core. The collector receives and decodes reports, indexes them by flow, and in
some runs stores them. The rate increases until datagrams are lost. A rate is free of loss if all
datagrams arrived and the collector needed less than a second of CPU time per second, so that no
backlog grew in its socket. In further runs, the rate is constant, and the number of flows or the
path length varies. The collector must detect all missing datagrams as gaps in sequence numbers. The
kernel must have dropped exactly these datagrams.

Claim: The collector detects each missing report as a gap in the sequence numbers, and the kernel
dropped exactly these reports.

Published: INTCollector (CNSM 2018, abstract): 1.2 million reports/s at 8 % of a CPU, in XDP. The
collector of Telemark is a process with a socket, so only the shape of the curves is comparable.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from experiments.shared.int.replaying import Hosts, Shape, Taken
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run

HOPS, FLOWS, AT_ONCE = 5, 1000, 10
RATES = {
    1: (50e3, 100e3, 150e3, 200e3, 300e3, 400e3),
    AT_ONCE: (0.25e6, 0.5e6, 0.75e6, 1e6, 1.5e6, 2e6, 2.5e6),
}  # reports/s, by reports per datagram
STORED_RATES = (100e3, 200e3, 300e3)
STEADY = 750e3  # reports/s, while flows and hops vary
FLOW_COUNTS, HOP_COUNTS = (10, 100, 1000, 5000), (1, 2, 4, 6, 8)
FIT = 7  # max number of reports per datagram, if a report has eight hops
TOGETHER = (
    0.5  # max CPU time per report in a full datagram, relative to a report alone in its datagram
)
BISECTIONS = 3


class Peer(NamedTuple):
    """Published result of another collector, on another machine and with other work per report."""

    name: str
    reports_per_s: float
    busy_percent: float  # CPU utilization in percent of a core


PEERS = (
    Peer("INTCollector (XDP, stores changes)", 1.2e6, 8),
    Peer("AF_XDP (filtered before, no store)", 3e6, 100),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds", type=cli.seconds, metavar="S",
        help="duration of each rate (default: 2)",
    )  # fmt: skip


@dataclass(frozen=True)
class Turn:
    """One round: one rate of one shape, and its result."""

    question: str  # varied parameter: rate, flows or hops
    shape: Shape
    taken: Taken

    @property
    def is_free_of_loss(self) -> bool:
        """Return whether all datagrams arrived and no backlog grew in the socket."""
        return not self.taken.lost and self.taken.busy < 1

    @property
    def offered(self) -> float:
        """Offered load, in reports/s."""
        return self.taken.sent_per_s * self.shape.reports


def experiment(options: argparse.Namespace, run: Run) -> Report:
    cli.require_time(options, "real", "CPU time is measured in real time only")
    options.seconds = options.seconds or (0.5 if options.quick else 2.0)
    turns: list[Turn] = []
    with Hosts(run.folder) as hosts:

        def take(question: str, shape: Shape, rate: float) -> Turn:
            run.progress.update(f"{question}: {shape.text}, {rate:,.0f} reports/s")
            taken = hosts.take(shape, rate / shape.reports, options.seconds)
            turns.append(Turn(question, shape, taken))
            return turns[-1]

        series = ((1, False), (AT_ONCE, False), (AT_ONCE, True))
        for reports, is_stored in series:
            shape = Shape(reports, HOPS, FLOWS, is_stored)
            search(take, shape, offered_rates(shape, options), 0 if options.quick else BISECTIONS)
        for flows in (FLOW_COUNTS[0], FLOW_COUNTS[-1]) if options.quick else FLOW_COUNTS:
            take("flows", Shape(AT_ONCE, HOPS, flows), STEADY)
        for hops in (HOP_COUNTS[0], HOP_COUNTS[-1]) if options.quick else HOP_COUNTS:
            take("hops", Shape(FIT, hops, FLOWS), STEADY)
    return Report(
        samples=[make_row(turn) for turn in turns],
        checks=make_checks(turns),
        metrics={"loss_free_reports_per_s": loss_free(turns)},
        figure=draw(turns),
        caption=caption(options),
        tables=[summary_table(turns)],
    )


def offered_rates(shape: Shape, options: argparse.Namespace) -> Sequence[float]:
    """Return the offered loads to test, in reports/s."""
    rates = STORED_RATES if shape.is_stored else RATES[shape.reports]
    return rates[1:2] if options.quick else rates


def search(
    take: Callable[[str, Shape, float], Turn], shape: Shape, rates: Sequence[float], steps: int
) -> None:
    """Increase the rate until reports are lost or the sender is saturated, then bisect."""
    free, lossy = 0.0, None
    for rate in rates:
        turn = take("rate", shape, rate)
        if turn.offered < 0.95 * rate:
            return
        if not turn.is_free_of_loss:
            lossy = rate
            break
        free = rate
    for _ in range(steps if lossy else 0):
        assert lossy is not None
        rate = (free + lossy) / 2
        if take("rate", shape, rate).is_free_of_loss:
            free = rate
        else:
            lossy = rate


def loss_free(turns: Sequence[Turn]) -> dict[str, float]:
    """Return the highest tested rate without loss, for each shape."""
    found: dict[str, float] = {}
    for turn in turns:
        if turn.question == "rate" and turn.is_free_of_loss:
            found[turn.shape.text] = max(turn.offered, found.get(turn.shape.text, 0))
    return found


def make_checks(turns: Sequence[Turn]) -> list[Check]:
    """Check that reports were decoded correctly and that missing reports were detected."""
    taken = [turn.taken for turn in turns]
    alone, many = (
        min(turn.taken.ns_per_report for turn in turns
            if turn.question == "rate" and turn.shape.reports == reports
            and not turn.shape.is_stored)
        for reports in (1, AT_ONCE)
    )  # fmt: skip
    return [
        Check("datagrams neither received nor in a gap (max per round)",
              max(abs(each.lost - each.in_gaps) for each in taken), 0),
        Check("datagrams in gaps, not dropped by the kernel (max per round)",
              max(abs(each.in_gaps - each.kernel_drops) for each in taken), 0),
        Check("wrong reports, hops and flows", sum(
            each.misread for each in taken), 0),
        Check(f"CPU time per report: {AT_ONCE} reports per datagram (normalized to 1 report per "
              f"datagram), at most {TOGETHER}", many / alone, 0, TOGETHER),
    ]  # fmt: skip


def make_row(turn: Turn) -> dict[str, object]:
    """Return a row of samples.csv."""
    return {
        "question": turn.question, **asdict(turn.shape), "reports_per_s": turn.offered,
        "datagrams": turn.taken.sent, "lost": turn.taken.lost, "in_gaps": turn.taken.in_gaps,
        "kernel_drops": turn.taken.kernel_drops, "busy_percent": 100 * turn.taken.busy,
        "user_ns_per_report": 1e9 * turn.taken.user_s / turn.taken.reports,
        "system_ns_per_report": 1e9 * turn.taken.system_s / turn.taken.reports,
        "stored_bytes_per_report": turn.taken.stored_bytes / turn.taken.reports,
    }  # fmt: skip


def summary_table(turns: Sequence[Turn]) -> Table:
    """Return a table with a row per round."""
    columns = ("variable", "reports", "offered (reports/s)", "lost datagrams", "CPU utilization",
               "ns per report", "in the kernel")  # fmt: skip
    rows = [
        (turn.question, turn.shape.text, f"{turn.offered:,.0f}", turn.taken.lost,
         f"{100 * turn.taken.busy:.0f} %", turn.taken.ns_per_report,
         1e9 * turn.taken.system_s / turn.taken.reports)
        for turn in turns
    ]  # fmt: skip
    return table("CPU time of the collector", columns, rows)


def draw(turns: Sequence[Turn]) -> Figure:
    """Draw CPU utilization over rate with published results, and CPU time over flows and hops."""
    figure, (rates, flows, hops) = plots.figure(3)
    draw_rates(rates, [turn for turn in turns if turn.question == "rate"])
    for axes, what, text in ((flows, "flows", "Flows"), (hops, "hops", "Hops per path")):
        ours = [turn for turn in turns if turn.question == what]
        x = [getattr(turn.shape, what) for turn in ours]
        for number, (part, label) in enumerate((("user_s", "collector"), ("system_s", "kernel"))):
            ns = [1e9 * getattr(turn.taken, part) / turn.taken.reports for turn in ours]
            axes.plot(x, ns, label=label, color=plots.COLOURS[number], marker=plots.MARKERS[number])
        axes.set(xlabel=text, ylabel="CPU time per report (ns)")
        axes.set_ylim(bottom=0)
        plots.legend(axes, 2)
    flows.set_xscale("log")
    hops.set_xticks(HOP_COUNTS)
    return figure


def draw_rates(axes: Axes, turns: Sequence[Turn]) -> None:
    """Draw a line per shape. Hollow markers: datagrams were lost, or a backlog grew."""
    for number, shape in enumerate(dict.fromkeys(turn.shape for turn in turns)):
        ours = sorted((turn for turn in turns if turn.shape == shape), key=lambda t: t.offered)
        style: dict[str, Any] = {"color": plots.COLOURS[number], "marker": plots.MARKERS[number]}
        x, y = ([value(turn) for turn in ours] for value in (
            lambda t: t.offered / 1e6, lambda t: 100 * t.taken.busy))  # fmt: skip
        reports = plots.count(shape.reports, "report")
        axes.plot(x, y, **style, label=f"{shape.reports}, stored" if shape.is_stored else reports)
        late = [place for place, turn in enumerate(ours) if not turn.is_free_of_loss]
        axes.plot([x[i] for i in late], [y[i] for i in late], **style, linestyle="",
                  markerfacecolor="white")  # fmt: skip
    for peer in PEERS:
        place = (peer.reports_per_s / 1e6, peer.busy_percent)
        axes.plot(*place, "*", color="black", markersize=6)
        axes.annotate(peer.name.partition(" ")[0], place, (5, 0), textcoords="offset points",
                      va="center", fontsize="small")  # fmt: skip
    axes.set_xscale("log")
    axes.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])  # leave space for the labels
    axes.set_ylim(0, 140)
    axes.set_xlabel("Report rate (million/s)")
    axes.set_ylabel("CPU utilization (%)")
    plots.legend(axes, 2)


def caption(options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    peers = "; ".join(f"{p.name}: {p.reports_per_s / 1e6:g} million/s at {p.busy_percent:g} %"
                      for p in PEERS)  # fmt: skip
    return (
        f"INT collector on one core, {plots.runs(1, options.time)}, {options.seconds:g} s each. "
        f"(a) CPU utilization by report rate, for {HOPS} hops, {FLOWS:,} flows and different "
        "numbers of reports per datagram; hollow: datagrams were lost, or a backlog grew. Stars: "
        f"published results, for other machines and other work: {peers}. (b) CPU time per report "
        f"by number of flows, {AT_ONCE} reports per datagram; (c) by hops, {FIT} per datagram."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
