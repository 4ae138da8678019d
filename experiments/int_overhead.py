"""What does INT cost: how much goodput, and how much of the switches' time, by hops and metadata?

Flows of small and of large packets fill a narrow link, the last of a path whose switches write into
each packet what it met (INT-MD), from nothing to 48 bytes a switch. What gets through must be what
the link's rate leaves for the data when each packet is as long as INT's format makes it: by when
frames left for the link, to the nanosecond, and by the receiver's clock, which in real time may
differ by how late the last switch handed packets over. TCP must get there, too, exactly in
virtual time, and within 2 % in real time, with no segment that came damaged. What INT's work costs
a switch is measured apart from that, in virtual time, beside the same program without INT. Not for
bmv2: the question is what a link's rate leaves, by departures to the nanosecond; behind a bmv2 the
panel's link, a minip4's, would answer it again.

Claim: Goodput is the link's rate times the share of data in a frame with INT in it.

Published: INT v2.1 (P4.org, 2020): 16 bytes, and 4 for each word of metadata at each hop: at five
hops and 16 bytes each, 5.9 % of a frame of 1,538 bytes and 36.6 % of one of 166, by arithmetic.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from collectors.int.shared import PATH_HOPS
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
from experiments.shared.int.truth import require_minip4
from telemark.errors import InvalidRunError, TestbedError
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.traffic.flows import AnyFlow

MOST_HOPS = PATH_HOPS - 1  # that push; the last switch is told, too


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds", type=cli.seconds, metavar="S",
        help="how long each flow fills the link (default: 0.25)",
    )  # fmt: skip
    parser.add_argument(
        "--tcp-seconds", type=cli.seconds, default=2, metavar="S",
        help="how long TCP would fill it (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--hops",
        type=cli.positive_int,
        nargs="+",
        metavar="N",
        help="how many switches push metadata, one after the other (default: 1 to 8)",
    )  # fmt: skip
    cli.add_program_option(parser, "p4src/int/int.p4")


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    require_minip4(run, "its links send when the kernel's tbf does, not to the nanosecond")
    options.seconds = options.seconds or (0.08 if options.quick else 0.25)
    options.hops = sorted({*(options.hops or ([1, 5] if options.quick else range(1, 9)))})
    if max(options.hops) > MOST_HOPS:
        raise TestbedError(
            f"--hops {max(options.hops)}: expected 1 to {MOST_HOPS}: no path is told with more"
        )
    options.metadata = [0, 16, 48] if options.quick else [*METADATA]
    outcome = await measure(options, run)
    reject_idle(outcome)
    costs = await measure_cpu(options, run) if options.time == "virtual" else None
    return Report(
        samples=[*map(row_of_udp, outcome.sent), *map(row_of_tcp, outcome.transferred)],
        checks=checks_of(outcome, TCP_TOLERANCE[options.time]),
        metrics=metrics_of(outcome, costs),
        figure=draw(outcome, costs),
        caption=caption(options, costs),
        tables=[summary_table(outcome), *([table_of_costs(costs)] if costs else [])],
    )


def reject_idle(outcome: Outcome) -> None:
    """Raise TestbedError when the link was idle half of the time: nothing filled it."""
    for sent in outcome.sent:
        filled_ns = sent.received * sent.case.wire_ns
        if sent.idle_ns > filled_ns:
            raise InvalidRunError(
                f"nothing waited for a link for {sent.idle_ns / 1e6:.0f} ms, which "
                f"had to send for {filled_ns / 1e6:.0f} ms"
            )


def checks_of(outcome: Outcome, tolerance: float) -> list[Check]:
    """What got through is what the bytes leave, and INT was all there."""
    sent = outcome.sent
    checks = [
        Check("packets that did not arrive",
              sum(each.case.flow.count - each.received for each in sent), 0),
        Check("frames on a link with other than the bytes of the format",
              sum(each.wrong_lengths for each in sent), 0),
        Check("largest error of when frames left for a narrow link, ns",
              np.max([each.link_error_ns for each in sent]), 0),
        Check("packets that came before the link let them go",
              sum(each.early for each in sent), 0),
        Check("largest error of the time that goodput took at a host, ns",
              np.max([each.host_error_ns for each in sent]), 0),
        Check("flows whose path was told as it is", paths_reported(outcome), len(outcome.watched)),
    ]  # fmt: skip
    for tcp in outcome.transferred:
        percent = 100 * tcp.goodput_bps / tcp.case.goodput_bps
        name = f"TCP, {tcp.case.hops} hops, {tcp.case.metadata} bytes: goodput, % of theory"
        checks.append(Check(name, percent, 100, 100 * tolerance))
    wrong = Check("TCP: segments with a wrong checksum", outcome.checksum_errors, 0)
    return [*checks, wrong, *outcome.accounting.checks()]


def paths_reported(outcome: Outcome) -> int:
    """Flows of which the collector knows the path: the switches that pushed, and the last one."""
    cases = {case.flow.port: case for case in outcome.watched}
    right = 0
    for flow in outcome.findings.flows:
        case = cases.get(int(flow["key"]["destination_port"]))
        nodes = flow["path"]["node"][: flow["hops"]].tolist()
        right += case is not None and nodes == case.nodes_reported
    return right


def row_of_udp(sent: Sent) -> dict[str, object]:
    """A row of samples.csv."""
    return {
        **_row(sent.case, "UDP"),
        "goodput_bps": sent.goodput_bps,
        "packets_per_s": sent.packets_per_s,
        "received_packets": sent.received,
        "idle_us": sent.idle_ns / 1000,
        "latest_us": sent.latest_ns / 1000,
        "retransmitted": 0,
    }


def row_of_tcp(transferred: Transferred) -> dict[str, object]:
    """The same; TCP's segments are counted nowhere."""
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


