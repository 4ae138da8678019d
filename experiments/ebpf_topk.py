"""The largest flows, found by eBPF: how well, in how much memory, and at what cost a packet?

Packets of many flows by Zipf's law, or of a capture (--pcap), go through the program that hosts
attach to their devices. HeavyKeeper is asked for the top flows in fixed memory, and must never have
a count above the truth. FREQUENT counts basic windows exactly and keeps the first k flows of each:
over the sliding window every flow with more than twice its delta must be reported, and none with
less than delta. What both cost is measured in turns with a program that does nothing, and with
counting in the kernel's own hash map. Frames come from BPF_PROG_TEST_RUN: there is no card, and
no driver, whose share of a packet's cost is not in these figures.

Claim: In 64 KB 99 % of the top 20 are found; FREQUENT keeps its promise for every flow; both cost
at most 0.6 of what a hash map does, each over a program that does nothing.

Published: Golab et al. (IMC 2003): frequent items over sliding windows, found without missing those
above twice an error that is known. Yang et al. (USENIX ATC 2018): HeavyKeeper, in small memory.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from ebpf.loader import load
from ebpf.statistics import hashes
from ebpf.statistics.flows import Flows
from ebpf.statistics.frequent import Frequent
from ebpf.statistics.heavykeeper import columns_in
from ebpf.statistics.offer import offering
from ebpf.statistics.program import HEAVY_BYTES, Kept, Setting, counting
from experiments.shared.xdp.settings import require_real_time
from experiments.shared.xdp.streams import EXPONENT, Stream, captured, zipf
from telemark.errors import InvalidRunError
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run

HASH_MAP = "ebpf/statistics/hash_map.bpf.c"
FLOWS = 100_000
TOP = 20
MOST_COST = 0.6  # each over a program that does nothing
COST = f"cost beside a hash map's, at most {MOST_COST:g}"
MEMORY_KB = (4, 8, 16, 32, 64, 128)
HEAVY_KB = HEAVY_BYTES >> 10
LISTED = (5, 10, 20, 50, 100, 200)
BASIC_WINDOWS = (40, 20, 10)  # that make up the sliding window
WHICH = {"empty": "nothing", "totals": "packets, bytes", "heavy": "HeavyKeeper",
         "exact": "FREQUENT", "hash": "hash map"}  # fmt: skip


class Found(NamedTuple):
    """What was found of one stream by one way, and what it took."""

    method: str
    memory_kb: float
    listed: int
    windows: int
    run: int
    recall: float  # of the top flows, or of those above delta
    precision: float
    error: float  # mean, of the counts of flows that were found, as a part of them
    delta: float  # part of all packets
    wrong: int  # counts above the truth, and promises that were broken


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pcap", type=Path, metavar="FILE", help="packets, instead of Zipf's law")
    parser.add_argument(
        "--runs", type=cli.positive_int, metavar="N", help="of HeavyKeeper (default: 50)"
    )
    parser.add_argument(
        "--packets", type=cli.positive_int, metavar="N", help="of a window (default: 200000)"
    )
    parser.add_argument(
        "--rounds", type=cli.positive_int, metavar="N",
        help="in which costs are measured (default: 11)",
    )  # fmt: skip


def experiment(options: argparse.Namespace, run: Run) -> Report:
    require_real_time(options)
    options.runs = options.runs or (10 if options.quick else 50)
    options.packets = options.packets or (50_000 if options.quick else 200_000)
    options.rounds = max(options.rounds or (5 if options.quick else 11), 5)
    rng = np.random.default_rng(run.seed)
    whole = captured(options.pcap, 2 * options.packets) if options.pcap else None
    found = [
        kept_heavy(memory, number, streamed(whole, options.packets, rng), run.seed)
        for memory in MEMORY_KB
        for number in range(options.runs if memory == HEAVY_KB else options.runs // 5)
    ]
    found += frequent(streamed(whole, 2 * options.packets, rng), run.seed)
    costs = measure(streamed(whole, options.packets, rng), options, run.seed)
    named = "HeavyKeeper", HEAVY_KB
    standard = [each for each in found if (each.method, each.memory_kb) == named]
    over = {name: costs[name] - costs["empty"] for name in WHICH}
    beside = {name: beside_hash_map(name, over) for name in ("heavy", "exact")}
    return Report(
        samples=[each._asdict() for each in found],
        checks=checks(found, standard, beside, bool(options.pcap)),
        metrics={f"{name}_ns_a_packet": float(np.median(each)) for name, each in costs.items()},
        figure=draw(found, costs),
        caption=caption(options, len(costs["empty"])),
        tables=[cost_table(costs, over)],
    )


def streamed(whole: Stream | None, packets: int, rng: np.random.Generator) -> Stream:
    """So many packets, of Zipf's law anew, or the first ones of the capture."""
    if whole is None:
        return zipf(packets, FLOWS, rng)
    return Stream(whole.numbers[:packets], whole.flows, whole.lengths[:packets])


