"""What a report costs a collector of DTA, and CPU collectors beside it, in rounds of turns."""

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

AS_FAST = "as fast as they go"
ROUNDS, SECONDS = 5, 0.5
QUICK_ROUNDS, QUICK_SECONDS = 3, 0.1
# Of what a report costs collectors at a UDP socket it costs at most this part by DTA: Key-Write
# does what a hash table does, batches what a log does, and a path is five inserts.
MOST = {"Key-Write": ("hash insert", 0.8), "Append": ("log and index", 0.1),
        "Postcarding": ("hash insert", 0.3)}  # fmt: skip


@dataclass(frozen=True)
class Costs:
    """Rounds of all collectors; those of DTA and of the CPU; and seconds of a turn."""

    rounds: Sequence[Round]
    by_dta: Sequence[Kind]
    by_cpu: Sequence[Kind]
    seconds: float

    @property
    def kinds(self) -> Sequence[Kind]:
        """All that take frames."""
        return (*self.by_dta, *self.by_cpu)

    @property
    def claims(self) -> Sequence[tuple[Kind, Kind, float]]:
        """Which collector of DTA, beside which of the CPU, and the most of their ratio."""
        dta = {name: kind for kind in self.by_dta for name in MOST if name in kind.name}
        cpu = {what: kind for kind in self.by_cpu for what, _ in MOST.values()
               if kind.name == f"{what}, UDP"}  # fmt: skip
        return [(dta[name], cpu[what], most) for name, (what, most) in MOST.items()]

    def by_round(self) -> dict[str, list[float]]:
        """CPU ns of a report, the kernel's included, of each collector."""
        return {kind.name: [each.cost_ns(kind) for each in self.rounds] for kind in self.kinds}

    def caption(self) -> str:
        """What the figure of it shows."""
        return (
            f"CPU time of a report of a key and 32 bits, by what takes it, the kernel's work up to "
            f"its socket included: medians of {len(self.rounds)} rounds of {self.seconds:g} s, "
            f"whiskers from the least to the most, offered as fast as one core sends. Those of DTA "
            f"are our responder in the place of a network card; all nap for {NAP_US} us after "
            f"frames came."
        )


def require_two_cores() -> None:
    """Raises TestbedError."""
    if (os.cpu_count() or 1) <= COLLECTOR_CORE:
        raise TestbedError(
            "sender and collector need a core each: this machine has one (--time virtual counts "
            "operations without them)"
        )


def measured(run: Run, *, quick: bool) -> Costs:
    """Rounds of all collectors. Raises TestbedError."""
    nobody, by_dta, by_cpu = candidates.kinds()
    count, seconds = (QUICK_ROUNDS, QUICK_SECONDS) if quick else (ROUNDS, SECONDS)
    everybody, rounds = [nobody, *by_dta, *by_cpu], []
    for number in range(count):
        turns = []
        for kind in everybody[:: 1 if number % 2 else -1]:  # who comes first changes
            run.progress.update(f"CPU time, round {number + 1}: {kind.name}")
            turns.append(turn(run.folder, kind, 0, seconds))
        rounds.append(Round(turns, nobody))
    return Costs(rounds, by_dta, by_cpu, seconds)


def checks_of(costs: Costs) -> list[Check]:
    """What is claimed. Raises TestbedError where the machine was too busy to say anything."""
    claims = [
        Check(f"CPU time of a report, {kind.name} to {to.name}, {AS_FAST}, at most {most}",
              middle(costs.rounds, "ratio", kind, to), 0, most)
        for kind, to, most in costs.claims
    ]  # fmt: skip
    about = {kind: None for *both, _ in costs.claims for kind in both}
    failed = [check.name for check in claims if not check.passed]
    reject_noise(costs.rounds, [*about], failed, AS_FAST)
    return [
        *claims,
        Check("CPU time: frames that are neither received nor counted as dropped, most of a turn",
              unaccounted_frames(costs.rounds), 0),
        Check("CPU time: records in memory that are not those of the reports",
              wrong(costs.rounds), 0),
    ]  # fmt: skip


def costs_tables(costs: Costs) -> list[Table]:
    """What a report costs each collector, and the ratios of those of DTA to those of the CPU."""
    own = [
        (kind.name, middle(costs.rounds, "own_ns", kind), middle(costs.rounds, "kernel_ns", kind),
         middle(costs.rounds, "cost_ns", kind))
        for kind in costs.kinds
    ]  # fmt: skip
    ratios = [
        (kind.name, *(middle(costs.rounds, "ratio", kind, to) for to in costs.by_cpu))
        for kind in costs.by_dta
    ]
    columns = ("collector", "CPU ns of a report, collector", "kernel", "both")
    return [
        table("What a report costs, medians", columns, own),
        table("Of the CPU time of", ("", *(kind.name for kind in costs.by_cpu)), ratios),
    ]


def draw_cpu(axes: Axes, costs: Costs) -> None:
    """A bar for each collector."""
    draw_costs(axes, costs.rounds, costs.kinds)
    axes.set_xlabel("CPU time of a report (ns)")
    plots.legend(axes, 2)
