"""CPU time per report of DTA collectors and CPU collectors, in interleaved rounds."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from rich.table import Table

from experiments.shared.dta import candidates
from experiments.shared.roce.interleaved_rounds import COLLECTOR_CORE, NAP_US, Kind, turn
from experiments.shared.roce.rounds import (
    Round,
    draw_costs,
    middle,
    reject_noise,
    unaccounted_frames,
    wrong,
)
from telemark.errors import TestbedError
from telemark.results import plots
from telemark.results.report import Check, table
from telemark.session.run import Run

AS_FAST = "max rate"
ROUNDS, SECONDS = 5, 0.5
QUICK_ROUNDS, QUICK_SECONDS = 3, 0.1
# Max CPU time per report of DTA, normalized to a collector with a UDP socket. Key-Write is compared
# with inserts into a hash table, Append with a log, and a path with five inserts.
MAX_RATIO = {"Key-Write": ("hash insert", 0.8), "Append": ("log and index", 0.1),
        "Postcarding": ("hash insert", 0.3)}  # fmt: skip


@dataclass(frozen=True)
class Costs:
    """Results of all rounds; the compared collectors; and the seconds per round and collector."""

    rounds: Sequence[Round]
    by_dta: Sequence[Kind]
    by_cpu: Sequence[Kind]
    seconds: float

    @property
    def kinds(self) -> Sequence[Kind]:
        """All collectors that receive frames."""
        return (*self.by_dta, *self.by_cpu)

    @property
    def claims(self) -> Sequence[tuple[Kind, Kind, float]]:
        """Pairs of a DTA and a CPU collector, with the max ratio of CPU time."""
        dta = {name: kind for kind in self.by_dta for name in MAX_RATIO if name in kind.name}
        cpu = {what: kind for kind in self.by_cpu for what, _ in MAX_RATIO.values()
               if kind.name == f"{what}, UDP"}  # fmt: skip
        return [(dta[name], cpu[what], limit) for name, (what, limit) in MAX_RATIO.items()]

    def by_round(self) -> dict[str, list[float]]:
        """Return CPU ns per report, including the kernel, of each collector."""
        return {kind.name: [each.cost_ns(kind) for each in self.rounds] for kind in self.kinds}

    def caption(self) -> str:
        """Return the caption of the figure."""
        return (
            f"CPU time per report of a key and 32 bits, by collector, including kernel time up to "
            f"its socket: medians of {len(self.rounds)} rounds of {self.seconds:g} s, "
            f"whiskers from min to max, at the rate that one core can send. For DTA, Telemark's "
            f"responder replaces a NIC; all collectors sleep for {NAP_US} us after each batch of "
            f"frames."
        )


def require_two_cores() -> None:
    """Raise TestbedError if this machine has only one core."""
    if (os.cpu_count() or 1) <= COLLECTOR_CORE:
        raise TestbedError(
            "sender and collector need a core each, but this machine has one; use --time virtual, "
            "which counts operations only"
        )


def measured(run: Run, *, quick: bool) -> Costs:
    """Run rounds of all collectors. Raises TestbedError."""
    baseline, by_dta, by_cpu = candidates.kinds()
    count, seconds = (QUICK_ROUNDS, QUICK_SECONDS) if quick else (ROUNDS, SECONDS)
    all_kinds, rounds = [baseline, *by_dta, *by_cpu], []
    for number in range(count):
        turns = []
        for kind in all_kinds[:: 1 if number % 2 else -1]:  # alternate the order of collectors
            run.progress.update(f"CPU time, round {number + 1}: {kind.name}")
            turns.append(turn(run.folder, kind, 0, seconds))
        rounds.append(Round(turns, baseline))
    return Costs(rounds, by_dta, by_cpu, seconds)


def make_checks(costs: Costs) -> list[Check]:
    """Check the claims; the run is inconclusive if the machine was too loaded."""
    claims = [
        Check(f"CPU time per report, {kind.name} (normalized to {to.name}), {AS_FAST}, at most "
              f"{limit}",
              middle(costs.rounds, "ratio", kind, to), 0, limit)
        for kind, to, limit in costs.claims
    ]  # fmt: skip
    about = {kind: None for *both, _ in costs.claims for kind in both}
    failed = [check.name for check in claims if not check.passed]
    reject_noise(costs.rounds, [*about], failed, AS_FAST)
    return [
        *claims,
        Check("CPU time: frames neither received nor counted as dropped (max per round)",
              unaccounted_frames(costs.rounds), 0),
        Check("CPU time: wrong records in memory",
              wrong(costs.rounds), 0),
    ]  # fmt: skip


def costs_tables(costs: Costs) -> list[Table]:
    """Return two tables: CPU time per report, and ratios of CPU times of DTA and CPU collectors."""
    own = [
        (kind.name, middle(costs.rounds, "own_ns", kind), middle(costs.rounds, "kernel_ns", kind),
         middle(costs.rounds, "cost_ns", kind))
        for kind in costs.kinds
    ]  # fmt: skip
    ratios = [
        (kind.name, *(middle(costs.rounds, "ratio", kind, to) for to in costs.by_cpu))
        for kind in costs.by_dta
    ]
    columns = ("collector", "CPU ns per report: collector", "kernel", "total")
    return [
        table("CPU time per report, medians", columns, own),
        table("CPU time normalized to", ("", *(kind.name for kind in costs.by_cpu)), ratios),
    ]


def draw_cpu(axes: Axes, costs: Costs) -> None:
    """Draw a bar for each collector."""
    draw_costs(axes, costs.rounds, costs.kinds)
    axes.set_xlabel("CPU time per report (ns)")
    plots.legend(axes, 2)
