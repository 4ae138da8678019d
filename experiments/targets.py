"""minip4 and bmv2: do both targets make the same counts, reports, frames and memory?

Each system gets the same packets on both targets, with the same programs, controllers and seeds. A
flow with double marking (AM-PM) crosses three switches over lossy links: the same packets must be
lost, and every switch must count the same packets and bytes. All INT modes report packets that
cross three switches: reports must be equal, except for values that depend on time. A switch writes
records of TCP segments over RoCEv1 and RoCEv2: frames, with their iCRC, and memory must be equal. A
DTA reporter and a translator fill the stores of all five primitives: their memory must be equal.
Captures, link logs and models of the memory are ground truth. Only the delay of packets may differ.

Claim: With the same packets, counts, INT reports, RoCE frames and DTA memory are equal on minip4
and bmv2, byte by byte.

Published: nothing: bmv2 is the reference implementation of v1model, and its results are ground
truth here.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.table import Table

from controllers.ampm.records import Point
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Bounds, Method
from experiments.shared.ampm.delays import measure_delays
from experiments.shared.ampm.error_bounds import Workload, machine_for
from experiments.shared.ampm.measurement import (
    MIN_BLOCK_US,
    Outcome,
    Setting,
    add_common_options,
    flow_count,
    measure,
    shortest_schedule,
)
from experiments.shared.both_targets import dta_memory, int_reports, outputs, roce_frames
from experiments.shared.both_targets.outputs import Outputs
from telemark.errors import note_invalid
from telemark.results import plots, statistics
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.traffic.flows import Flow
from topologies.basic import Line

TARGETS = ("minip4", "bmv2")
PATH = ("s1", "s2", "s3")
POINTS = [Point(switch, name) for switch in PATH for name in ("arrivals", "departures")]
LINKS = {
    "s1-s2": (Point("s1", "departures"), Point("s2", "arrivals")),
    "s2-s3": (Point("s2", "departures"), Point("s3", "arrivals")),
}
WHOLE = (POINTS[0], POINTS[-1])
LINK_DELAY_US = 1000
MACHINE_US = 60_000  # delay that a loaded machine may add to a minip4 path
PACKETS, QUICK_PACKETS = 400, 80  # number of packets of each system except AM-PM
ROCE, QUICK_ROCE = (1, 2), (2,)  # RoCE versions
ICRCS = 25  # number of RoCE frames in the figure


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--loss", type=cli.percentage, default=5, metavar="PERCENT",
        help="loss of each link between switches (default: %(default)s)",
    )  # fmt: skip
    cli.add_rate_option(parser, 1000, "the flow, or less if bmv2 cannot sustain it")
    parser.add_argument(
        "--blocks", type=cli.positive_int, metavar="N",
        help="complete blocks per target (default: 20)",
    )  # fmt: skip
    add_common_options(parser)


@dataclass(frozen=True)
class TargetRun:
    """Measurements and ground truth of one target."""

    target: str
    seed: int
    outcome: Outcome
    flow: Flow
    outputs: Sequence[Outputs] = ()  # outputs of the systems other than AM-PM

    @property
    def counts(self) -> dict[Point, tuple[int, int]]:
        """Packets and bytes that each point counted in all blocks, including partial blocks."""
        records = [report.records[self.flow.id] for report in self.outcome.reports.values()]
        found = {}
        for point in POINTS:
            known = [record for of in records if (record := of[point]) is not None]
            found[point] = sum(r.packets for r in known), sum(r.bytes for r in known)
        return found

    @property
    def lost(self) -> dict[str, NDArray[np.int64]]:
        """For each link, from its log: sequence numbers of dropped packets, in ascending order."""
        return {
            name: np.sort(self.outcome.dropped[self.flow.id, first.switch, second.switch])
            for name, (first, second) in LINKS.items()
        }

    @property
    def delays_us(self) -> NDArray[np.float64]:
        """Host-to-host delays."""
        received = self.outcome.sent[self.flow.id].received
        return np.asarray((received["received_ns"] - received["sent_ns"]) / 1000)


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    on_bmv2 = replace(run, target=cli.available_target("bmv2", options.time))
    options.target = " and ".join(TARGETS)
    options.blocks = options.blocks or (5 if options.quick else 20)
    options.seeds = options.seeds or 1
    packets, roce = (QUICK_PACKETS, QUICK_ROCE) if options.quick else (PACKETS, ROCE)
    anyhow = make_setting(options, Schedule(MIN_BLOCK_US), Bounds())
    machine = await machine_for(Workload.of(anyhow), MACHINE_US, options, on_bmv2)
    bounds = machine.bounds(len(LINKS) * LINK_DELAY_US)
    setting = make_setting(options, shortest_schedule([Method.DOUBLE], bounds), bounds)
    (flow,) = setting.watched
    found: list[TargetRun] = []
    for seed in range(options.seed, options.seed + options.seeds):
        for target in TARGETS:
            # Both networks have the same name, so that links have the same seeds. Therefore each
            # network needs its own folder.
            folder = run.folder / f"{target}-{seed}"
            folder.mkdir()
            seeded = replace(run, target=target, folder=folder, seed=seed)
            outcome = await measure(setting, seeded)
            reject_unread(target, outcome)
            others = await measure_others(packets, roce, seeded)
            found.append(TargetRun(target, seed, outcome, flow, others))
        for ours, theirs in zip(found[-2].outputs, found[-1].outputs, strict=True):
            outputs.reject_drops(ours, theirs)
    return Report(
        samples=[row for each in found for row in make_rows(each)],
        checks=[*compare_targets(found), *(c for each in found for c in make_checks(each))],
        metrics={"block_us": setting.schedule.block_us, **make_metrics(found)},
        figure=draw(found),
        caption=caption(setting, options, packets),
        machine_columns=("measured_delay_us", "min_delay_us", "max_delay_us"),
        tables=[summary_table(found), outputs_table(found)],
    )


async def measure_others(packets: int, roce: Sequence[int], run: Run) -> list[Outputs]:
    """Return the outputs of INT, of these RoCE versions, and of DTA."""
    return [
        await int_reports.measure(packets, run),
        *[await roce_frames.measure(version, packets, run) for version in roce],
        await dta_memory.measure(packets, run),
    ]


def reject_unread(target: str, outcome: Outcome) -> None:
    """Make the run inconclusive if a switch could not be read, so that counts are incomplete."""
    problems = [p for report in outcome.reports.values() for p in report.problems]
    if problems:
        note_invalid(f"{target}: {problems[0]}")


def make_setting(options: argparse.Namespace, schedule: Schedule, bounds: Bounds) -> Setting:
    """Return one flow over lossy links."""
    count = flow_count(options.rate, options.blocks, schedule)
    return Setting(
        name="line",
        topo=Line(switches=len(PATH), loss_probability=options.loss / 100, delay_us=LINK_DELAY_US),
        path=PATH,
        watched={Flow(1, "h1", "h2", options.rate, count): Method.DOUBLE},
        schedule=schedule,
        bounds=bounds,
        blocks=options.blocks,
        stamped=True,
        program=options.program,
    )


def make_rows(found: TargetRun) -> list[dict[str, object]]:
    """Return rows of samples.csv: loss and delay of each complete block."""
    outcome, flow = found.outcome, found.flow
    delays = {
        sample.block: sample for sample in measure_delays(outcome, flow, Method.DOUBLE, WHOLE)
    }
    rows = []
    for number, block in enumerate(outcome.blocks):
        first, last = (outcome.record(flow, point, block) for point in WHOLE)
        delay = delays.get(block)
        true_us = delay.true_us if delay else None
        within_us = delay.within_us if delay else 0.0
        rows.append(
            {
                "target": found.target,
                "seed": found.seed,
                "block": number,
                "measured_loss": first.packets - last.packets if first and last else None,
                "true_loss": int(outcome.truths[flow.id].lost(*WHOLE, range(block, block + 1))[0]),
                "measured_delay_us": delay.measured_us if delay else None,
                "min_delay_us": None if true_us is None else true_us - within_us,
                "max_delay_us": None if true_us is None else true_us + within_us,
            }
        )
    return rows


def compare_targets(found: Sequence[TargetRun]) -> list[Check]:
    """Check that lost packets, counts and outputs are the same on both targets."""
    checks = []
    for ours, theirs in zip(found[::2], found[1::2], strict=True):
        at = f"seed {ours.seed}"
        for name in LINKS:
            differing = np.setxor1d(ours.lost[name], theirs.lost[name])
            what = f"{at}: packets dropped by {name} on one target only"
            checks.append(Check(what, len(differing), 0))
        differ = [point for point in POINTS if ours.counts[point] != theirs.counts[point]]
        what = f"{at}: points with different counts on both targets"
        checks.append(Check(what, len(differ), 0))
        for each in zip(ours.outputs, theirs.outputs, strict=True):
            checks += outputs.compare(at, *each)
    return checks


def make_checks(found: TargetRun) -> list[Check]:
    """Check each target: loss and delay of every block, and the packet accounting."""
    at, rows = f"{found.target}, seed {found.seed}", make_rows(found)
    wrong = sum(row["measured_loss"] != row["true_loss"] for row in rows)
    counted = found.counts[POINTS[0]][0]
    return [
        Check(f"{at}: blocks with wrong loss", wrong, 0),
        Check(f"{at}: blocks with wrong delay", count_delay_mismatches(rows), 0),
        Check(f"{at}: packets counted at the first point", counted, found.flow.count),
        *found.outcome.checks(at),
        *(check for each in found.outputs for check in outputs.check(at, each)),
    ]


def count_delay_mismatches(rows: Sequence[Mapping[str, Any]]) -> int:
    """Return how many blocks have a wrong delay: more than a microsecond outside of the true range.

    Blocks with a delay but no delivered pulse count, too, and blocks with a pulse but no delay.
    """
    wrong = 0
    for row in rows:
        low, delay, high = (row[f"{name}_delay_us"] for name in ("min", "measured", "max"))
        if delay is None or low is None:
            wrong += delay is not low
        else:
            wrong += not low - 1 <= delay <= high + 1
    return wrong


def make_metrics(found: Sequence[TargetRun]) -> dict[str, object]:
    """Return percentiles of the delays on each target, in us."""
    return {
        target: statistics.percentiles(
            np.concatenate([each.delays_us for each in found if each.target == target])
        )
        for target in TARGETS
    }


def summary_table(found: Sequence[TargetRun]) -> Table:
    """Return a table with a row per run."""
    rows = []
    for each in found:
        middle, late = np.percentile(each.delays_us, [50, 99])
        counts = [each.counts[point][0] for point in POINTS]
        lost = sum(map(len, each.lost.values()))
        rows.append((each.target, each.seed, *counts, lost, float(middle), float(late)))
    columns = ("target", "seed", *(f"{p.switch} {p.name}" for p in POINTS), "lost by links",
               "median (us)", "p99 (us)")  # fmt: skip
    return table("Packets counted at each point, and host-to-host delay", columns,
                 rows)  # fmt: skip


def outputs_table(found: Sequence[TargetRun]) -> Table:
    """Return a table of the outputs. Each row shows the CRC-32 of the bytes of one part."""
    parts: dict[tuple[str, str], list[bytes]] = {}
    for each in found:
        for output in each.outputs:
            for name, part in output.parts.items():
                parts.setdefault((output.system, name), []).append(b"".join(part.measured))
    columns = ("system", "output", *(f"{what}, {each.target} (seed {each.seed})"
               for each in found for what in ("bytes", "CRC-32")))  # fmt: skip
    rows = [
        (*key, *(cell for each in contents for cell in (len(each), f"{zlib.crc32(each):08x}")))
        for key, contents in parts.items()
    ]
    return table("Outputs without times", columns, rows)


def draw(found: Sequence[TargetRun]) -> Figure:
    """Draw one subplot per system, with the values of minip4 as points and of bmv2 as rings."""
    figure, (ampm, int_, roce, dta) = plots.figure(4)
    for number, target in enumerate(TARGETS):
        first = next(each for each in found if each.target == target)
        draw_values(ampm, [first.counts[point][0] for point in POINTS], number)
        reports, *records, stores = first.outputs
        of_modes = {name.partition(", ")[2]: part for name, part in reports.parts.items()
                    if name.startswith("reports")}  # fmt: skip
        draw_values(int_, [sum(map(len, part.measured)) for part in of_modes.values()], number)
        int_.set_xticks(range(len(of_modes)), list(of_modes))
        for colour, each in enumerate(records):
            frames = each.parts["frames"].measured[:ICRCS]
            icrcs = [int.from_bytes(frame[-4:], "little") / 2**32 for frame in frames]
            version = each.system.removeprefix("RoCE")
            label = version if number == 0 else target if colour == 0 else "_"
            draw_values(roce, icrcs, number, colour, label)
        memory = [b"".join(stores.parts[name].measured) for name in dta_memory.STORES]
        draw_values(dta, [len(each) - each.count(0) for each in memory], number)
    ampm.set_xticks(range(len(POINTS)), [f"{p.switch}\n{p.name[:3]}." for p in POINTS])
    ampm.set_ylabel("AM-PM counts (packets)")
    int_.set_ylabel("INT reports (bytes)")
    roce.set_xlabel("Frame")
    roce.set_ylabel("iCRC of RoCE frame (of $2^{32}$)")
    dta.set_xticks(range(len(dta_memory.STORES)), dta_memory.STORES, rotation=40, ha="right")
    dta.set_ylabel("DTA memory (bytes)")
    for axes in (ampm, int_, roce, dta):
        plots.legend(axes, 2)
    return figure


def draw_values(
    axes: Axes, values: Sequence[float], target: int, colour: int = 0, label: str = ""
) -> None:
    """Draw the values of bmv2 as rings around the values of minip4."""
    if target:
        plots.ring(axes, range(len(values)), values, label=label or TARGETS[target])
    else:
        axes.plot(values, linestyle="", marker=plots.MARKERS[colour], color=plots.COLOURS[colour],
                  label=label or TARGETS[target])  # fmt: skip


def caption(setting: Setting, options: argparse.Namespace, packets: int) -> str:
    """Return the caption of the figure."""
    return (
        f"The same packets on minip4 (points) and bmv2 (rings), {plots.runs(options.seeds, 'real')}"
        f". (a) Packets of a flow of {options.rate:,} packets/s counted on arrival at and on "
        f"departure from three switches, with {options.loss:g} % loss per link and blocks of "
        f"{setting.schedule.block_us / 1e6:.3g} s. (b) Reports of {packets} packets, by INT mode "
        "and for drops. "
        f"(c) iCRC, which depends on all bytes, of the first {ICRCS} RoCE frames by version. (d) "
        f"Nonzero bytes in the memory of each DTA store, after {packets} packets. All bytes are "
        "compared, except times and queue lengths in INT reports."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
