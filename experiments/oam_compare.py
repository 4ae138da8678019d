"""Probes, INT, IOAM and alternate marking: which incidents in a network does each method find?

Several flows cross a leaf-spine fabric; ECMP spreads them over two spines. Four kinds of incidents
concern only the flows of one spine: a link loses packets, a burst fills a queue, a link becomes
slow, and a leaf sends the flows over the other spine. Each method watches the same traffic and
incidents: probes (ping, and STAMP with one session or eight), INT-MD, INT-MX, INT-XD, IOAM (trace
and direct export), and alternate marking (AM-PM). With one bit, AM-PM measures loss and mean delay
per block and flow. With two bits, it measures loss, and the delay of one packet per block and flow.
Multipoint AM-PM measures loss, mean delay and sampled packets of all flows together, per cluster of
links. IOAM needs IPv6. The IOAM switch has no ECMP, so each flow has its own destination address
and route. A method detects an incident if it notices lost packets, late packets or a new path at
that time. It locates the incident if it also names the right link or switch. Captures are ground
truth: they show the loss of each packet, and each late packet or block must have the times of a
captured packet or block. They also give the bytes on all links between switches. On bmv2, the burst
fills a queue in bmv2, rates are lower, and durations are longer.

Claim: Probes do not share the fate of the data: one session misses all incidents on the spine that
it does not cross. INT-XD, IOAM with direct export, and alternate marking per flow count and locate
each lost packet. Multipoint marking counts each lost packet, and locates it in a cluster.

Published: the AM-PM talk and RFC 7799: active methods measure their own packets, passive and hybrid
methods measure the data.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from experiments.shared.int.marking import reject_rare
from experiments.shared.oam.incidents import (
    LASTS_S,
    PACES,
    RATE_BPS,
    SPINES,
    Incident,
    Kind,
    Pace,
    plan,
)
from experiments.shared.oam.ioam import IOAM_OPTIONS, measure_ioam
from experiments.shared.oam.observations import DELAY, LATE_NS, LOSS, observe
from experiments.shared.oam.run import (
    IN_PACKETS,
    MARKINGS,
    METHODS,
    MULTIPOINT,
    PING,
    POSTCARDS,
    QUICK_METHODS,
    STAMP_1,
    Setting,
    measure,
)
from experiments.shared.oam.scores import (
    Score,
    count_located_losses,
    count_missed_delays,
    count_wrong_delays,
    find_unexplained,
    score,
)
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.errors import TestbedError
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep

# During a reroute, the reports of a spine and of the sink leaf about each packet cross one link. A
# report has at most 200 bytes.
MAX_REPORTS_BYTES = 2 * 200


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rounds", type=cli.positive_int, metavar="N",
        help="number of incidents of each kind at each spine (default: 2)",
    )  # fmt: skip
    parser.add_argument(
        "--flows", type=cli.positive_int, default=8, metavar="N",
        help="number of data flows (default: %(default)s)",
    )  # fmt: skip
    cli.add_rate_option(parser, 2000, "all data flows together")
    parser.add_argument(
        "--probes", type=cli.positive_float, default=20, metavar="PPS",
        help="rate of the probes of all sessions together, in packets/s (default: %(default)s)",
    )  # fmt: skip
    cli.add_metrics_option(parser)


@dataclass(frozen=True)
class Found:
    """Results of one method."""

    method: str
    scores: list[Score]
    spines: set[str]  # spines that the data flows use
    packets: int  # of the data flows
    lost: int
    lost_measured: int
    lost_located: int  # measured lost packets at the link and the time of an incident
    reports: int
    added_bytes: int
    false_alarms: int  # lost packets and paths without an incident, in virtual time also delays
    # In real time, the machine delays packets, and methods observe this correctly.
    delayed: int  # delays without an incident
    wrong_delays: int  # late packets and blocks whose times differ from ground truth
    missed_delays: int  # late packets without a reported delay, if each packet is reported
    accounting: PacketAccounting

    @property
    def bytes_per_packet(self) -> float:
        """Bytes that telemetry adds on all links between switches, per data packet."""
        return self.added_bytes / self.packets

    def fraction(self, name: str, kind: Kind | None = None) -> float:
        """Return the fraction of the incidents (of a kind) that are `detected` or `located`."""
        return float(np.mean([
            getattr(each, name) for each in self.scores if kind in (None, each.incident.kind)
        ]))  # fmt: skip

    def detection_s(self) -> list[float]:
        """Return the time to detection of each detected incident."""
        return [each.detection_s for each in self.scores if each.detected]

    def loss_error(self) -> float:
        """Return the mean error of the loss ratio, over the incidents with loss."""
        errors = [abs(each.loss - each.true_loss) for each in self.scores
                  if each.incident.kind is Kind.LOSS]  # fmt: skip
        return float(np.mean(errors))

    def delay_error_ms(self) -> float:
        """Return the mean error of the maximum delay, over the incidents with delay."""
        errors = [abs(each.added_delay_ms - each.true_added_delay_ms) for each in self.scores
                  if each.incident.kind in (Kind.QUEUE, Kind.SLOW)]  # fmt: skip
        return float(np.mean(errors))


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    pace = PACES[run.target]
    _reject(options, pace)
    rounds = options.rounds or (1 if options.quick else 2)
    incidents = plan(rounds, run.seed, pace)
    methods = QUICK_METHODS if options.quick else METHODS
    found = await sweep(measured, [(method, incidents, options) for method in methods], run)
    return Report(
        samples=[make_row(each) for one in found for each in one.scores],
        checks=[check for each in found for check in make_checks(each)],
        metrics={
            f"{each.method}: {name}": value for each in found
            for name, value in {**summary(each), "delays without incident": each.delayed}.items()
        },
        figure=draw(found),
        caption=caption(options, pace, len(incidents)),
        tables=[summary_table(found), kind_table(found)],
    )  # fmt: skip


def _reject(options: argparse.Namespace, pace: Pace) -> None:
    """Raise TestbedError for options with which the methods could not find the incidents."""
    if options.flows < len(SPINES):
        raise TestbedError(
            f"--flows {options.flows}: each spine needs a flow; use at least {len(SPINES)}"
        )
    reject_rare(options.rate / options.flows / pace.slower)
    max_pps = RATE_BPS // (8 * MAX_REPORTS_BYTES)
    if options.rate > max_pps:
        raise TestbedError(
            f"--rate {options.rate}: during a reroute, one link carries the reports of two "
            f"switches about all packets; use at most {max_pps}"
        )
    lasts_s = pace.stretch * LASTS_S
    if options.probes * lasts_s < 1:
        raise TestbedError(
            f"--probes {options.probes:g}: each incident of {lasts_s:g} s needs a probe; "
            f"use at least {1 / lasts_s:g}"
        )


async def measured(
    method: str, incidents: Sequence[Incident], options: argparse.Namespace, run: Run
) -> Found:
    """Run one method in its own folder. All methods have equal seeds."""
    folder = run.folder / method.replace(" ", "-").replace(",", "")
    folder.mkdir()
    setting = Setting.make(method, incidents, options, replace(run, folder=folder))
    outcome = await (measure_ioam if method in IOAM_OPTIONS else measure)(setting)
    observed = observe(outcome, LATE_NS[options.time])
    unexplained = find_unexplained(outcome, observed)
    delayed = sum(event.kind == DELAY for event in unexplained)
    return Found(
        method=method,
        scores=score(outcome, observed, incidents),
        spines=set(outcome.spines.values()),
        packets=len(outcome.truth.lost),
        lost=int(np.count_nonzero(outcome.truth.lost)),
        lost_measured=sum(event.packets for event in observed.events if event.kind == LOSS),
        lost_located=count_located_losses(outcome, observed, incidents),
        reports=observed.reports,
        added_bytes=outcome.added_bytes,
        false_alarms=len(unexplained) - (delayed if options.time == "real" else 0),
        delayed=delayed,
        wrong_delays=count_wrong_delays(outcome, observed),
        missed_delays=count_missed_delays(outcome, observed, LATE_NS[options.time]),
        accounting=outcome.accounting,
    )


def make_checks(found: Found) -> list[Check]:
    """Check what each method must know, and what it cannot know."""
    name, method = f"{found.method}: ", found.method
    checks = [
        Check(name + "spines that data flows use", len(found.spines), len(SPINES)),
        Check(name + "false alarms", found.false_alarms, 0),
        Check(name + "delays that differ from ground truth", found.wrong_delays, 0),
        *found.accounting.checks(method),
    ]
    if method in (PING, STAMP_1):
        seen = {each.incident.spine for each in found.scores if each.detected}
        checks.append(Check(name + "spines with detected incidents", len(seen), 1))
    if method in (*POSTCARDS, *MARKINGS):
        checks += [
            Check(name + "lost packets detected", found.lost_measured, found.lost),
            Check(name + "lost packets located", found.lost_located, found.lost),
            # a cluster of multipoint marking has the links to both spines
            Check(name + "incidents with loss located (fraction)",
                  found.fraction("located", Kind.LOSS), 0 if method == MULTIPOINT else 1),
        ]  # fmt: skip
    if method in (*IN_PACKETS, *POSTCARDS):
        checks += [
            Check(name + "late packets missed", found.missed_delays, 0),
            *(
                Check(name + f"incidents located: {kind.value} (fraction)",
                      found.fraction("located", kind), 1)
                for kind in (Kind.QUEUE, Kind.SLOW, Kind.REROUTE)
            ),
        ]  # fmt: skip
    return checks


def make_row(each: Score) -> dict[str, object]:
    """Return a row of samples.csv."""
    return {
        "method": each.method,
        "incident": each.incident.kind.value,
        "spine": each.incident.spine,
        "start_s": each.incident.start_s,
        "end_s": each.incident.end_s,
        "detected": each.detected,
        "located": each.located,
        "detection_s": each.detection_s,
        "loss": each.loss,
        "true_loss": each.true_loss,
        "added_delay_ms": each.added_delay_ms,
        "true_added_delay_ms": each.true_added_delay_ms,
    }


def summary(found: Found) -> dict[str, float]:
    """Return the values of a method, by column of the summary table."""
    times_s = found.detection_s()
    return {
        "bytes per packet": found.bytes_per_packet,
        "reports": found.reports,
        "detected (%)": 100 * found.fraction("detected"),
        "located (%)": 100 * found.fraction("located"),
        "median time to detection (ms)": 1000 * float(np.median(times_s)) if times_s else np.nan,
        "loss error (percentage points)": 100 * found.loss_error(),
        "error of max delay (ms)": found.delay_error_ms(),
    }


def summary_table(found: Sequence[Found]) -> Table:
    """Return a table with a row per method."""
    rows = [(each.method, *summary(each).values()) for each in found]
    return table("Cost and accuracy of each method", ("method", *summary(found[0])), rows)


def kind_table(found: Sequence[Found]) -> Table:
    """Return a table with the fractions of detected and located incidents by kind."""
    rows = [
        (each.method, *(
            f"{100 * each.fraction('detected', kind):.0f} / "
            f"{100 * each.fraction('located', kind):.0f}" for kind in Kind
        ))
        for each in found
    ]  # fmt: skip
    columns = ("method", *(kind.value for kind in Kind))
    return table("Incidents detected / located (%)", columns, rows)


def draw(found: Sequence[Found]) -> Figure:
    """Draw the overhead, the fraction of detected and located incidents, and the time to detect."""
    figure, (cost, kinds, times) = plots.figure(3)
    places = np.arange(len(found))
    cost.barh(places, [each.bytes_per_packet for each in found], 0.6, color=plots.COLOURS[0])
    cost.set_xscale("symlog", linthresh=1)
    cost.set_xlabel("Overhead per packet (bytes)")
    for place, each in zip(places, found, strict=True):
        cost.annotate(f"{each.bytes_per_packet:.3g}", (each.bytes_per_packet, place), (2, 0),
                      textcoords="offset points", va="center", fontsize="x-small")  # fmt: skip
    cost.set_xlim(0, 5000)
    draw_kinds(kinds, found)
    for place, each in zip(places, found, strict=True):
        times_s = each.detection_s()
        times.plot(times_s, np.full(len(times_s), place), linestyle="", marker="|",
                   color=plots.COLOURS[2])  # fmt: skip
    times.set_xscale("log")
    times.set_xlabel("Time to detection (s)")
    for axes in (cost, kinds, times):
        axes.set_yticks(places, [each.method for each in found] if axes is cost else [])
        axes.set_ylim(len(found) - 0.5, -0.5)
    return figure


def draw_kinds(axes: Axes, found: Sequence[Found]) -> None:
    """Draw the fraction of detected (light) and of located (dark) incidents, by kind."""
    width, gap = 0.75, 0.25
    ticks: dict[float, str] = {}
    for column, kind in enumerate(Kind):
        for row, each in enumerate(found):
            for name, alpha in (("detected", 0.35), ("located", 1.0)):
                axes.barh(row, width * each.fraction(name, kind), 0.7, left=column,
                          color=plots.COLOURS[1], alpha=alpha, lw=0,
                          label=name if row == column == 0 else None)  # fmt: skip
        name = kind.value.replace(" ", "\n")
        ticks |= {column: "0", column + width / 2: f"\n{name}", column + width: "1"}
    axes.set_xticks([*ticks], [*ticks.values()])
    axes.set_xlim(-gap / 2, len(Kind) - gap / 2)
    axes.grid(visible=False)
    axes.set_xlabel("Fraction of incidents")
    for boundary in range(1, len(Kind)):
        axes.axvline(boundary - gap / 2, color="0.8", lw=0.5)
    plots.legend(axes, 2)


def caption(options: argparse.Namespace, pace: Pace, incidents: int) -> str:
    """Return the caption of the figure."""
    return (
        f"Probes, INT, IOAM and alternate marking during {incidents} incidents of "
        f"{pace.stretch * LASTS_S:g} s (queue: one burst), each at one of two spines, for "
        f"{options.flows} flows with {options.rate / pace.slower:,.0f} packets/s in total, "
        f"{plots.runs(1, options.time)}. Probes: "
        f"{options.probes:g} packets/s. "
        "(a) Bytes on all links between switches. AM-PM readouts use the control plane, and are "
        "not included. (b) Fraction of the incidents of each kind that a method detects, and "
        "locates. (c) Time until each detected incident is known."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
