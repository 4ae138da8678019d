"""INT overhead: how much goodput and switch CPU time does it cost, by hops and metadata?

Flows of small and of large packets fill a narrow link at the end of a path. Each switch on the path
writes up to 48 bytes of metadata into every packet (INT-MD). The goodput must be the link rate
times the fraction of payload in a frame with INT. The experiment checks this goodput in two ways.
The goodput by departure times to the link must be exact to the nanosecond. The goodput by the clock
of the receiver must also be exact. In real time, the receiver may see packets later, by the delay
with which the last switch delivered them. TCP must reach the same goodput without damaged segments,
exactly in virtual time and within 2 % in real time. The CPU time of INT per switch is measured
separately, in virtual time, and compared with the same program without INT. This experiment does
not run on bmv2, because departure times must be exact to the nanosecond and the links of bmv2
belong to its panel switch (minip4, between bmv2 and the links).

Claim: Goodput is the link rate times the fraction of payload in a frame with INT.

Published: INT v2.1 (P4.org, 2020): INT adds 16 bytes, and 4 bytes for each word of metadata at each
hop. By arithmetic, five hops of 16 bytes are 5.9 % of a frame of 1,538 bytes and 36.6 % of a frame
of 166 bytes.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from collectors.int.native import PATH_HOPS
from experiments.shared.int.cpu import SIZE, Costs, measure_cpu
from experiments.shared.int.overhead import (
    METADATA,
    RATE_BPS,
    SIZES,
    TCP_METADATA,
    TCP_TOLERANCE,
    Case,
    Outcome,
    Sent,
    Transferred,
    measure,
)
from telemark.errors import TestbedError, note_invalid
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.traffic.flows import AnyFlow

MAX_PUSHING_HOPS = PATH_HOPS - 1  # the reported path also contains the last switch


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds", type=cli.seconds, metavar="S",
        help="duration of each UDP flow (default: 0.25)",
    )  # fmt: skip
    parser.add_argument(
        "--tcp-seconds", type=cli.seconds, default=2, metavar="S",
        help="duration of each TCP flow at full link rate (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--hops",
        type=cli.positive_int,
        nargs="+",
        metavar="N",
        help="numbers of switches that push metadata (default: 1 to 8)",
    )  # fmt: skip
    cli.add_program_option(parser, "p4src/int/int.p4")
    cli.add_metrics_option(parser)


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    cli.require_minip4(
        options, "its links are shaped by the kernel's tbf, not exact to the nanosecond"
    )
    options.seconds = options.seconds or (0.08 if options.quick else 0.25)
    options.hops = sorted({*(options.hops or ([1, 5] if options.quick else range(1, 9)))})
    if max(options.hops) > MAX_PUSHING_HOPS:
        raise TestbedError(
            f"--hops {max(options.hops)}: expected 1 to {MAX_PUSHING_HOPS}, the longest path that "
            "the collector stores"
        )
    options.metadata = [0, 16, 48] if options.quick else [*METADATA]
    outcome = await measure(options, run)
    reject_idle(outcome)
    costs = await measure_cpu(options, run) if options.time == "virtual" else None
    return Report(
        samples=[*map(make_udp_row, outcome.sent), *map(make_tcp_row, outcome.transferred)],
        checks=make_checks(outcome, TCP_TOLERANCE[options.time]),
        metrics=make_metrics(outcome, costs),
        figure=draw(outcome, costs),
        caption=caption(options, costs),
        tables=[summary_table(outcome), *([make_costs_table(costs)] if costs else [])],
    )


def reject_idle(outcome: Outcome) -> None:
    """Make the run inconclusive if a flow left the narrow link idle for half of the time."""
    for sent in outcome.sent:
        filled_ns = sent.received * sent.case.wire_ns
        if sent.idle_ns > filled_ns:
            note_invalid(
                f"the link was idle for {sent.idle_ns / 1e6:.0f} ms, and busy for only "
                f"{filled_ns / 1e6:.0f} ms"
            )


def make_checks(outcome: Outcome, tolerance: float) -> list[Check]:
    """Check that the goodput follows from frame lengths and that all paths are reported."""
    sent = outcome.sent
    checks = [
        Check("lost packets",
              sum(each.case.flow.count - each.received for each in sent), 0),
        Check("frames with wrong length",
              sum(each.wrong_lengths for each in sent), 0),
        Check("max error of departure times to the narrow link (ns)",
              np.max([each.link_error_ns for each in sent]), 0),
        Check("packets received before the end of their transmission",
              sum(each.early for each in sent), 0),
        Check("max error of the transfer time at a host (ns)",
              np.max([each.host_error_ns for each in sent]), 0),
        Check("flows with correctly reported path", paths_reported(outcome), len(outcome.watched)),
    ]  # fmt: skip
    for tcp in outcome.transferred:
        percent = 100 * tcp.goodput_bps / tcp.case.goodput_bps
        name = f"TCP, {tcp.case.hops} hops, {tcp.case.metadata} bytes: goodput (% of theory)"
        checks.append(Check(name, percent, 100, 100 * tolerance))
    wrong = Check("TCP: segments with a wrong checksum", outcome.checksum_errors, 0)
    return [*checks, wrong, *outcome.accounting.checks()]


def paths_reported(outcome: Outcome) -> int:
    """Count flows for which the collector knows the path, including the last switch."""
    cases = {case.flow.port: case for case in outcome.watched}
    right = 0
    for flow in outcome.findings.flows:
        case = cases.get(int(flow["key"]["destination_port"]))
        nodes = flow["path"]["node"][: flow["hops"]].tolist()
        right += case is not None and nodes == case.nodes_reported
    return right


def make_udp_row(sent: Sent) -> dict[str, object]:
    """Return a row of samples.csv for a UDP flow."""
    return {
        **_row(sent.case, "UDP"),
        "goodput_bps": sent.goodput_bps,
        "packets_per_s": sent.packets_per_s,
        "received_packets": sent.received,
        "idle_us": sent.idle_ns / 1000,
        "latest_us": sent.latest_ns / 1000,
        "retransmitted": 0,
    }


def make_tcp_row(transferred: Transferred) -> dict[str, object]:
    """Return a row of samples.csv for a TCP flow, without packet counts."""
    return {
        **_row(transferred.case, "TCP"),
        "goodput_bps": transferred.goodput_bps,
        "packets_per_s": "",
        "received_packets": "",
        "idle_us": "",
        "latest_us": "",
        "retransmitted": transferred.retransmitted,
    }


def _row(case: Case[AnyFlow], protocol: str) -> dict[str, object]:
    return {
        "protocol": protocol,
        "hops": case.hops,
        "metadata_bytes": case.metadata,
        "frame_bytes": case.size,
        "longest_frame_bytes": case.frame_bytes(case.hops),
        "theory_bps": case.goodput_bps,
    }


def make_metrics(outcome: Outcome, costs: Costs | None) -> dict[str, object]:
    """Return the max deviation of UDP goodput from theory, and the CPU time of INT."""
    metrics: dict[str, object] = {
        "max_difference_at_hosts_percent": np.max(
            [abs(100 * each.goodput_bps / each.case.goodput_bps - 100) for each in outcome.sent]
        )
    }
    if costs:
        metrics["cpu_ns"] = dict(zip(costs.metadata, costs.min_ns, strict=True))
        metrics["cpu_ratio"] = dict(zip(costs.metadata, costs.ratios, strict=True))
    return metrics


def summary_table(outcome: Outcome) -> Table:
    """Return a table of goodput relative to no INT, with a row per number of hops and size."""
    found = {(each.case.hops, each.case.size, each.case.metadata): each for each in outcome.sent}
    metadata = sorted({key[2] for key in found})
    rows = []
    for hops, size in dict.fromkeys(key[:2] for key in found):
        bare = found[hops, size, 0]
        shares = [100 * found[hops, size, m].goodput_bps / bare.goodput_bps for m in metadata]
        rows.append((hops, size, bare.goodput_bps / 1e6, *shares))
    names = [f"{m} bytes (%)" for m in metadata]
    return table(
        "Goodput with INT", ("hops", "frame (bytes)", "without INT (Mbit/s)", *names), rows
    )


def make_costs_table(costs: Costs) -> Table:
    """Return a table of CPU time per packet and switch."""
    rows = [*zip(costs.metadata, costs.min_ns, costs.ratios, strict=True)]
    return table(
        f"CPU time per packet and switch, mean of {costs.hops + 1} switches",
        ("metadata per switch (bytes)", "ns", "normalized to no INT"), rows,
    )  # fmt: skip


def draw(outcome: Outcome, costs: Costs | None) -> Figure:
    """Draw goodput over hops for small and large packets, and CPU time per packet."""
    figure, (small, large, *rest) = plots.figure(3 if costs else 2)
    for axes, size in zip((small, large), SIZES, strict=True):
        draw_goodput(axes, [each for each in outcome.sent if each.case.size == size])
        axes.set_xlabel(f"Switches that push metadata\n(frames of {size:,} bytes)")
    for number, tcp in enumerate(outcome.transferred):
        plots.ring(large, tcp.case.hops, tcp.goodput_bps / 1e6, "" if number else "TCP")
    for axes in (small, large):
        plots.legend(axes, 3)
    for axes in rest:
        assert costs
        draw_costs(axes, costs)
    return figure


def draw_goodput(axes: Axes, sent: Sequence[Sent]) -> None:
    """Draw goodput for one packet size: measured (points) and theory (lines)."""
    for number, metadata in enumerate(sorted({each.case.metadata for each in sent})):
        own = [each for each in sent if each.case.metadata == metadata]
        hops = [each.case.hops for each in own]
        axes.plot(hops, [each.goodput_bps / 1e6 for each in own], linestyle="",
                  marker=plots.MARKERS[number], color=plots.COLOURS[number],
                  label=f"{metadata} B" if metadata else "no INT")  # fmt: skip
        axes.plot(hops, [each.case.goodput_bps / 1e6 for each in own], marker="", linewidth=0.8,
                  color=plots.COLOURS[number])  # fmt: skip
    axes.set_ylabel("Goodput (Mbit/s)")
    axes.set_xticks(sorted({each.case.hops for each in sent}))


def draw_costs(axes: Axes, costs: Costs) -> None:
    """Draw CPU time per packet; labels are the ratio to the CPU time without INT."""
    places = range(len(costs.metadata))
    axes.bar(places, costs.min_ns, 0.6, color=plots.COLOURS[: len(costs.metadata)])
    for place, ns, ratio in zip(places, costs.min_ns, costs.ratios, strict=True):
        axes.annotate(f"{ratio:.2f}", (place, ns), (0, 2), textcoords="offset points", ha="center",
                      fontsize="small")  # fmt: skip
    axes.set_xticks(places, [str(metadata or "no INT") for metadata in costs.metadata])
    axes.set_xlabel("Metadata per switch (bytes)")
    axes.set_ylabel("CPU time per packet (ns)")
    axes.margins(y=0.1)


def caption(options: argparse.Namespace, costs: Costs | None) -> str:
    """Return the caption of the figure."""
    text = (
        f"UDP goodput of a link of {RATE_BPS / 1e6:g} Mbit/s, by number of switches that push "
        "INT-MD metadata and by bytes of metadata per switch, "
        f"{plots.runs(1, options.time)}: measured (points) and theory from frame lengths (lines). "
        f"Frames of (a) {SIZES[0]} and (b) {SIZES[1]} bytes, as sent by hosts; "
        f"rings are TCP, without INT and with {max(TCP_METADATA)} bytes."
    )
    if costs is None:
        return text
    return (
        f"{text} (c) CPU time of the process of all switches, per packet of {SIZE} bytes and "
        f"switch, mean of {costs.hops + 1} switches, min of "
        f"{plots.count(len(costs.ns), 'round')}; labels: ratio to the time without INT."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
