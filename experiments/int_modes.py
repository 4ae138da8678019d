"""INT modes and alternate marking: what overhead does each have, and what does it measure?

A flow crosses five switches, and the third link loses some of its packets. With INT-MD, packets
carry the metadata of all switches, and the last switch reports. With INT-MX, packets carry only
instructions, and every switch reports. With INT-XD, packets carry no INT data, and every switch
sends one report per packet or per group of packets (grouped). Alternate marking (AM-PM) uses two
bits of each packet, and a controller reads counters. Captures give the number of bytes, which must
agree with the formats of the specification. Loss, delay and queue measurements of each method are
compared with link logs and captures. On bmv2, a capacity probe determines the lower rates, and the
queues of bmv2 have a rate in packets/s, so that the queues fill. Reported latencies and queues must
not exceed the bounds from captures on both sides of each switch.

Claim: The packets of each mode have the length that the format defines. Each mode measures all
loss, delay and queueing that its reports can show.

Published: INT v2.1 (P4.org, 2020): INT-MD adds 16 bytes plus the metadata of each hop, INT-MX adds
16 bytes for any number of hops, INT-XD adds none.
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
from experiments.shared.int.modes import (
    AMPM,
    GROUPED,
    GROUPING,
    MODES,
    PATH,
    Found,
    find_slowdown,
    measure,
)
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep

HOP_WORDS = 8  # value of the Hop ML field (4-byte words per hop) for WANTED
INT_BYTES = 16  # length of shim and INT header in bytes
# A report packet has Ethernet, IPv4, UDP and group headers. Each report in it has a report header,
# WANTED without the node id, and the IPv4 and UDP headers of the reported packet. If that packet
# has no IPv4 identification, the report also has the payload of that packet, to be unambiguous
# (docs/reference/int.md).
GROUP_BYTES, REPORT_BYTES = 42 + 8, 12 + 4 * (HOP_WORDS - 1) + 28
PAYLOAD_BYTES = 16


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--loss", type=cli.percentage, default=1, metavar="PERCENT",
        help="loss ratio of the link from s3 to s4 in percent (default: %(default)s)",
    )  # fmt: skip
    cli.add_rate_option(parser, 500, "the flow")
    parser.add_argument(
        "--blocks", type=cli.positive_int, metavar="N",
        help="complete blocks of alternate marking, of 0.26 s each (default: 20)",
    )  # fmt: skip
    cli.add_program_option(parser, "p4src/int/int.p4")
    cli.add_metrics_option(parser)


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    reject_rare(options.rate)
    options.blocks = options.blocks or (4 if options.quick else 20)
    options.slower = await find_slowdown(options, run)
    found = await sweep(measured, [(mode, options) for mode in (*MODES, AMPM)], run)
    return Report(
        samples=[make_row(each) for each in found],
        checks=[check for each in found for check in make_checks(each, options)],
        figure=draw(found),
        caption=caption(options),
        tables=[summary_table(found)],
    )


async def measured(mode: str, options: argparse.Namespace, run: Run) -> Found:
    """Run one mode in its own folder.

    The network name is the same for all modes, so all modes have equal seeds.
    """
    folder = run.folder / mode
    folder.mkdir()
    return await measure(mode, options, replace(run, folder=folder))


def added_by_theory(mode: str, hop: int) -> int:
    """Return how many bytes, by theory, INT adds to a packet on the link that follows a hop."""
    if mode not in ("MD", "MX") or hop == len(PATH) - 1:  # the last switch removes INT
        return 0
    return INT_BYTES + (4 * HOP_WORDS * (hop + 1) if mode == "MD" else 0)


def report_bytes_by_theory(found: Found) -> int:
    """Return the predicted bytes of all reports, from the last switch or from all switches.

    A report from the last switch contains the whole stack. The number of reports per packet also
    depends on timing, so the measured number is used.
    """
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


def make_checks(found: Found, options: argparse.Namespace) -> list[Check]:
    """Check that overhead follows from the formats and that measurements equal ground truth."""
    mode, packets = found.mode, found.packets
    added = [added_by_theory(mode, hop) * int(count) for hop, count in enumerate(packets)]
    checks = [
        Check(f"{mode}: bytes added to packets on all links", found.added.sum(), sum(added)),
        Check(f"{mode}: bytes of reports", found.report_bytes, report_bytes_by_theory(found)),
        Check(f"{mode}: lost packets detected and located", found.losses_detected,
              0 if mode == "MD" else found.lost),
    ]  # fmt: skip
    if found.findings is not None:
        sources = found.findings.sources
        lacking = int((sources["lost"] + sources["missing"]).sum())
        reported = packets[-1] * len(PATH) if mode == "MD" else packets.sum()
        checks += [
            Check(f"{mode}: hop latencies measured", found.delays, reported),
            Check(f"{mode}: missing report sequence numbers", lacking, 0),
            *check_queues(found),
        ]
    else:
        # One latency per block and switch, including both half blocks. A lost pulse does not reach
        # the last two switches.
        reported = (options.blocks + 2) * len(PATH) - 2 * found.lost_pulses
        checks.append(Check(f"{mode}: hop latencies measured", found.delays, reported))
    return [*checks, *found.accounting.checks(mode)]


def check_queues(found: Found) -> list[Check]:
    """Check the longest queue and the sum of latencies of each switch that reported all packets."""
    wrong_queues, errors_us = 0, []
    for place, hop in found.reported.items():
        truth = found.truth[place]
        passed = truth.passed
        if hop["latency_ns"]["count"] != np.count_nonzero(passed):
            continue  # INT-MD does not report packets that are lost on a later link
        if found.inside is not None:
            inside_us, ahead = found.inside[place]
            wrong_queues += not 0 < hop["occupancy"]["max"] <= ahead.max()
            reported_us = int(hop["latency_ns"]["sum"]) // 1000
            errors_us.append(max(reported_us - int(inside_us.sum()), 0))
            continue
        low, high = truth.min_queued[passed].max(), truth.max_queued[passed].max()
        wrong_queues += not low <= hop["occupancy"]["max"] <= high
        true_us = (truth.left_ns // 1000 - truth.arrived_ns // 1000)[passed].sum()
        errors_us.append(abs(int(hop["latency_ns"]["sum"]) // 1000 - int(true_us)))
    name = f"{found.mode}: "
    return [
        Check(name + "switches with a wrong max queue", wrong_queues, 0),
        Check(
            name + "max error of the latency sum per switch (us)",
            max(errors_us, default=np.nan),
            0,
        ),
    ]


def make_row(found: Found) -> dict[str, object]:
    """Return a row of samples.csv."""
    return {
        "mode": found.mode,
        "packets": int(found.packets[0]),
        "added_bytes_per_packet_per_link": found.added.sum() / found.packets.sum(),
        "reports_or_readouts": found.readouts,
        "report_packets": found.report_packets,
        "report_bytes": found.report_bytes,
        "report_bytes_on_all_links": found.report_link_bytes,
        "bytes_per_packet": (found.added.sum() + found.report_link_bytes) / found.packets[0],
        "latencies_known": found.delays,
        "max_queue_reported": found.longest_queue,
        "lost": found.lost,
        "losses_detected": found.losses_detected,
    }


def summary_table(found: Sequence[Found]) -> Table:
    """Return a table with a row per mode."""
    rows = []
    for each in found:
        row = make_row(each)
        seen = f"{row['losses_detected']} of {row['lost']}"
        queue = "none" if each.longest_queue is None else each.longest_queue
        rows.append(
            (
                each.mode,
                row["added_bytes_per_packet_per_link"],
                each.readouts,
                each.report_bytes,
                row["bytes_per_packet"],
                each.delays,
                queue,
                seen,
            )
        )
    columns = (
        "mode",
        "bytes added per packet and link",
        "reports or readouts",
        "report bytes",
        "bytes per packet on all links",
        "latencies",
        "max queue",
        "losses detected",
    )
    return table("Overhead and measurements of each mode", columns, rows)


def draw(found: Sequence[Found]) -> Figure:
    """Draw the overhead per packet on all links (left), and which part is measured (right)."""
    figure, (left, right) = plots.figure(2)
    places = np.arange(len(found))
    in_packets = np.array([each.added.sum() / each.packets[0] for each in found])
    in_reports = np.array([each.report_link_bytes / each.packets[0] for each in found])
    left.bar(places, in_packets, 0.6, color=plots.COLOURS[0], label="in packets")
    left.bar(places, in_reports, 0.6, bottom=in_packets, color=plots.COLOURS[1],
             label="in reports")  # fmt: skip
    for place, each in zip(places, found, strict=True):
        text = f"{each.readouts:,} " + ("reports" if each.findings else "readouts")
        left.annotate(text, (place, in_packets[place] + in_reports[place]), (0, 2),
                      textcoords="offset points", ha="center", fontsize="small")  # fmt: skip
    left.set_ylabel("Overhead per packet (bytes)")
    left.margins(y=0.1)
    # leave space for the labels, which are wider than the bars
    left.set_xlim(-0.7, len(found) - 0.3)
    draw_shares(right, found)
    for axes in (left, right):
        axes.set_xticks(places, [each.mode for each in found])
        plots.legend(axes, 2)
    return figure


def draw_shares(axes: Axes, found: Sequence[Found]) -> None:
    """Draw the percentages of detected losses and of measured hop latencies."""
    places = np.arange(len(found))
    shares = {
        "losses detected": [100 * each.losses_detected / max(each.lost, 1) for each in found],
        "hop latencies measured": [100 * each.delays / each.packets.sum() for each in found],
    }
    for number, (label, percent) in enumerate(shares.items(), start=2):
        axes.bar(places + 0.36 * (number - 2.5), percent, 0.32, label=label,
                 color=plots.COLOURS[number])  # fmt: skip
    axes.set_ylabel("Fraction measured (%)")


def caption(options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    return (
        f"INT modes and alternate marking on the same flow of {options.rate:,} packets/s over "
        f"five switches, whose third link loses {options.loss:g} %, {plots.runs(1, options.time)}. "
        f"(a) Overhead: {4 * HOP_WORDS} bytes of metadata per switch, in packets and in reports on "
        f"the path to the collector; grouped: up to {GROUPING.reports} reports per packet. AM-PM "
        "readouts use the control plane, and are not included. (b) Lost packets detected and "
        "located, and hop latencies measured."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
