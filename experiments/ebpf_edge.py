"""Hosts' edges and switches: do their measurements of one flow agree, and both with the truth?

A flow goes from h1 to h2 by three switches. Programs at tc of both hosts do what switches do: h1's
marks the flow in blocks (AM-PM), h2's takes the marks off, and both count; and both send a postcard
of each packet (INT-XD). So do the switches, and the same controller and the same collector read
all five. One link between switches loses packets, and so does the one to h2, behind which is no
switch; two links lose none. Truth are the logs of the links: each block must have lost just so many
packets between any two neighbours, and postcards must be missing of these very packets. Stamps of
edges are held against clocks that others read. A packet is stamped by h1's edge, and then at s1,
within its sender's call. It is stamped by h2's edge after s3 handed it over and h2's kernel took it
in, which it does before tc, and before s3 had the postcard, which has that stamp in it.
Pulses have the stamps of their postcards: at switches the same ones, at edges within the same ends.

Claim: Edges count the very packets that their neighbours count, links lose what their logs say, and
no stamp lies outside of what encloses it.

Published: intel/host-int (archived 2023): programs at tc and XDP put INT into packets and take it
off, from host to host, with numbers of their own to tell loss. No figure that could be compared.
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
    MOST_PACKETS,
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

LEAST_LEFT = 20  # packets of a block at h2, in the mean: so that chance leaves no block empty
COMPLETE = slice(1, -2)  # before these half a block is read, behind them half a one and none
STYLES: dict[str, dict[str, Any]] = {
    "told": {"color": plots.COLOURS[0], "linewidth": 2.5},
    "least": {"color": plots.COLOURS[1], "linestyle": "--"},
    "most": {"color": plots.COLOURS[2], "linestyle": ":", "linewidth": 1.5},
}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--loss", type=cli.percentage, nargs="+", metavar="PERCENT",
        help="of two of the links, one network after the other (default: 0 1 5)",
    )  # fmt: skip
    cli.add_rate_option(parser, 1000, "the flow")
    parser.add_argument(
        "--blocks", type=cli.positive_int, metavar="N",
        help="complete blocks of alternate marking, of 0.26 s, for each loss (default: 12)",
    )  # fmt: skip
    cli.add_program_option(parser, PROGRAM)


@dataclass(frozen=True)
class Found:
    """What was found at one configured loss."""

    loss_percent: float
    counted: dict[str, NDArray[np.int64]]  # by PLACES: packets of each block
    lost: dict[tuple[str, str], NDArray[np.int64]]  # by LINKS: in each block, by their logs
    delays: dict[tuple[str, str], Enclosed]  # by LINKS

    def difference(self, link: tuple[str, str]) -> NDArray[np.int64]:
        """Packets that a link lost in each block, by its two ends' counters."""
        near, far = link
        return self.counted[near] - self.counted[far]


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    if options.time == "virtual":
        raise TestbedError("--time virtual: programs in the kernel are of real time alone")
    if run.target == "bmv2":
        raise TestbedError("--target bmv2: its clock is not the one of hosts' edges")
    options.loss = options.loss or ([0, 5] if options.quick else [0, 1, 5])
    options.blocks = options.blocks or (4 if options.quick else 12)
    flow = flow_of(options)
    runs = await sweep(measured, [(flow, percent, options) for percent in options.loss], run)
    found = [each for each, _ in runs]
    return Report(
        samples=[row for each in found for row in rows_of(each)],
        checks=[check for _, held in runs for check in held],
        metrics={f"loss {each.loss_percent:g} %": metrics_of(each) for each in found},
        figure=draw(found),
        caption=caption(options),
        tables=[loss_table(found), delay_table(found)],
    )