def metrics_of(outcome: Outcome, costs: Costs | None) -> dict[str, object]:
    """What the machine did to goodput, and what INT's work took."""
    metrics: dict[str, object] = {
        "largest_difference_at_hosts_percent": np.max(
            [abs(100 * each.goodput_bps / each.case.goodput_bps - 100) for each in outcome.sent]
        )
    }
    if costs:
        metrics["cpu_ns"] = dict(zip(costs.metadata, costs.min_ns, strict=True))
        metrics["cpu_ratio"] = dict(zip(costs.metadata, costs.ratios, strict=True))
    return metrics


def summary_table(outcome: Outcome) -> Table:
    """A row for each number of hops and size: goodput as a share of that without INT."""
    found = {(each.case.hops, each.case.size, each.case.metadata): each for each in outcome.sent}
    metadata = sorted({key[2] for key in found})
    rows = []
    for hops, size in dict.fromkeys(key[:2] for key in found):
        bare = found[hops, size, 0]
        shares = [100 * found[hops, size, m].goodput_bps / bare.goodput_bps for m in metadata]
        rows.append((hops, size, bare.goodput_bps / 1e6, *shares))
    names = [f"{m} bytes, %" for m in metadata]
    return table("Goodput with INT", ("hops", "frame, bytes", "without, Mbit/s", *names), rows)


def table_of_costs(costs: Costs) -> Table:
    """What a packet takes at a switch."""
    rows = [*zip(costs.metadata, costs.min_ns, costs.ratios, strict=True)]
    return table(
        f"CPU time of a packet at a switch, mean of {costs.hops + 1}",
        ("metadata a switch, bytes", "ns", "times that without INT"), rows,
    )  # fmt: skip


def draw(outcome: Outcome, costs: Costs | None) -> Figure:
    """Goodput by hops, of small and of large packets; and what a packet takes at a switch."""
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
    """Of packets of one size: as measured (points), and as the bytes leave it (lines)."""
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
    """What a packet takes, and how many times that is what it takes without INT."""
    places = range(len(costs.metadata))
    axes.bar(places, costs.min_ns, 0.6, color=plots.COLOURS[: len(costs.metadata)])
    for place, ns, ratio in zip(places, costs.min_ns, costs.ratios, strict=True):
        axes.annotate(f"{ratio:.2f}", (place, ns), (0, 2), textcoords="offset points", ha="center",
                      fontsize="small")  # fmt: skip
    axes.set_xticks(places, [str(metadata or "no INT") for metadata in costs.metadata])
    axes.set_xlabel("Metadata a switch (bytes)")
    axes.set_ylabel("CPU time of a packet (ns)")
    axes.margins(y=0.1)


def caption(options: argparse.Namespace, costs: Costs | None) -> str:
    """What the figure shows."""
    text = (
        f"What a link of {RATE_BPS / 1e6:g} Mbit/s carries of UDP's data behind so many switches "
        "that push INT-MD's metadata, by bytes that each of them pushes, "
        f"{plots.runs(1, options.time)}: as received (points), and as the bytes of the format "
        f"leave it (lines). Frames of (a) {SIZES[0]} and (b) {SIZES[1]} bytes, as hosts send them; "
        f"rings are TCP, without INT and with {max(TCP_METADATA)} bytes."
    )
    if costs is None:
        return text
    return (
        f"{text} (c) CPU time of the process that has all switches, for a packet of {SIZE} bytes "
        f"at a switch, mean of {costs.hops + 1}, the least of "
        f"{plots.count(len(costs.ns), 'round')}; above it, how many times what it takes without "
        "INT that is."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