def kept_heavy(memory_kb: int, number: int, stream: Stream, seed: int) -> Found:
    """One window of HeavyKeeper's, whose hashes and dice are this run's own."""
    setting = Setting(
        Kept.HEAVY_KEEPER, columns=columns_in(memory_kb << 10), seed=seed * 1000 + number
    )
    with offering(stream.rows) as offer, counting(setting) as statistics:
        offer.through(statistics.at_xdp, len(stream.numbers))
        heavy = statistics.flip().heavy
    assert heavy is not None
    counts = stream.counts
    true = stream.by_key(counts)
    least = np.sort(counts)[::-1][:TOP].min()
    top = heavy.top(TOP).as_dict()
    of_top = [true[key] for key in top]
    right = sum(count >= least for count in of_top)
    errors = [1 - found / true[key] for key, found in top.items()]
    wrong = sum(found > true[key] for key, found in heavy.as_dict().items())
    return Found("HeavyKeeper", memory_kb, TOP, 1, number, right / min(TOP, len(true)),
                 right / len(top), float(np.mean(errors)), 0, wrong)  # fmt: skip


def frequent(stream: Stream, seed: int) -> list[Found]:
    """FREQUENT over the last half of a stream, of several lists and basic windows."""
    total = len(stream.numbers)
    parts = np.array_split(np.arange(total), 2 * max(BASIC_WINDOWS))
    kept: list[tuple[Flows, int]] = []
    with offering(stream.rows) as offer, counting(Setting(Kept.COUNTERS, seed=seed)) as statistics:
        for part in parts:
            offer.through(statistics.at_xdp, len(part), start=int(part[0]))
            window = statistics.flip()
            assert window.counted is not None
            kept.append((window.counted, window.totals.uncounted))
    within = stream.numbers[parts[max(BASIC_WINDOWS)][0] :]
    counts = np.bincount(within, minlength=len(stream.flows)).astype(np.int64)
    return [
        summarised(kept, listed, windows, stream.by_key(counts))
        for windows in BASIC_WINDOWS
        for listed in LISTED
    ]


def summarised(
    kept: Sequence[tuple[Flows, int]], listed: int, windows: int, true: dict[bytes, int]
) -> Found:
    """What FREQUENT says at the end, of basic windows made of so many of the kernel's."""
    algorithm = Frequent(listed, windows)
    each = max(BASIC_WINDOWS) // windows
    for first in range(0, len(kept), each):
        flows = sum((flows for flows, _ in kept[first + 1 : first + each]), start=kept[first][0])
        algorithm.add(flows, sum(missed for _, missed in kept[first : first + each]))
    reported, delta = algorithm.reported(), algorithm.delta
    above = [key for key, count in true.items() if count > delta]
    wrong = sum(count > 2 * delta and key not in reported for key, count in true.items())
    wrong += sum(not reported.get(key, 0) <= count <= algorithm.at_most(key)
                 for key, count in true.items())  # fmt: skip
    wrong += sum(true.get(key, 0) <= delta for key in reported)
    errors = [1 - count / true[key] for key, count in reported.items()]
    memory_kb = algorithm.pairs * 48 / 1024  # a key and a count
    return Found("FREQUENT", round(memory_kb, 2), listed, windows, 0,
                 len(reported) / max(len(above), 1), 1.0 if reported else 0.0,
                 float(np.mean(errors or [0])), delta / sum(true.values()), wrong)  # fmt: skip