def flow_of(options: argparse.Namespace) -> Flow:
    """What is sent: complete blocks, and half of one before and after.

    Raises TestbedError for a rate or a loss with which there is nothing to compare.
    """
    reject_rare(options.rate)
    block_s = SCHEDULE.block_us / 1e6
    count = round(options.rate * (options.blocks + 1) * block_s)
    if count > MOST_PACKETS:
        raise TestbedError(
            f"--rate {options.rate}: {count:,} packets, and no more than {MOST_PACKETS:,} can be "
            "told apart by their identification: take less, or fewer --blocks"
        )
    for percent in options.loss:
        left = options.rate * block_s * (1 - percent / 100) ** len(LOSSY)
        if left < LEAST_LEFT:
            raise TestbedError(
                f"--loss {percent:g}: of a block {left:.0f} packets arrive, in the mean: take a "
                "higher --rate, or less loss"
            )
    return Flow(1, "h1", "h2", options.rate, count, size=100)


async def measured(
    flow: Flow, percent: float, options: argparse.Namespace, run: Run
) -> tuple[Found, list[Check]]:
    """One network, two of whose links lose so much."""
    outcome = await measure(flow, percent, options.blocks, options.program, run)
    found = found_of(outcome, percent)
    return found, checks_of(f"loss {percent:g} %", outcome, found)


def found_of(outcome: Outcome, percent: float) -> Found:
    """What tables and figures need of it."""
    return Found(
        percent,
        counted={place: outcome.counted(Point(place, "departures")) for place in PLACES},
        lost={link: outcome.lost_in_blocks(link) for link in LINKS},
        delays=enclosures(outcome),
    )


def checks_of(at: str, outcome: Outcome, found: Found) -> list[Check]:
    """All exact: each block at each place and link, each postcard, and each stamp."""
    places = [Point(place, name) for place in PLACES for name in ("arrivals", "departures")]
    true = {place: outcome.by_block(outcome.is_at(place)) for place in PLACES}
    apart = [outcome.counted(point) - true[point.switch] for point in places]
    by_links = [found.difference(link) - found.lost[link] for link in LINKS]
    reported = {place: outcome.reported[place].arrived_us >= 0 for place in PLACES}
    missing = [np.setxor1d(np.flatnonzero(reported[near] & ~reported[far]), outcome.lost[near, far])
               for near, far in LINKS]  # fmt: skip
    empty = int(np.count_nonzero(found.counted["h2"][COMPLETE] == 0))
    return [
        Check(f"{at}: complete blocks of which nothing came to h2", empty, 0),
        Check(f"{at}, AM-PM: largest error of a place's block, packets",
              abs(np.array(apart)).max(), 0),
        Check(f"{at}, AM-PM: largest difference of a block to a link's log, packets",
              abs(np.array(by_links)).max(), 0),
        Check(f"{at}, INT-XD: packets without a postcard where they were",
              sum(int((reported[place] != outcome.is_at(place)).sum()) for place in PLACES), 0),
        Check(f"{at}, INT-XD: postcards of no packet, or a second time",
              sum(outcome.reported[place].beyond for place in PLACES), 0),
        Check(f"{at}, INT-XD: packets that were lost elsewhere by a link's log",
              sum(map(len, missing)), 0),
        Check(f"{at}: stamps of switches that are not their captures'", stamps_apart(outcome), 0),
        *(Check(f"{at}, {near} to {far}: packets with a stamp out of its bounds", each.wrong, 0)
          for (near, far), each in found.delays.items()),
        Check(f"{at}: pulses whose stamps are not those of their postcards",
              pulses_apart(outcome), 0),
        *outcome.accounting.checks(at),
    ]  # fmt: skip


def rows_of(found: Found) -> list[dict[str, object]]:
    """A row for each block and link."""
    return [
        {"loss_percent": found.loss_percent, "block": block, "near": near, "far": far,
         "near_packets": int(found.counted[near][block]),
         "far_packets": int(found.counted[far][block]), "lost": int(lost)}
        for near, far in LINKS
        for block, lost in enumerate(found.lost[near, far])
    ]  # fmt: skip


def metrics_of(found: Found) -> dict[str, object]:
    """Percentiles of the delays, and of what encloses them."""
    return {
        f"{near} to {far}, us": {
            what: statistics.percentiles(getattr(delays, what)) for what in STYLES
        }
        for (near, far), delays in found.delays.items()
    }


