"""eBPF host edges: do they and the switches measure one flow consistently with ground truth?

A flow goes from h1 to h2 over three switches. A tc program on each host (the edge) works like a
switch. The program on h1 marks the flow in blocks (AM-PM), and the program on h2 removes the marks.
Both programs count packets and send a postcard for each packet (INT-XD). The switches do the same,
and one controller and one collector read all five. One link between switches and the link from s3
to h2 lose packets. The other two links lose none. The link logs are ground truth. In each block,
the counters of two neighbours must differ by the logged losses. Postcards must be missing for
exactly the lost packets. The timestamps of edges are compared with independent clock readings. The
edge of h1 and then s1 timestamp a packet during the send call of the sender. The edge of h2
timestamps the packet after s3 has delivered the packet and the kernel of h2 has received it
(reception comes before tc). s3 receives the postcard with this timestamp later. The timestamp of a
pulse must agree with the timestamp in its postcard: exactly at switches, within the same bounds at
edges.

Claim: Edges count the same packets as their neighbours, counters and postcards show exactly the
logged losses, and all timestamps are within their bounds.

Published: intel/host-int (archived 2023): tc and XDP programs add INT to packets on one host and
remove it on another, with sequence numbers to detect loss. It has no figure for comparison.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from numpy.typing import NDArray
from rich.table import Table

from controllers.ampm.records import Point
from experiments.shared.int.agreement import Enclosed, enclosures, pulses_apart, stamps_apart
from experiments.shared.int.edges import (
    LINKS,
    LOSSY,
    MAX_PACKETS,
    PLACES,
    PROGRAM,
    Outcome,
    measure,
)
from experiments.shared.int.marking import SCHEDULE, reject_rare
from telemark.errors import TestbedError
from telemark.results import plots, statistics
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep
from telemark.traffic.flows import Flow

MIN_LEFT = 20  # min mean number of packets per block at h2, so that no block is empty by chance
# the complete blocks: not the half block at the start, the half block and the empty block at the
# end
COMPLETE = slice(1, -2)
STYLES: dict[str, dict[str, Any]] = {
    "reported": {"color": plots.COLOURS[0], "linewidth": 2.5},
    "low": {"color": plots.COLOURS[1], "linestyle": "--"},
    "high": {"color": plots.COLOURS[2], "linestyle": ":", "linewidth": 1.5},
}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--loss", type=cli.percentage, nargs="+", metavar="PERCENT",
        help="loss ratio of the two lossy links in percent; one network per ratio (default: 0 1 5)",
    )  # fmt: skip
    cli.add_rate_option(parser, 1000, "the flow")
    parser.add_argument(
        "--blocks", type=cli.positive_int, metavar="N",
        help="complete blocks of alternate marking (0.26 s each) per loss ratio (default: 12)",
    )  # fmt: skip
    cli.add_program_option(parser, PROGRAM)
    cli.add_metrics_option(parser)


@dataclass(frozen=True)
class Found:
    """Results at one configured loss ratio."""

    loss_percent: float
    counted: dict[str, NDArray[np.int64]]  # packets per block, by measuring point
    # link -> packets lost in each block, according to link logs
    lost: dict[tuple[str, str], NDArray[np.int64]]
    delays: dict[tuple[str, str], Enclosed]  # link (of LINKS) -> delays

    def difference(self, link: tuple[str, str]) -> NDArray[np.int64]:
        """Return the loss of a link in each block, from the counters at both ends of the link."""
        near, far = link
        return self.counted[near] - self.counted[far]


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    cli.require_time(options, "real", "eBPF programs need a kernel")
    cli.require_minip4(options, "its clock differs from the clock of host edges")
    options.loss = options.loss or ([0, 5] if options.quick else [0, 1, 5])
    options.blocks = options.blocks or (4 if options.quick else 12)
    flow = make_flow(options)
    runs = await sweep(measured, [(flow, percent, options) for percent in options.loss], run)
    found = [each for each, _ in runs]
    return Report(
        samples=[row for each in found for row in make_rows(each)],
        checks=[check for _, held in runs for check in held],
        metrics={f"loss {each.loss_percent:g} %": make_metrics(each) for each in found},
        figure=draw(found),
        caption=caption(options),
        tables=[loss_table(found), delay_table(found)],
    )


def make_flow(options: argparse.Namespace) -> Flow:
    """Return a flow that lasts for all complete blocks plus half a block before and after.

    Raises TestbedError if the rate or the loss ratio leaves nothing to compare.
    """
    reject_rare(options.rate)
    block_s = SCHEDULE.block_us / 1e6
    count = round(options.rate * (options.blocks + 1) * block_s)
    if count > MAX_PACKETS:
        raise TestbedError(
            f"--rate {options.rate}: the flow has {count:,} packets, but identifications differ "
            f"only for {MAX_PACKETS:,}; use a lower rate or fewer --blocks"
        )
    for percent in options.loss:
        left = options.rate * block_s * (1 - percent / 100) ** len(LOSSY)
        if left < MIN_LEFT:
            raise TestbedError(
                f"--loss {percent:g}: only {left:.0f} packets per block arrive on average; use a "
                "higher --rate or a lower loss ratio"
            )
    return Flow(1, "h1", "h2", options.rate, count, size=100)


async def measured(
    flow: Flow, percent: float, options: argparse.Namespace, run: Run
) -> tuple[Found, list[Check]]:
    """Run one network with this loss ratio on two links."""
    outcome = await measure(flow, percent, options.blocks, options.program, run)
    found = collect_results(outcome, percent)
    return found, make_checks(f"loss {percent:g} %", outcome, found)


def collect_results(outcome: Outcome, percent: float) -> Found:
    """Return the results for tables and figures."""
    return Found(
        percent,
        counted={place: outcome.counted(Point(place, "departures")) for place in PLACES},
        lost={link: outcome.lost_in_blocks(link) for link in LINKS},
        delays=enclosures(outcome),
    )


def make_checks(at: str, outcome: Outcome, found: Found) -> list[Check]:
    """Check all counts per block at measuring points and links, all postcards and timestamps."""
    places = [Point(place, name) for place in PLACES for name in ("arrivals", "departures")]
    true = {place: outcome.by_block(outcome.is_at(place)) for place in PLACES}
    apart = [outcome.counted(point) - true[point.switch] for point in places]
    by_links = [found.difference(link) - found.lost[link] for link in LINKS]
    reported = {place: outcome.reported[place].arrived_us >= 0 for place in PLACES}
    missing = [np.setxor1d(np.flatnonzero(reported[near] & ~reported[far]), outcome.lost[near, far])
               for near, far in LINKS]  # fmt: skip
    empty = int(np.count_nonzero(found.counted["h2"][COMPLETE] == 0))
    return [
        Check(f"{at}: complete blocks without packets at h2", empty, 0),
        Check(f"{at}, AM-PM: max error of a count per block and place (packets)",
              abs(np.array(apart)).max(), 0),
        Check(f"{at}, AM-PM: max loss error per block and link (packets)",
              abs(np.array(by_links)).max(), 0),
        Check(f"{at}, INT-XD: packets with missing or false postcards",
              sum(int((reported[place] != outcome.is_at(place)).sum()) for place in PLACES), 0),
        Check(f"{at}, INT-XD: postcards of unknown packets, or duplicates",
              sum(outcome.reported[place].beyond for place in PLACES), 0),
        Check(f"{at}, INT-XD: losses inconsistent with link logs",
              sum(map(len, missing)), 0),
        Check(f"{at}: switch timestamps inconsistent with captures", stamps_apart(outcome), 0),
        *(Check(f"{at}, {near} to {far}: packets with a timestamp out of bounds", each.wrong, 0)
          for (near, far), each in found.delays.items()),
        Check(f"{at}: pulse timestamps inconsistent with postcards",
              pulses_apart(outcome), 0),
        *outcome.accounting.checks(at),
    ]  # fmt: skip


def make_rows(found: Found) -> list[dict[str, object]]:
    """Return a row of samples.csv for each block and link."""
    return [
        {"loss_percent": found.loss_percent, "block": block, "near": near, "far": far,
         "near_packets": int(found.counted[near][block]),
         "far_packets": int(found.counted[far][block]), "lost": int(lost)}
        for near, far in LINKS
        for block, lost in enumerate(found.lost[near, far])
    ]  # fmt: skip


def make_metrics(found: Found) -> dict[str, object]:
    """Return percentiles of the measured delays and of their bounds."""
    return {
        f"{near} to {far} (us)": {
            what: statistics.percentiles(getattr(delays, what)) for what in STYLES
        }
        for (near, far), delays in found.delays.items()
    }


def loss_table(found: Sequence[Found]) -> Table:
    """Return a table of counted and logged losses per link, with a row per loss ratio."""
    columns = ("loss", "sent", *(f"{near} - {far}: counted, log" for near, far in LINKS))
    rows = [
        (f"{each.loss_percent:g} %", int(each.counted["h1"].sum()),
         *(f"{each.difference(link).sum()}, {each.lost[link].sum()}" for link in LINKS))
        for each in found
    ]  # fmt: skip
    return table("Packets lost between neighbours (counted, logged)", columns, rows)


def delay_table(found: Sequence[Found]) -> Table:
    """Return a table of median delays and bounds over all loss ratios, with a row per link."""
    rows = []
    for near, far in LINKS:
        values = [all_delays(found, (near, far), what) for what in STYLES]
        medians = [statistics.percentiles(each).get("p50", math.nan) for each in values]
        rows.append((f"{near} - {far}", len(values[0]), *medians))
    columns = ("", "packets", "measured", "ground truth: min", "max")
    return table("Median delay measured by postcards (us)", columns, rows)


def all_delays(found: Sequence[Found], link: tuple[str, str], what: str) -> NDArray[np.int64]:
    """Return the delays of a link, or one of their bounds, over all loss ratios."""
    values: NDArray[np.int64] = np.concatenate([getattr(f.delays[link], what) for f in found])
    return values


def draw(found: Sequence[Found]) -> Figure:
    """Draw counted and logged losses, and the delays at both hosts."""
    figure, (losses, first, last) = plots.figure(3)
    draw_losses(losses, found)
    draw_delays(
        first, found, LINKS[0], {"reported": "measured (postcards)", "high": "ground truth (max)"}
    )
    first.set_xscale("symlog", linthresh=1)
    draw_delays(last, found, LINKS[-1], {
        "reported": "measured (postcards)", "low": "ground truth (min)",
        "high": "ground truth (max)",
    })  # fmt: skip
    last.set_xscale("log", subs=())
    last.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    last.xaxis.set_major_formatter("{x:g}")
    return figure


def draw_losses(axes: Axes, found: Sequence[Found]) -> None:
    """Draw mean and standard deviation of counted losses per block, and logged losses as rings."""
    for number, each in enumerate(found):
        x = np.arange(len(LINKS)) + 0.22 * (number - (len(found) - 1) / 2)
        blocks = [each.difference(link)[COMPLETE] for link in LINKS]
        axes.errorbar(
            x, [np.mean(block) for block in blocks], [np.std(block) for block in blocks],
            linestyle="", label=f"{each.loss_percent:g} %",
        )  # fmt: skip
        true = [each.lost[link][COMPLETE].mean() for link in LINKS]
        plots.ring(axes, x, true, label="ground truth" if each is found[-1] else "")
    names = [f"{near}, {far}" + "\nlossy" * ((near, far) in LOSSY) for near, far in LINKS]
    axes.set_xticks(range(len(LINKS)), names)
    axes.set_xlabel("Link (neighbours on the path)")
    axes.set_ylabel("Lost packets per block")
    axes.set_ylim(bottom=-0.5)
    plots.legend(axes, 2)


def draw_delays(
    axes: Axes, found: Sequence[Found], link: tuple[str, str], labels: Mapping[str, str]
) -> None:
    """Draw the CDFs of measured delays and of their bounds."""
    for name, label in labels.items():
        values = np.sort(all_delays(found, link, name))
        share = np.arange(1, len(values) + 1) / len(values)
        axes.step(values, share, where="post", marker="", label=label, **STYLES[name])
    axes.set_xlabel(f"Delay from {link[0]} to {link[1]} (µs)")
    axes.set_ylabel("CDF")
    plots.legend(axes)


def caption(options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    losses = ", ".join(f"{percent:g}" for percent in options.loss)
    return (
        f"One flow of {options.rate:,} packets/s through three switches, with edges on both hosts, "
        f"{plots.runs(1, options.time)} per loss ratio. (a) Loss per block and link, from counters "
        f"of neighbours, if two links lose {losses} %: mean and standard deviation over "
        f"{options.blocks} blocks of {SCHEDULE.block_us / 1e6:.2f} s. Rings show ground truth from "
        "link logs. (b) Delay from the edge of h1 to s1, measured by postcards; the end of the "
        "send call is the upper bound. (c) Delay from s3 to the edge of h2; the lower bound is "
        "the time at which the kernel of h2 received the packet, the upper bound the time at "
        "which s3 received the postcard."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
