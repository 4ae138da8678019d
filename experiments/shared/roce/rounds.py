"""Rounds with the CPU time per record of each collector, and rejection of noisy runs."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from experiments.shared.roce.interleaved_rounds import Kind, Turn
from telemark.errors import note_invalid
from telemark.results import plots

AS_FAST = 0  # load to which the claims apply
MAX_DROPPED = 0.05  # claims apply only if a collector drops at most this fraction of frames
MAX_WAITED = 0.05  # max fraction of time in which a process waited for a core


@dataclass(frozen=True)
class Round:
    """One round of all collectors at each load; `baseline` is a round without collector."""

    turns: Sequence[Turn]
    baseline: Kind

    def of(self, kind: Kind, load: int = AS_FAST) -> Turn:
        return next(t for t in self.turns if (t.collector, t.offered_per_s) == (kind.name, load))

    def own_ns(self, kind: Kind, load: int = AS_FAST) -> float:
        """Return the CPU time per report in the process of the collector."""
        return self.of(kind, load).collector_ns / kind.offered.reports

    def kernel_ns(self, kind: Kind, load: int = AS_FAST) -> float:
        """Return the CPU time per report in the kernel, up to the socket of the collector."""
        sender_ns = self.of(kind, load).sender_ns - self.of(self.baseline, load).sender_ns
        return sender_ns / kind.offered.reports

    def cost_ns(self, kind: Kind, load: int = AS_FAST) -> float:
        """Return the CPU time per report, including the kernel."""
        return self.own_ns(kind, load) + self.kernel_ns(kind, load)

    def ratio(self, kind: Kind, to: Kind, load: int = AS_FAST) -> float:
        """Return the CPU time per report of a collector, normalized to another collector."""
        return self.cost_ns(kind, load) / self.cost_ns(to, load)


def middle(rounds: Sequence[Round], what: str, *of: object) -> float:
    """Return the median over all rounds of what the method `what` of Round returns."""
    return statistics.median(getattr(each, what)(*of) for each in rounds)


def unaccounted_frames(rounds: Sequence[Round]) -> int:
    """Return the max number per turn of frames neither received nor counted as dropped."""
    turns = [each for one in rounds for each in one.turns if each.collector != one.baseline.name]
    return max(abs(each.sent - each.received - each.dropped) for each in turns)


def wrong(rounds: Sequence[Round]) -> int:
    """Return the number of wrong records in memory over all turns."""
    return sum(each.wrong for one in rounds for each in one.turns)


def reject_noise(
    rounds: Sequence[Round], kinds: Sequence[Kind], failed: Sequence[str], offer: str
) -> None:
    """Make the run inconclusive if many frames were dropped or if noise may explain a failed claim.

    `kinds` are the collectors in claims, `failed` the names of failed claims.
    """
    for kind in kinds:
        turns = [each.of(kind) for each in rounds]
        dropped = statistics.median(each.dropped / each.sent for each in turns)
        if dropped > MAX_DROPPED:
            note_invalid(
                f"the kernel dropped {dropped:.0%} of the records for {kind.name}, {offer}"
            )
    waited = statistics.mean(each.waited for one in rounds for each in one.turns)
    if failed and waited > MAX_WAITED:
        note_invalid(
            f"senders and collectors waited for a core for "
            f"{waited:.0%} of the time, more than {MAX_WAITED:.0%}; failed check: {failed[0]}"
        )


def draw_costs(
    axes: Axes, rounds: Sequence[Round], kinds: Sequence[Kind], load: int = AS_FAST
) -> None:
    """Draw a bar per collector, with CPU time in process and kernel; whiskers from min to max."""
    places = np.arange(len(kinds))
    own = [middle(rounds, "own_ns", kind, load) for kind in kinds]
    costs = [[each.cost_ns(kind, load) for each in rounds] for kind in kinds]
    whole = [statistics.median(each) for each in costs]
    axes.barh(places, own, 0.6, label="collector")
    axes.barh(places, np.subtract(whole, own), 0.6, left=own, label="kernel up to its socket",
              color=plots.COLOURS[5])  # fmt: skip
    spread = [[w - min(c) for w, c in zip(whole, costs, strict=True)],
              [max(c) - w for w, c in zip(whole, costs, strict=True)]]  # fmt: skip
    axes.errorbar(whole, places, xerr=spread, fmt="none", ecolor="black", elinewidth=0.7)
    axes.set_yticks(places, [kind.name for kind in kinds])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
