"""Published TNA programs: does minip4 reproduce their state and their published accuracy?

minip4 compiles and runs the TNA programs of three papers unchanged. They are not part of Telemark:
clone their repositories into one folder, and pass it with --programs. FCM-Sketch counts the packets
of flows. RTT matches TCP data packets with their ACKs. ConQuest marks packets of flows that have
many bytes in the queue. Its published template exchanges two indices, so the experiment also runs a
repaired ConQuest. Each program gets a generated trace. All of its counters, table cells and
verdicts must equal a model in numpy, which shares no code with the switch. Then the published
metric is computed from the state of the program, and shown next to the number in the paper. The
traces of the papers are not known, so this comparison has no check.

Claim: The state of each program equals the model. The number of flows that FCM-Sketch estimates
follows the theory of linear counting.

Published: Song et al. (CoNEXT 2020): errors are 50 % to 80 % smaller than those of Count-Min and
other sketches. Chen et al. (SPIN 2020): 99 % of the RTT samples of a 10 Gb/s campus link with 4 MB.
Chen et al. (CoNEXT 2019): 90 % precision with less than 65 KB.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from experiments.shared.tna import conquest, fcm, rtt
from experiments.shared.tna.fetched import folder_with
from experiments.shared.tna.published_cases import (
    CONQUEST,
    FCM,
    FILES,
    REPAIRED,
    RTT,
    SOURCES,
    Finding,
    measure,
    settings,
)
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep

FLOWS, QUICK_FLOWS = (25_000, 50_000, 100_000, 200_000), (50_000, 100_000)
REDUCTION = (0.5, 0.8)  # published range
# Published: 4 MB for a link of 10 Gb/s. A quarter of the memory gets a quarter of the load.
LINK_GBPS = 10 * rtt.MEMORY_MB / 4
LOADS = tuple(LINK_GBPS * part for part in (0.1, 0.2, 0.5, 1, 2))
QUICK_LOADS = (LINK_GBPS * 0.1, LINK_GBPS)
CAPTURED = 0.99  # published
MEMORIES, QUICK_MEMORIES = (2, 4, 16, 64), (4, 64)  # KiB
PRECISION = 0.9  # published, with at most MEMORY_KIB
MEMORY_KIB = 64
MAX_DEVIATIONS = 4  # of the estimated number of flows


def add_options(parser: argparse.ArgumentParser) -> None:
    # argparse also checks the default, so a missing option is reported before the run starts
    parser.add_argument(
        "--programs", type=published_programs, default="", metavar="FOLDER",
        help="folder with clones of the repositories of the published programs (required)",
    )  # fmt: skip


def published_programs(text: str) -> Path:
    """Parse a folder with the published programs."""
    return folder_with(text, FILES, SOURCES)


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    cli.require_time(options, "virtual", "the model needs the exact times of packets")
    flows, loads, memories = (
        (QUICK_FLOWS, QUICK_LOADS, QUICK_MEMORIES) if options.quick else (FLOWS, LOADS, MEMORIES)
    )
    chosen = settings(str(options.programs), flows, loads, memories)
    results = await sweep(measure, [(setting,) for setting in chosen], run)
    found = [finding for findings in results for finding in findings]
    return Report(
        samples=[asdict(finding) for finding in found],
        checks=make_checks(found),
        figure=draw(found),
        caption=caption(options),
        tables=[published_table(found)],
    )


def values(found: Sequence[Finding], program: str, metric: str) -> dict[float, float]:
    """Return a map from each parameter of a program to the value of a metric."""
    return {each.parameter: each.value for each in found
            if (each.program, each.metric) == (program, metric)}  # fmt: skip


def reductions(found: Sequence[Finding]) -> dict[float, float]:
    """Return by how much the error is smaller than that of Count-Min, per number of flows."""
    errors, count_min = values(found, FCM, "error"), values(found, FCM, "Count-Min error")
    return {flows: 1 - error / count_min[flows] for flows, error in errors.items()}


def make_checks(found: Sequence[Finding]) -> list[Check]:
    """Compare the state with the model, and the estimated number of flows with theory.

    Published values have no check, because the traces of the papers are not known.
    """
    checks = []
    for flows, different in values(found, FCM, "different").items():
        checks.append(Check(f"{FCM}, {flows:,.0f} flows: counters unlike the model", different, 0))
        deviation = values(found, FCM, "cardinality deviation")[flows]
        error = values(found, FCM, "cardinality error")[flows]
        name = f"{FCM}, {flows:,.0f} flows: error of the number of flows (ratio)"
        checks.append(Check(name, error, 0, MAX_DEVIATIONS * deviation))
    checks += [
        Check(f"{RTT}, {load:g} Gb/s: cells and verdicts unlike the model", different, 0)
        for load, different in values(found, RTT, "different").items()
    ]
    checks += [
        Check(f"{program}, {memory:g} KiB: cells and marks unlike the model", different, 0)
        for program in (CONQUEST, REPAIRED)
        for memory, different in values(found, program, "different").items()
    ]
    complete = sum(values(found, FCM, "complete long flows").values())
    return [
        *checks,
        Check(f"{FCM}: flows longer than {fcm.LIMIT:,} packets that are counted completely",
              complete, 0),
    ]  # fmt: skip


def published_table(found: Sequence[Finding]) -> Table:
    """Return a table of published and measured numbers."""
    reduced, captured = reductions(found), values(found, RTT, "captured")
    rows: list[tuple[object, ...]] = [
        (FCM, f"{flows:,.0f} flows", "reduction of the error of Count-Min",
         f"{REDUCTION[0]:g} to {REDUCTION[1]:g}", value) for flows, value in reduced.items()
    ]  # fmt: skip
    rows += [
        (RTT, f"{load:g} Gb/s per {rtt.MEMORY_MB:g} MB", "captured samples",
         f"{CAPTURED:g}" if load == LINK_GBPS else "", value) for load, value in captured.items()
    ]  # fmt: skip
    for program in (CONQUEST, REPAIRED):
        precision = values(found, program, "precision")
        for memory, recall in values(found, program, "recall").items():
            where = f"{memory:g} KiB"
            published = f"{PRECISION:g}" if memory == MEMORY_KIB else ""
            value = precision.get(memory, "no packet marked")
            rows += [(program, where, "precision of marks", published, value),
                     (program, where, "recall of marks", "", recall)]  # fmt: skip
    columns = ("program", "trace or memory", "metric", "published", "measured")
    return table("Published and measured", columns, rows)


def draw(found: Sequence[Finding]) -> Figure:
    """Draw the errors of FCM-Sketch, their reduction, captured RTT samples, and right marks."""
    figure, (errors, reduced, captured, marks) = plots.figure(4, height_in=3.0)
    _line(errors, values(found, FCM, "error"), 0, FCM)
    _line(errors, values(found, FCM, "Count-Min error"), 1, "Count-Min")
    errors.set(yscale="log", ylabel="Average relative error")
    plots.legend(errors)
    reduced.axhspan(*REDUCTION, color="0.85", label="published")
    _line(reduced, reductions(found), 0, "measured")
    reduced.set(ylim=(0, 1), ylabel="Reduction of the error (ratio)")
    for axes in (errors, reduced):
        axes.set(xscale="log", xlabel="Flows (thousands)")
        ticks = [*values(found, FCM, "error")]
        axes.set_xticks(ticks, [f"{tick / 1000:g}" for tick in ticks])
    _line(captured, values(found, RTT, "captured"), 0, "measured")
    plots.ring(captured, [LINK_GBPS], [CAPTURED], "published")
    captured.set(xscale="log", xlabel="Load per MB of tables (Gb/s)", ylim=(0.9, 1.005),
                 ylabel="Captured RTT samples (ratio)")  # fmt: skip
    loads = [*values(found, RTT, "captured")]
    captured.set_xticks(loads, [f"{load:g}" for load in loads])
    _line(marks, values(found, REPAIRED, "precision"), 0, "precision, repaired")
    _line(marks, values(found, REPAIRED, "recall"), 1, "recall, repaired")
    _line(marks, values(found, CONQUEST, "recall"), 3, "recall, as published")
    plots.ring(marks, [MEMORY_KIB], [PRECISION], "published precision")
    marks.set(xscale="log", xlabel="Memory (KiB)", ylim=(-0.05, 1.05),
              ylabel="Precision, recall")  # fmt: skip
    memories = [*values(found, REPAIRED, "recall")]
    marks.set_xticks(memories, [f"{memory:g}" for memory in memories])
    for axes in (errors, reduced, captured, marks):
        axes.minorticks_off()
    for axes in (reduced, captured, marks):
        plots.legend(axes)
    return figure


def _line(axes: Axes, points: dict[float, float], look: int, label: str) -> None:
    axes.plot(np.array([*points]), np.array([*points.values()]), color=plots.COLOURS[look],
              marker=plots.MARKERS[look], label=label)  # fmt: skip


def caption(options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    return (
        f"Published programs on minip4, {plots.runs(1, options.time)}. (a) Average relative error "
        "of the size of a flow, by FCM-Sketch and by a Count-Min sketch with the same memory "
        f"({fcm.MEMORY_BYTES / 1e6:.2g} MB, {fcm.COUNT_MIN_ROWS} rows). Flow sizes are "
        f"Zipf-distributed (exponent {fcm.ZIPF:g}, {fcm.PACKETS_PER_FLOW} packets per flow). (b) "
        "How much smaller the error of FCM-Sketch is; grey: published range. (c) RTT samples that "
        f"the tables ({rtt.MEMORY_MB:g} MB) capture, by load. The ring is the published value (4 MB"
        " for a link of 10 Gb/s), at the load of a full link. (d) ConQuest: precision and recall "
        f"of marks, for packets that wait at least {conquest.MIN_DELAY_NS / 1000:.0f} µs and whose "
        f"flow has at least {conquest.THRESHOLD >> 10} KiB in the queue. The published template "
        "exchanges two indices. The ring is the published precision."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