def loss_table(found: Sequence[Found]) -> Table:
    """A row for each loss: what the counters of neighbours differ by, and what the logs have."""
    columns = ("loss", "sent", *(f"{near} - {far}: counted, log" for near, far in LINKS))
    rows = [
        (f"{each.loss_percent:g} %", int(each.counted["h1"].sum()),
         *(f"{each.difference(link).sum()}, {each.lost[link].sum()}" for link in LINKS))
        for each in found
    ]  # fmt: skip
    return table("Packets lost between neighbours", columns, rows)


def delay_table(found: Sequence[Found]) -> Table:
    """A row for each link, of all losses: medians of what is told, and of what encloses it."""
    rows = []
    for near, far in LINKS:
        values = [together(found, (near, far), what) for what in STYLES]
        medians = [statistics.percentiles(each).get("p50", math.nan) for each in values]
        rows.append((f"{near} - {far}", len(values[0]), *medians))
    columns = ("", "packets", "told", "truth: at least", "at most")
    return table("Delays by postcards (medians, us)", columns, rows)


def together(found: Sequence[Found], link: tuple[str, str], what: str) -> NDArray[np.int64]:
    """Of all losses."""
    values: NDArray[np.int64] = np.concatenate([getattr(f.delays[link], what) for f in found])
    return values


def draw(found: Sequence[Found]) -> Figure:
    """What links lost, by counters of neighbours and by logs; and the delays at both hosts."""
    figure, (losses, first, last) = plots.figure(3)
    draw_losses(losses, found)
    draw_delays(first, found, LINKS[0], {"told": "by postcards", "most": "sender's call"})
    first.set_xscale("symlog", linthresh=1)
    draw_delays(last, found, LINKS[-1], {
        "told": "by postcards", "least": "to h2's kernel", "most": "to its postcard",
    })  # fmt: skip
    last.set_xscale("log", subs=())
    last.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    last.xaxis.set_major_formatter("{x:g}")
    return figure


def draw_losses(axes: Axes, found: Sequence[Found]) -> None:
    """Mean and standard deviation of complete blocks; a ring is the mean of the logs."""
    for number, each in enumerate(found):
        x = np.arange(len(LINKS)) + 0.22 * (number - (len(found) - 1) / 2)
        blocks = [each.difference(link)[COMPLETE] for link in LINKS]
        axes.errorbar(
            x, [np.mean(block) for block in blocks], [np.std(block) for block in blocks],
            linestyle="", label=f"{each.loss_percent:g} %",
        )  # fmt: skip
        true = [each.lost[link][COMPLETE].mean() for link in LINKS]
        plots.ring(axes, x, true, label="log" if each is found[-1] else "")
    names = [f"{near}, {far}" + "\nlossy" * ((near, far) in LOSSY) for near, far in LINKS]
    axes.set_xticks(range(len(LINKS)), names)
    axes.set_xlabel("Neighbours, from edge to edge")
    axes.set_ylabel("Packets lost in a block")
    axes.set_ylim(bottom=-0.5)
    plots.legend(axes, 2)


def draw_delays(
    axes: Axes, found: Sequence[Found], link: tuple[str, str], labels: Mapping[str, str]
) -> None:
    """What share of the packets took no more than that: as told, and as the truth allows."""
    for name, label in labels.items():
        values = np.sort(together(found, link, name))
        share = np.arange(1, len(values) + 1) / len(values) * 100
        axes.step(values, share, where="post", marker="", label=label, **STYLES[name])
    axes.set_xlabel(f"Delay from {link[0]} to {link[1]} (µs)")
    axes.set_ylabel("Packets (%)")
    plots.legend(axes)


def caption(options: argparse.Namespace) -> str:
    """What the figure shows."""
    losses = ", ".join(f"{percent:g}" for percent in options.loss)
    return (
        f"One flow of {options.rate:,} packets/s through three switches, with edges at both hosts, "
        f"{plots.runs(1, options.time)} for each loss. (a) What the counters of neighbours differ "
        f"by where two links lose {losses} %: mean and standard deviation of "
        f"{options.blocks} blocks of {SCHEDULE.block_us / 1e6:.2f} s; rings: by the links' logs. "
        "(b) From h1's edge to s1, by their postcards, which may be up to what the sender's call "
        "took. (c) From s3 to h2's edge: not before h2's kernel had the packet, nor after s3 "
        "had the postcard."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
