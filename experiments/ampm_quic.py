"""Explicit flow measurements: where do the QUIC bits of RFC 9506 agree with ground truth?

Hosts set measurement bits in the first byte of QUIC-like short headers. The spin bit and the delay
bit measure the RTT. The bits square (Q), reflection square (R), loss event (L) and round-trip loss
(T) measure loss. A switch in the middle of the path measures RTT and loss of three connections from
these bits, one connection per scheme. Both hosts send at a constant rate. The links of the path
have no loss, or lose packets in one place or in all places. In further runs, a link holds back some
packets, so that later packets overtake them. In others, the applications of the hosts pause. A
capture at the switch and the records of the hosts are ground truth: they show which packets passed.
Without reordering, Q, R and L must count each packet. With loss, all loss ratios must have the
distribution that theory predicts. With reordering, Q cuts a block in three if a packet is later
than the marking block threshold X. In virtual time, the number of cut blocks must also have the
distribution that theory predicts. Each host may delay a sample of the delay bit by 1 ms, so each
RTT must exceed the delay of the path by at most 2 ms. If packets arrive in order, each RTT of the
spin bit must be the delay of the path plus the idle time of both hosts: the time from the arrival
that changes the spin bit until the next packet that the host sends. On bmv2, a capacity probe
determines the rate.

Claim: Without reordering, Q, R and L count each packet, so they distinguish loss before the switch
from loss behind it. The delay bit shows the RTT of its own packets plus at most 2 ms, but pauses
leave few samples. The spin bit shows the RTT plus the idle time of both hosts, so with pauses its
RTTs are too long. With reordering, the spin bit, T and L are wrong. Q and R are wrong if packets
are more than X packets late.

Published: RFC 9506: the spin bit measures application delays and is sensitive to reordering
(section 3.2), the delay bit errs by at most 2 ms (3.2.2), Q and L give the loss before and behind
an observer (4.3.2), T samples about a third of the packets (4.1).
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator
from rich.table import Table

from controllers.explicit import DelaySamples, Direction, SquareCounts, StreamReport
from experiments.shared.ampm.measurement import worst
from experiments.shared.explicit.path import (
    BURST,
    LINK_DELAY_US,
    PROGRAM,
    RTT_US,
    Setting,
    StreamResult,
    find_capacity,
    measure,
)
from experiments.shared.explicit.truth import Square, StreamTruth
from telemark.apps.explicit_bits import BLOCK, MAX_REFLECTION_NS, THRESHOLD, Scheme
from telemark.apps.quic import PACKET_THRESHOLD
from telemark.errors import TestbedError
from telemark.results import plots
from telemark.results.goodness_of_fit import LEVEL, agreement_check, binomial_p_value
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep_seeds

LOSS = 0.02  # loss ratio of each link with loss
PLACES = {  # links with loss, in the order of SEGMENTS
    "none": (0, 0, 0, 0),
    "upstream": (LOSS, 0, 0, 0),
    "downstream": (0, LOSS, 0, 0),
    "opposite": (0, 0, LOSS, LOSS),
    "all": (LOSS, LOSS, LOSS, LOSS),
}
HELD = 0.01  # fraction of packets that others overtake
OVERTAKING = "Packets that overtake\neach late packet"  # axis label
# Numbers m of packets that overtake each late packet. If m is at most 3 X, a block cuts the next
# one only once.
SWEPT_PACKETS = (2, 4, THRESHOLD, 10, 12, 16, 3 * THRESHOLD)
SWEPT_PAUSES_MS = (3.0, 10.0, 30.0, 100.0, 300.0)
SHORT_PACKETS, SHORT_PAUSES_MS = (3 * THRESHOLD,), (100.0,)  # in real time, and with --quick
PAUSED_FACTOR = 3  # runs with pauses last longer than the others by this factor
RESOLUTION_US = 1
# In real time, another run with the same seed loses other packets. So the checks may fail by chance
# only rarely.
REAL_LEVEL = 1e-6
MISS = 1e-4  # maximum probability that no late packet of a stream causes a wrong spin edge
MAX_WAIT_US = 2 * MAX_REFLECTION_NS / 1000  # both hosts may hold a delay sample
MIN_RATE_PPS = 10**9 // MAX_REFLECTION_NS  # at this rate, hosts reflect each delay sample
# Packets per endpoint. The first block of Q and R is incomplete, and R begins a block later.
MIN_PACKETS = 4 * BLOCK


def add_options(parser: argparse.ArgumentParser) -> None:
    cli.add_rate_option(parser, 1000, "each endpoint")
    parser.add_argument(
        "--duration", type=cli.seconds, metavar="S",
        help="duration of the traffic in each run (default: 4; with --quick: 3; minimum: "
        f"{min_duration_s(SWEPT_PACKETS):g}, in real time and with --quick "
        f"{min_duration_s(SHORT_PACKETS):g})",
    )  # fmt: skip
    parser.add_argument(
        "--seeds", type=cli.positive_int, metavar="N",
        help="runs per case (default: 5 in virtual time, 1 in real time and with --quick)",
    )  # fmt: skip
    cli.add_program_option(parser, PROGRAM)
    cli.add_metrics_option(parser)


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    is_virtual = options.time == "virtual"
    options.duration = options.duration or (3.0 if options.quick else 4.0)
    reject_short(options)
    options.seeds = options.seeds or (5 if is_virtual and not options.quick else 1)
    if options.target == "bmv2":
        options.rate = (await find_capacity(options.rate, options.program, run)).rate(options.rate)
    reject_slow(options)
    settings = make_settings(options)
    seeds = range(options.seed, options.seed + options.seeds)
    found = await sweep_seeds(measure, [(s, options.program) for s in settings], seeds, run)
    results = [result for runs in found for streams, _ in runs for result in streams]
    accounting = [check for runs in found for _, checks in runs for check in checks]
    return Report(
        samples=[row(result) for result in results],
        checks=[
            *exact_checks(results), loss_check(results, LEVEL if is_virtual else REAL_LEVEL),
            *([reordering_check(results), *delay_checks(results)] if is_virtual else []),
            *worst(accounting),
        ],
        figure=draw(results),
        caption=caption(options),
        tables=[loss_table(results), delay_table(results)],
    )  # fmt: skip


def min_duration_s(swept_packets: Sequence[int]) -> float:
    """Return the least duration for which the checks of the spin bit hold, rounded up to 0.1 s.

    A late packet causes a wrong edge if it is one of the last m packets before an edge. There is an
    edge per round trip.
    """
    packets = min(m for m in swept_packets if m > THRESHOLD)
    round_trips = math.log(MISS) / (packets * math.log(1 - HELD))
    return math.ceil(round_trips * RTT_US / 1e5) / 10


def reject_short(options: argparse.Namespace) -> None:
    """Raise TestbedError if the runs are too short for the checks of the spin bit."""
    min_s = min_duration_s(SHORT_PACKETS if is_short(options) else SWEPT_PACKETS)
    if options.duration < min_s:
        raise TestbedError(
            f"--duration {options.duration:g}: expected at least {min_s:g} s, "
            f"{min_s * 1e6 / RTT_US:.0f} round trips of {RTT_US / 1000:g} ms; "
            "the checks of the spin bit need an edge that a late packet causes"
        )


def reject_slow(options: argparse.Namespace) -> None:
    """Raise TestbedError if the checks of the delay bit, Q or R would have nothing to test."""
    if options.time == "virtual" and options.rate < MIN_RATE_PPS:
        raise TestbedError(
            f"--rate {options.rate}: expected at least {MIN_RATE_PPS} packets/s in virtual time; "
            f"hosts reflect a delay sample within {MAX_REFLECTION_NS / 1e6:g} ms or not at all"
        )
    packets = round(options.rate * options.duration)
    if packets < MIN_PACKETS:
        raise TestbedError(
            f"{options.rate} packets/s for {options.duration:g} s: expected at least {MIN_PACKETS} "
            f"packets per endpoint, got {packets}; use a higher rate or a longer duration"
            + ("; the capacity probe of bmv2 lowered the rate" if options.target == "bmv2" else "")
        )


def is_short(options: argparse.Namespace) -> bool:
    """Return whether only few cases run."""
    return bool(options.quick) or options.time == "real"


def make_settings(options: argparse.Namespace) -> list[Setting]:
    """Return the cases: places of loss, reordering, and pauses."""
    few = is_short(options)
    rate, count = options.rate, round(options.rate * options.duration)
    places = ("none", "all") if few else tuple(PLACES)
    settings = [Setting(place, rate, count, PLACES[place]) for place in places]
    for packets in SHORT_PACKETS if few else SWEPT_PACKETS:
        settings.append(
            Setting(f"overtaken-by-{packets}", rate, count, held=HELD, held_packets=packets)
        )
    longer = 1 if options.time == "real" else PAUSED_FACTOR
    for pause_ms in SHORT_PAUSES_MS if few else SWEPT_PAUSES_MS:
        cycle_s = BURST / rate + pause_ms / 1000
        bursts = round(longer * options.duration / cycle_s)
        name = f"pauses-of-{pause_ms:g}-ms"
        settings.append(Setting(name, rate, max(BURST * bursts, BURST), pause_ms=pause_ms))
    return settings


def exact_checks(results: Sequence[StreamResult]) -> list[Check]:
    """Check the counts of each stream that theory determines.

    In a stream whose packets arrive in order, all counts are determined.
    """
    in_time = [r for r in results if is_in_time(r.setting)]
    square = [r for r in results if is_determined(r, r.truth.square)]
    reflection = [r for r in results if is_determined(r, r.truth.reflection)]
    loss = [r for r in results if r.scheme == Scheme.SQL]
    trip = [
        r
        for r in results
        if r.scheme == Scheme.SDT and not r.setting.held and not any(r.setting.losses)
    ]
    return [
        Check("Q, in order: streams with wrong counts", counted(
            sum(not agrees(r.report.square, r.truth.square) for r in square),
            sum(r.truth.square.blocks for r in square)), 0),
        Check("R, in order: streams with wrong counts", counted(
            sum(not agrees(r.report.reflection, r.truth.reflection) for r in reflection),
            sum(r.truth.reflection.blocks for r in reflection)), 0),
        Check("L: streams whose marks differ from reported losses", counted(
            sum(not marks_agree(r.report, r.truth) for r in loss),
            sum(r.truth.marked_arrived for r in loss)), 0),
        Check("L, in order: wrongly detected or undetected losses (packets)", counted(
            sum(r.truth.spurious + r.truth.undetected for r in in_time),
            sum(r.truth.detected for r in in_time)), 0),
        Check("T, without loss: packets missing in second trains", counted(
            sum(abs(r.report.trip.generated - r.report.trip.reflected) for r in trip),
            sum(r.report.trip.generated for r in trip)), 0),
        Check("arrivals that the sender did not send (packets)",
              sum(r.truth.foreign for r in results), 0),
    ]  # fmt: skip


def counted(wrong: int, tested: int) -> float:
    """Return the measured value of a check: `wrong`, or NaN if nothing was tested."""
    return wrong if tested else math.nan


def is_determined(r: StreamResult, truth: Square) -> bool:
    """Return whether the observer must count the blocks and packets of ground truth."""
    return truth.is_exact or not r.setting.held


def is_in_time(setting: Setting) -> bool:
    """Return whether no packet is so late that its sender detects it as lost (RFC 9002, 6.1).

    A receiver delays an acknowledgement by at most two packet intervals. A sender tolerates a delay
    of 1/8 RTT.
    """
    late_us = setting.held_us + 2e6 / setting.rate_pps
    is_soon = not setting.held_packets or late_us <= RTT_US / 8
    return setting.held_packets < PACKET_THRESHOLD and is_soon


def agrees(counts: SquareCounts, truth: Square) -> bool:
    """Return whether an observer counted the blocks and packets of ground truth."""
    return (counts.blocks, counts.packets) == (truth.blocks, truth.packets)


def marks_agree(report: StreamReport, truth: StreamTruth) -> bool:
    """Return whether each detected loss was marked once, and each mark that arrived counted."""
    return (
        report.loss.marked == truth.marked_arrived
        and report.loss.packets == truth.arrived
        and truth.marked + truth.unreported == truth.detected
    )


def loss_check(results: Sequence[StreamResult], level: float) -> Check:
    """Check that the counts of all streams with loss have the distributions of theory."""
    lossy = [r for r in results if any(r.setting.losses)]
    return agreement_check("loss ratios", [p for r in lossy for p in loss_p_values(r)], level)


def loss_p_values(r: StreamResult) -> list[float]:
    """Return the p-values of all counts of a stream with loss, except those of no packets."""
    report = r.report
    upstream, three_quarters, round_trip = (
        1 - r.setting.loss(r.direction, part)
        for part in ("upstream", "three-quarters", "round-trip")
    )
    square = (report.square.packets, BLOCK * report.square.blocks, upstream)
    reflection = (
        report.reflection.packets, BLOCK * report.reflection.blocks, three_quarters,
    )  # fmt: skip
    counts = {
        Scheme.SDT: [(report.trip.reflected, report.trip.generated, round_trip)],
        Scheme.SQL: [square, (report.loss.marked, r.truth.marked, upstream)],
        Scheme.SQR: [square, reflection],
    }[r.scheme]
    return [binomial_p_value(count, trials, p) for count, trials, p in counts if trials]


def reordering_check(results: Sequence[StreamResult]) -> Check:
    """Check that late packets cut as many blocks, and are marked as lost as often, as by theory.

    In real time, senders are not precise enough: the number of overtaking packets varies.
    """
    late = [
        r
        for r in results
        if r.setting.held_packets > PACKET_THRESHOLD and r.direction == Direction.TO_SERVER
    ]
    values = []
    for r in late:
        if r.scheme == Scheme.SQL:
            values.append(binomial_p_value(r.truth.marked, r.truth.sent, r.setting.held))
        blocks = r.truth.square.blocks
        if blocks and r.setting.held_packets > THRESHOLD:
            cut = (r.report.square.blocks - blocks) // 2
            values.append(binomial_p_value(cut, blocks, cut_probability(r.setting)))
    return agreement_check("reordering errors of Q and L", values)


def cut_probability(setting: Setting) -> float:
    """Return the probability that late packets cut the block after theirs.

    Of the packets that m others overtake, the last m - X of a block arrive too late.
    """
    return 1 - (1 - setting.held) ** max(setting.held_packets - THRESHOLD, 0)


def square_error(setting: Setting) -> float:
    """Return the loss ratio that Q measures on average without loss, by theory.

    A cut block counts as three blocks.
    """
    return 1 - 1 / (1 + 2 * cut_probability(setting))


def delay_checks(results: Sequence[StreamResult]) -> list[Check]:
    """Check RTTs. Theory has no queues and no processing time, as in virtual time."""
    delays = [r for r in results if r.report.delay.count]
    halves = [r for r in results if r.report.half.count]
    constant = [r for r in results if r.setting.name == "none"]
    in_order = [r for r in results if not r.setting.held and not any(r.setting.losses)]
    late = [
        r
        for r in results
        if r.setting.held_packets > THRESHOLD and r.direction == Direction.TO_SERVER
    ]
    interval_us = 1e6 / results[0].setting.rate_pps
    return [
        Check("delay bit: streams with an RTT out of bounds", counted(
            sum(not within(r.report.delay, RTT_US, MAX_WAIT_US + r.setting.held_us)
                for r in delays), len(delays)), 0),
        Check("delay bit: streams with a half RTT out of bounds", counted(
            sum(not within(r.report.half, RTT_US / 2, MAX_WAIT_US / 2 + r.setting.held_us)
                for r in halves), len(halves)), 0),
        Check("spin bit, constant rate: streams with a wrong mean RTT", counted(
            sum(not RTT_US <= r.report.spin.mean_us <= RTT_US + 2 * interval_us
                for r in constant), len(constant)), 0),
        Check("spin bit, in order: streams whose RTTs are not path RTT + idle time", counted(
            sum(not is_spin_law(r) for r in in_order),
            sum(r.report.spin.count for r in in_order)), 0),
        Check("spin bit, late packets: streams without a wrong edge", counted(
            sum(not r.report.spin.count or r.report.spin.min_us >= RTT_US for r in late),
            len(late)), 0),
    ]  # fmt: skip


def is_spin_law(r: StreamResult) -> bool:
    """Return whether the spin bit shows the RTT of the path plus the idle time of both hosts."""
    spin, expected_us = r.report.spin, RTT_US + r.truth.idle_ns / 1000
    if not spin.count or spin.count != len(expected_us):
        return spin.count == len(expected_us)
    errors_us = (
        spin.sum_us - expected_us.sum(),  # the errors of single samples cancel each other out
        spin.min_us - expected_us.min(),
        spin.max_us - expected_us.max(),
    )
    return all(abs(error_us) <= RESOLUTION_US for error_us in errors_us)


def within(samples: DelaySamples, min_us: float, spread_us: float) -> bool:
    """Return whether all samples lie between `min_us` and `min_us` + `spread_us`."""
    return (
        samples.min_us >= min_us - RESOLUTION_US
        and samples.max_us <= min_us + spread_us + RESOLUTION_US
    )


def row(r: StreamResult) -> dict[str, object]:
    """Return a row of samples.csv."""
    report, truth = r.report, r.truth
    return {
        "case": r.setting.name,
        "seed": r.seed,
        "scheme": r.scheme.name,
        "direction": r.direction.name.lower(),
        "sent": truth.sent,
        "true_upstream_loss": truth.upstream_loss,
        "true_end_to_end_loss": truth.end_to_end_loss,
        "square_blocks": report.square.blocks,
        "square_lost": report.square.lost,
        "true_square_lost": BLOCK * truth.square.blocks - truth.square.packets,
        "reflection_blocks": report.reflection.blocks,
        "reflection_packets": report.reflection.packets,
        "true_reflection_packets": truth.reflection.packets,
        "loss_marked": report.loss.marked,
        "true_detected": truth.detected,
        "true_spurious": truth.spurious,
        "trip_pairs": report.trip.pairs,
        "trip_generated": report.trip.generated,
        "trip_reflected": report.trip.reflected,
        **delay_columns("spin", report.spin),
        **delay_columns("delay", report.delay),
        **delay_columns("half", report.half),
    }


def delay_columns(name: str, samples: DelaySamples) -> dict[str, object]:
    """Return the columns of samples.csv for one kind of delay samples."""
    return {
        f"{name}_samples": samples.count,
        f"{name}_mean_us": samples.mean_us if samples.count else "",
        f"{name}_min_us": samples.min_us if samples.count else "",
        f"{name}_max_us": samples.max_us if samples.count else "",
    }


# --- figure and tables ---------------------------------------------------------------------------

# Loss ratios that the observer computes: name, scheme, measured value, part of the path.
Measured = tuple[str, Scheme, Callable[[StreamReport], float], str]
LOSSES: tuple[Measured, ...] = (
    ("Q", Scheme.SQL, lambda report: report.square.loss, "upstream"),
    ("L", Scheme.SQL, lambda report: report.loss.loss, "end-to-end"),
    ("R", Scheme.SQR, lambda report: report.reflection.loss, "three-quarters"),
    ("T", Scheme.SDT, lambda report: report.trip.loss, "round-trip"),
)
BEHIND: Measured = ("Q and L", Scheme.SQL, lambda report: report.downstream_loss, "downstream")
RTTS: tuple[tuple[str, Callable[[StreamReport], DelaySamples]], ...] = (
    ("spin", lambda report: report.spin),
    ("delay", lambda report: report.delay),
)


def group_reports(
    results: Sequence[StreamResult], scheme: Scheme
) -> dict[Setting, list[StreamReport]]:
    """Return the reports of the streams to the server, for each case."""
    found: dict[Setting, list[StreamReport]] = {}
    for r in results:
        if r.scheme == scheme and r.direction == Direction.TO_SERVER:
            found.setdefault(r.setting, []).append(r.report)
    return found


def choose(
    results: Sequence[StreamResult], scheme: Scheme, chosen: Callable[[Setting], bool]
) -> dict[Setting, list[StreamReport]]:
    """Return the reports of the streams to the server, for each of the chosen cases."""
    grouped = group_reports(results, scheme)
    return {setting: reports for setting, reports in grouped.items() if chosen(setting)}


def is_place(setting: Setting) -> bool:
    """Return whether the case shows the place of losses."""
    return setting.name in PLACES


def draw(results: Sequence[StreamResult]) -> Figure:
    """Draw loss by place, loss and RTT under reordering, and RTT with pauses."""
    figure, (places, reordered, late, paused) = plots.figure(4, height_in=2.8)
    draw_places(places, results)
    draw_reordering(reordered, results)
    draw_rtts(late, results, lambda s: bool(s.held_packets) or s.name == "none",
              lambda s: s.held_packets)  # fmt: skip
    late.set_xlabel(OVERTAKING)
    draw_idle_times(paused, results)
    draw_rtts(paused, results, lambda s: bool(s.pause_ms) or s.name == "none",
              lambda s: s.pause_ms)  # fmt: skip
    paused.set_xlabel("Mean pause (ms)")
    paused.set_xscale("symlog", linthresh=3, linscale=0.4)
    pauses_ms = sorted({r.setting.pause_ms for r in results})
    paused.set_xticks(pauses_ms, [f"{each:g}" for each in pauses_ms])
    paused.xaxis.set_minor_locator(NullLocator())
    paused.set_xlim(-0.5, 2 * pauses_ms[-1])
    return figure


def draw_places(axes: Axes, results: Sequence[StreamResult]) -> None:
    """Draw the loss ratios of all methods by the place of the losses."""
    names: list[str] = []
    for number, (name, scheme, value, part) in enumerate(LOSSES):
        found = choose(results, scheme, is_place)
        names = [setting.name for setting in found]
        at = np.arange(len(found)) + 0.18 * (number - 1.5)
        percent = [[100 * value(report) for report in reports] for reports in found.values()]
        axes.errorbar(
            at, [np.mean(each) for each in percent], [np.std(each) for each in percent],
            linestyle="", marker=plots.MARKERS[number], color=plots.COLOURS[number], label=name,
        )  # fmt: skip
        theory = [100 * setting.loss(Direction.TO_SERVER, part) for setting in found]
        plots.ring(axes, at, theory, "theory" if not number else "")
    axes.set_xticks(range(len(names)), names, rotation=35, ha="right")
    axes.set(xlabel="Links with loss", ylabel="Loss ratio (%)")
    plots.legend(axes, 2)


def draw_reordering(axes: Axes, results: Sequence[StreamResult]) -> None:
    """Draw the loss ratios of all methods under reordering, on a path without loss."""
    for number, (name, scheme, value, _) in enumerate(LOSSES):
        found = choose(results, scheme, lambda s: bool(s.held_packets) or s.name == "none")
        percent = [[100 * value(report) for report in reports] for reports in found.values()]
        axes.errorbar(
            [s.held_packets for s in found], [np.mean(each) for each in percent],
            [np.std(each) for each in percent], linestyle="", color=plots.COLOURS[number],
            marker=plots.MARKERS[number], label=name,
        )  # fmt: skip
    longest = max((r.setting for r in results), key=lambda s: s.held_packets)
    packets = range(longest.held_packets + 1)
    theory = [100 * square_error(replace(longest, held_packets=m)) for m in packets]
    axes.plot(packets, theory, color=plots.COLOURS[0], marker="", label="Q, theory")
    axes.axvline(THRESHOLD, color="black", linestyle=":", linewidth=0.8, label="X")
    axes.set_yscale("symlog", linthresh=1)
    axes.set(xlabel=OVERTAKING, ylabel="Loss ratio (%)")
    plots.legend(axes, 2)


def draw_idle_times(axes: Axes, results: Sequence[StreamResult]) -> None:
    """Draw the mean RTT that the spin bit must show with pauses: path RTT plus idle times."""
    idle_ms: dict[float, list[float]] = {}
    for r in results:
        is_shown = r.scheme == Scheme.SDT and r.direction == Direction.TO_SERVER
        if is_shown and (r.setting.pause_ms or r.setting.name == "none"):
            idle_ms.setdefault(r.setting.pause_ms, []).extend(r.truth.idle_ns / 1e6)
    known = {pause_ms: np.mean(each) for pause_ms, each in idle_ms.items() if each}
    plots.ring(axes, [*known], [RTT_US / 1000 + mean for mean in known.values()], "theory")


def draw_rtts(
    axes: Axes, results: Sequence[StreamResult], chosen: Callable[[Setting], bool],
    x: Callable[[Setting], float],
) -> None:  # fmt: skip
    """Draw mean, minimum and maximum RTT of both bits."""
    found = choose(results, Scheme.SDT, chosen)
    for number, (name, value) in enumerate(RTTS):
        pooled = {setting: pool([value(report) for report in reports])
                  for setting, reports in found.items()}  # fmt: skip
        known = {setting: each for setting, each in pooled.items() if each.count}
        means = np.array([each.mean_us for each in known.values()]) / 1000
        least = np.array([each.min_us for each in known.values()]) / 1000
        most = np.array([each.max_us for each in known.values()]) / 1000
        axes.errorbar(
            [x(setting) for setting in known], means, [means - least, most - means], linestyle="",
            marker=plots.MARKERS[number], color=plots.COLOURS[number], label=name,
        )  # fmt: skip
    axes.axhline(RTT_US / 1000, color="black", linewidth=0.8, label="path")
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel("RTT (ms)")
    plots.legend(axes, 2)


def pool(samples: Sequence[DelaySamples]) -> DelaySamples:
    """Return the statistics of the samples of several runs."""
    some = [each for each in samples if each.count]
    return DelaySamples(
        sum(each.count for each in some), sum(each.sum_us for each in some),
        min((each.min_us for each in some), default=0),
        max((each.max_us for each in some), default=0),
    )  # fmt: skip


def loss_table(results: Sequence[StreamResult]) -> Table:
    """Return the mean loss ratios of the streams to the server, with a row per case."""
    grouped = {scheme: group_reports(results, scheme) for scheme in Scheme}
    rows = []
    for setting in grouped[Scheme.SDT]:
        means = [
            100 * float(np.mean([value(report) for report in grouped[scheme][setting]]))
            for _, scheme, value, _ in (*LOSSES, BEHIND)
        ]
        rows.append((setting.name, *means))
    names = ("case", *(f"{name}: {part}" for name, _, _, part in (*LOSSES, BEHIND)))
    return table("Loss ratio (%) of the stream to the server", names, rows)


def delay_table(results: Sequence[StreamResult]) -> Table:
    """Return the RTTs of the streams to the server, with a row per case."""
    rows = []
    for setting, reports in group_reports(results, Scheme.SDT).items():
        columns: list[Any] = []
        for _, value in RTTS:
            pooled = pool([value(report) for report in reports])
            columns += [pooled.count, pooled.mean_us / 1000, pooled.min_us / 1000,
                        pooled.max_us / 1000]  # fmt: skip
        rows.append((setting.name, *columns))
    names = ("case", "spin: samples", "mean", "min", "max", "delay: samples", "mean", "min", "max")
    return table(f"RTT (ms) of the stream to the server; path: {RTT_US / 1000:g}", names, rows)


def caption(options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    return (
        "Loss and RTT by explicit measurement bits, for the stream to the server, at the switch in "
        f"the middle of a path. A round trip takes four links of {LINK_DELAY_US / 1000:g} ms. "
        f"Both endpoints send {options.rate:,} packets/s for {options.duration:g} s "
        f"({plots.runs(options.seeds, options.time)}, on {options.target}). (a) Links with loss "
        f"lose {100 * LOSS:g} %. Error bars in (a) and (b) are the standard deviation of the runs. "
        "Q shows the loss before the switch, L that of the path, R that of "
        "the opposite direction and before the switch, T that of a round trip. (b) Reordering "
        f"without loss: {100 * HELD:g} % of the packets are late, by the number of packets that "
        f"overtake each of them; X = {THRESHOLD} is the marking block threshold. (c) RTT under "
        "reordering and (d) with pauses of the applications: mean, minimum and maximum. Rings are "
        "the mean of the RTT of the path plus the time in which hosts had nothing to send. Delay "
        "samples that wait for more than 1 ms are not reflected, so long pauses leave few or no "
        "samples."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
