"""INT's modes and alternate marking on the same traffic: what does each cost, and what does it see?

A flow crosses five switches, and the third link loses some of its packets. INT-MD carries what
switches say in the packet, and the last one reports; with INT-MX packets carry what is asked for,
and every switch reports; with INT-XD nothing is in the packet, and every switch reports, by one
report a packet or by several (grouped); alternate marking (AM-PM) takes two bits of the packet, and
a controller reads counters. Bytes are counted in captures, and must be what the specification's
formats make of them. What each sees of loss, delay and queues is held against what links dropped,
and what captures tell. On bmv2 rates are a 32nd, and its own queues have a rate, in packets, so
that they fill: what it tells of latencies and queues may be no more than captures at both of its
sides allow.

Claim: Each mode's packets are as long as the format says, and each sees what it can see of loss,
delay and queues.

Published: INT v2.1 (P4.org, 2020): INT-MD adds 16 bytes and the metadata of each hop, INT-MX 16
bytes whatever the hops, INT-XD none.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from experiments.shared.int.marking import reject_rare
from experiments.shared.int.modes import AMPM, GROUPED, GROUPING, MODES, PATH, Found, measure
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep

HOP_WORDS = 8  # Hop ML of these
INT_BYTES = 16  # shim and INT header
# Of a packet that reports: Ethernet, IPv4, UDP; group header. Of a report: its header, all of
# WANTED but the node id; the packet's IPv4 and UDP headers. And payload of a packet that has no
# identification, without which nobody could tell it from others (docs/int.md).
GROUP_BYTES, REPORT_BYTES = 42 + 8, 12 + 4 * (HOP_WORDS - 1) + 28
PAYLOAD_BYTES = 16


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--loss", type=cli.percentage, default=1, metavar="PERCENT",
        help="loss of the link from s3 to s4 (default: %(default)s)",
    )  # fmt: skip
    cli.add_rate_option(parser, 500, "the flow")
    parser.add_argument(
        "--blocks", type=cli.positive_int, metavar="N",
        help="complete blocks of alternate marking, of 0.26 s (default: 20)",
    )  # fmt: skip
    cli.add_program_option(parser, "p4src/int/int.p4")


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    reject_rare(options.rate)
    options.blocks = options.blocks or (4 if options.quick else 20)
    found = await sweep(measured, [(mode, options) for mode in (*MODES, AMPM)], run)
    return Report(
        samples=[row_of(each) for each in found],
        checks=[check for each in found for check in checks_of(each, options)],
        figure=draw(found),
        caption=caption(options),
        tables=[summary_table(found)],
    )


async def measured(mode: str, options: argparse.Namespace, run: Run) -> Found:
    """Of one name, so that the dice are the same; so each needs a folder of its own."""
    folder = run.folder / mode
    folder.mkdir()
    return await measure(mode, options, replace(run, folder=folder))


def added_by_theory(mode: str, hop: int) -> int:
    """Bytes that a packet has more on the link behind a switch, of that place on the path."""
    if mode not in ("MD", "MX") or hop == len(PATH) - 1:  # the last one takes INT off
        return 0
    return INT_BYTES + (4 * HOP_WORDS * (hop + 1) if mode == "MD" else 0)


def report_bytes_by_theory(found: Found) -> int:
    """Bytes of all reports: the last switch's with the whole stack, or those of all switches. How
    many share a packet depends on when they came, too: it is taken as it was."""
    if found.mode == AMPM:
        return 0
    bytes_of_one = REPORT_BYTES + (INT_BYTES if found.mode in ("MD", "MX") else 0)
    packets, unidentified = found.packets, found.unidentified
    if found.mode == "MD":
        bytes_of_one += 4 * HOP_WORDS * (len(PATH) - 1)
        packets, unidentified = packets[-1:], unidentified[-1:]
    groups = found.report_packets if found.mode == GROUPED else packets.sum()
    of_reports = packets.sum() * bytes_of_one + unidentified.sum() * PAYLOAD_BYTES
    return int(groups * GROUP_BYTES + of_reports)


def checks_of(found: Found, options: argparse.Namespace) -> list[Check]:
    """Costs are what formats make them, and what a mode sees is what was."""
    mode, packets = found.mode, found.packets
    added = [added_by_theory(mode, hop) * int(count) for hop, count in enumerate(packets)]
    checks = [
        Check(f"{mode}: bytes added to packets, on all links", found.added.sum(), sum(added)),
        Check(f"{mode}: bytes of reports", found.report_bytes, report_bytes_by_theory(found)),
        Check(f"{mode}: lost packets that are seen, and where", found.losses_seen,
              0 if mode == "MD" else found.lost),
    ]  # fmt: skip
    if found.findings is not None:
        sources = found.findings.sources
        lacking = int((sources["lost"] + sources["missing"]).sum())
        told = packets[-1] * len(PATH) if mode == "MD" else packets.sum()
        checks += [
            Check(f"{mode}: latencies of a switch", found.delays, told),
            Check(f"{mode}: numbers of reports that did not come", lacking, 0),
            *checks_of_queues(found),
        ]
    else:
        # One a block at each switch, the two half blocks too; a lost pulse has none at two of them.
        told = (options.blocks + 2) * len(PATH) - 2 * found.lost_pulses
        checks.append(Check(f"{mode}: latencies of a switch", found.delays, told))
    return [*checks, *found.accounting.checks(mode)]


def checks_of_queues(found: Found) -> list[Check]:
    """The longest queue, and the mean latency, of switches that told of all that passed."""
    wrong_queues, errors_us = 0, []
    for place, hop in found.told.items():
        truth = found.truth[place]
        passed = truth.passed
        if hop["latency_ns"]["count"] != np.count_nonzero(passed):
            continue  # in INT-MD, of packets that were lost later
        if found.inside is not None:
            inside_us, ahead = found.inside[place]
            wrong_queues += not 0 < hop["occupancy"]["most"] <= ahead.max()
            told_us = int(hop["latency_ns"]["sum"]) // 1000
            errors_us.append(max(told_us - int(inside_us.sum()), 0))
            continue
        least, most = truth.min_queued[passed].max(), truth.max_queued[passed].max()
        wrong_queues += not least <= hop["occupancy"]["most"] <= most
        true_us = (truth.left_ns // 1000 - truth.came_ns // 1000)[passed].sum()
        errors_us.append(abs(int(hop["latency_ns"]["sum"]) // 1000 - int(true_us)))
    name = f"{found.mode}: "
    return [
        Check(name + "switches whose longest queue was another", wrong_queues, 0),
        Check(
            name + "largest error of a switch's sum of latencies, us",
            max(errors_us, default=np.nan),
            0,
        ),
    ]


def row_of(found: Found) -> dict[str, object]:
    """A row of samples.csv."""
    return {
        "mode": found.mode,
        "packets": int(found.packets[0]),
        "added_bytes_per_packet_per_link": found.added.sum() / found.packets.sum(),
        "reports_or_readings": found.readings,
        "report_packets": found.report_packets,
        "report_bytes": found.report_bytes,
        "report_bytes_on_all_links": found.report_link_bytes,
        "bytes_per_packet": (found.added.sum() + found.report_link_bytes) / found.packets[0],
        "latencies_known": found.delays,
        "longest_queue_seen": found.longest_queue,
        "lost": found.lost,
        "losses_seen": found.losses_seen,
    }


def summary_table(found: Sequence[Found]) -> Table:
    """A row for each mode."""
    rows = []
    for each in found:
        row = row_of(each)
        seen = f"{row['losses_seen']} of {row['lost']}"
        queue = "none" if each.longest_queue is None else each.longest_queue
        rows.append(
            (
                each.mode,
                row["added_bytes_per_packet_per_link"],
                each.readings,
                each.report_bytes,
                row["bytes_per_packet"],
                each.delays,
                queue,
                seen,
            )
        )
    columns = (
        "mode",
        "bytes added, packet and link",
        "reports, or readings",
        "their bytes",
        "bytes on all links, packet",
        "latencies",
        "longest queue",
        "lost packets seen",
    )
    return table("What each costs and sees", columns, rows)


def draw(found: Sequence[Found]) -> Figure:
    """Left: bytes that a packet costs on all links. Right: of what can be known, what is."""
    figure, (left, right) = plots.figure(2)
    places = np.arange(len(found))
    in_packets = np.array([each.added.sum() / each.packets[0] for each in found])
    in_reports = np.array([each.report_link_bytes / each.packets[0] for each in found])
    left.bar(places, in_packets, 0.6, color=plots.COLOURS[0], label="in packets")
    left.bar(places, in_reports, 0.6, bottom=in_packets, color=plots.COLOURS[1],
             label="in reports")  # fmt: skip
    for place, each in zip(places, found, strict=True):
        text = f"{each.readings:,} " + ("reports" if each.findings else "readings")
        left.annotate(text, (place, in_packets[place] + in_reports[place]), (0, 2),
                      textcoords="offset points", ha="center", fontsize="small")  # fmt: skip
    left.set_ylabel("Bytes on all links, a packet")
    left.margins(y=0.1)
    left.set_xlim(-0.7, len(found) - 0.3)  # labels are wider than bars
    draw_shares(right, found)
    for axes in (left, right):
        axes.set_xticks(places, [each.mode for each in found])
        plots.legend(axes, 2)
    return figure


def draw_shares(axes: Axes, found: Sequence[Found]) -> None:
    """Shares of lost packets that are seen, and of latencies that are known."""
    places = np.arange(len(found))
    shares = {
        "lost packets seen": [100 * each.losses_seen / max(each.lost, 1) for each in found],
        "latencies known": [100 * each.delays / each.packets.sum() for each in found],
    }
    for number, (label, percent) in enumerate(shares.items(), start=2):
        axes.bar(places + 0.36 * (number - 2.5), percent, 0.32, label=label,
                 color=plots.COLOURS[number])  # fmt: skip
    axes.set_ylabel("Share (%)")


def caption(options: argparse.Namespace) -> str:
    """What the figure shows."""
    return (
        f"INT's modes and alternate marking on the same flow of {options.rate:,} packets/s over "
        f"five switches, whose third link loses {options.loss:g} %, {plots.runs(1, options.time)}. "
        f"(a) What telemetry costs: {4 * HOP_WORDS} bytes of metadata at each switch, in packets "
        "and in reports on the way to the collector, grouped: up to "
        f"{GROUPING.reports} in a packet; AM-PM's readings go by the control plane, and "
        "are not in these bytes. (b) What it sees: lost packets, with their "
        "place, and what each packet took in each switch."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