def measure(stream: Stream, options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """What a packet takes in ns, (rounds,), by each way, in turns on one core."""
    rows = stream.rows
    rows["length"] = 64
    costs: dict[str, list[float]] = {name: [] for name in WHICH}
    kinds = {"totals": Kept(0), "heavy": Kept.HEAVY_KEEPER, "exact": Kept.COUNTERS}
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        with ExitStack() as stack:
            offer = stack.enter_context(offering(rows))
            ways = {name: stack.enter_context(counting(Setting(kept, seed=seed)))
                    for name, kept in kinds.items()}  # fmt: skip
            for _ in range(options.rounds):
                costs["empty"].append(offer.through(None, len(rows)))
                for name, statistics in ways.items():
                    costs[name].append(offer.through(statistics.at_xdp, len(rows)))
                    statistics.flip()
                constants = {"hash_factors": hashes.factors(seed)}
                with load(HASH_MAP, constants, {"flows": FLOWS}) as whole:
                    costs["hash"].append(offer.through(whole.programs["by_hash_map"], len(rows)))
    finally:
        os.sched_setaffinity(0, before)
    return {name: np.array(each) for name, each in costs.items()}


def beside_hash_map(name: str, over: dict[str, Any]) -> float:
    """A way's cost by a hash map's: the median of rounds. Raises TestbedError where they differ."""
    if over["hash"].min() <= 0:
        raise InvalidRunError("in a round a hash map cost no more than nothing")
    ratios = over[name] / over["hash"]
    if ratios.min() <= MOST_COST < np.median(ratios):
        raise InvalidRunError(
            f"rounds differ on whether {WHICH[name]} costs at most {MOST_COST:g} of a "
            f"hash map: from {ratios.min():.2g} to {ratios.max():.2g}"
        )
    return float(np.median(ratios))


def checks(
    found: Sequence[Found], standard: Sequence[Found], beside: dict[str, float], is_pcap: bool
) -> list[Check]:
    """What is claimed; of a capture alone what holds for any."""
    recall = float(np.mean([each.recall for each in standard]))
    by = {name: [each for each in found if each.method == name]
          for name in ("HeavyKeeper", "FREQUENT")}  # fmt: skip
    exact = [
        Check("HeavyKeeper: counts above the truth", sum(e.wrong for e in by["HeavyKeeper"]), 0),
        Check("FREQUENT: flows of which a promise was broken",
              sum(e.wrong for e in by["FREQUENT"]), 0),
    ]  # fmt: skip
    if is_pcap:
        return exact
    return [
        *exact,
        Check("HeavyKeeper: part of the top 20 found in 64 KB, at least 0.99", recall, 1, 0.01),
        Check(f"HeavyKeeper: {COST}", beside["heavy"], 0, MOST_COST),
        Check(f"FREQUENT: {COST}", beside["exact"], 0, MOST_COST),
    ]


def cost_table(costs: dict[str, Any], over: dict[str, Any]) -> Table:
    """What a packet takes by each way."""
    rows = [
        [label, f"{np.median(costs[name]):.1f}", f"{np.median(over[name]):.1f}",
         f"{np.std(over[name]):.1f}"]
        for name, label in WHICH.items()
    ]  # fmt: skip
    return table("ns a packet", ["program", "whole", "over nothing", "s.d."], rows)


def draw(found: Sequence[Found], costs: dict[str, Any]) -> Figure:
    """Top flows by memory; delta by the length of lists; costs."""
    figure, (left, middle, right) = plots.figure(3)
    heavy = [each for each in found if each.method == "HeavyKeeper"]
    for what, label in (("recall", "found"), ("error", "count too low by")):
        means = [np.mean([getattr(e, what) for e in heavy if e.memory_kb == memory])
                 for memory in MEMORY_KB]  # fmt: skip
        left.plot(MEMORY_KB, means, label=label)
    left.set(xlabel="HeavyKeeper's memory (KB)", ylabel=f"Part, of the top {TOP}", xscale="log")
    left.set_xticks(MEMORY_KB, [*map(str, MEMORY_KB)])
    left.minorticks_off()
    for windows in BASIC_WINDOWS:
        each = [e for e in found if e.method == "FREQUENT" and e.windows == windows]
        middle.plot([e.listed for e in each], [2 * e.delta for e in each],
                    label=f"{windows} basic windows")  # fmt: skip
    middle.set(xlabel="Flows in a summary, k", ylabel="Sure to be reported: 2δ / N",
               xscale="log", yscale="log")  # fmt: skip
    middle.set_xticks(LISTED, [*map(str, LISTED)])
    middle.minorticks_off()
    draw_costs(right, costs)
    plots.legend(left, 1)
    plots.legend(middle, 1)
    return figure


def draw_costs(axes: Axes, costs: dict[str, Any]) -> None:
    """Bars of what a packet takes beside a program that does nothing."""
    names = [name for name in WHICH if name != "empty"]
    over = [costs[name] - costs["empty"] for name in names]
    axes.barh([WHICH[name] for name in names], [np.median(each) for each in over],
              xerr=[np.std(each) for each in over], color=plots.COLOURS[0])  # fmt: skip
    axes.set(xlabel="CPU time of a packet (ns),\nover an empty program's")
    axes.invert_yaxis()


def caption(options: argparse.Namespace, rounds: int) -> str:
    """What the figure shows."""
    stream = (
        f"packets of {options.pcap.name}" if options.pcap
        else f"packets of {FLOWS:,} flows by Zipf's law ({EXPONENT})"
    )  # fmt: skip
    return (
        f"{options.packets:,} {stream} a window, through eBPF programs by BPF_PROG_TEST_RUN. (a) "
        f"HeavyKeeper: means of {options.runs} runs at 64 KB and of a fifth of them elsewhere. (b) "
        "FREQUENT: the part of all packets that a flow needs to be reported for sure. (c) Costs, "
        f"medians and standard deviations of {rounds} rounds in turns on one core; no driver's "
        "work is in them."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
