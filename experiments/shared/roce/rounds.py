"""Rounds of turns: what a record costs each collector, and when noise says nothing about it."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from experiments.shared.roce.interleaved_rounds import Kind, Turn
from telemark.errors import InvalidRunError
from telemark.results import plots

AS_FAST = 0  # the load of which claims are
MOST_DROPPED = 0.05  # of the frames of a collector that a claim is about
MOST_WAITED = 0.05  # of the time that a process was ready, for a core


@dataclass(frozen=True)
class Round:
    """All collectors, one after the other, at each load; `nobody` takes no frame."""

    turns: Sequence[Turn]
    nobody: Kind

    def of(self, kind: Kind, load: int = AS_FAST) -> Turn:
        return next(t for t in self.turns if (t.collector, t.asked_per_s) == (kind.name, load))

    def own_ns(self, kind: Kind, load: int = AS_FAST) -> float:
        """CPU time of a report in the collector itself."""
        return self.of(kind, load).collector_ns / kind.offered.reports

    def kernel_ns(self, kind: Kind, load: int = AS_FAST) -> float:
        """CPU time of a report in the kernel, up to the collector's socket."""
        sender_ns = self.of(kind, load).sender_ns - self.of(self.nobody, load).sender_ns
        return sender_ns / kind.offered.reports

    def cost_ns(self, kind: Kind, load: int = AS_FAST) -> float:
        """CPU time of a report, the kernel's included."""
        return self.own_ns(kind, load) + self.kernel_ns(kind, load)

    def ratio(self, kind: Kind, to: Kind, load: int = AS_FAST) -> float:
        """Of what a report costs one collector to what it costs another one."""
        return self.cost_ns(kind, load) / self.cost_ns(to, load)


def middle(rounds: Sequence[Round], what: str, *of: object) -> float:
    """The median of what all rounds tell."""
    return statistics.median(getattr(each, what)(*of) for each in rounds)


def unaccounted_frames(rounds: Sequence[Round]) -> int:
    """Frames that were neither received nor counted as dropped, the most of a turn."""
    turns = [each for one in rounds for each in one.turns if each.collector != one.nobody.name]
    return max(abs(each.sent - each.received - each.dropped) for each in turns)


def wrong(rounds: Sequence[Round]) -> int:
    """Records in memory, of all turns, that are not those offered."""
    return sum(each.wrong for one in rounds for each in one.turns)


def reject_noise(
    rounds: Sequence[Round], kinds: Sequence[Kind], failed: Sequence[str], offer: str
) -> None:
    """Raises TestbedError where the kernel dropped many frames, or what failed may be noise.

    `kinds` are those that claims are about, and `failed` the claims.
    """
    for kind in kinds:
        turns = [each.of(kind) for each in rounds]
        dropped = statistics.median(each.dropped / each.sent for each in turns)
        if dropped > MOST_DROPPED:
            raise InvalidRunError(
                f"the kernel dropped {dropped:.0%} of the records for {kind.name}, {offer}"
            )
    waited = statistics.mean(each.waited for one in rounds for each in one.turns)
    if failed and waited > MOST_WAITED:
        raise InvalidRunError(
            f"senders and collectors waited for a core for "
            f"{waited:.0%} of the time, more than {MOST_WAITED:.0%}, and this failed: {failed[0]}"
        )


def draw_costs(
    axes: Axes, rounds: Sequence[Round], kinds: Sequence[Kind], load: int = AS_FAST
) -> None:
    """A bar for each collector: its own CPU time, and the kernel's; whiskers: least to most."""
    places = np.arange(len(kinds))
    own = [middle(rounds, "own_ns", kind, load) for kind in kinds]
    costs = [[each.cost_ns(kind, load) for each in rounds] for kind in kinds]
    whole = [statistics.median(each) for each in costs]
    axes.barh(places, own, 0.6, label="collector")
    axes.barh(places, np.subtract(whole, own), 0.6, left=own, label="kernel, up to its socket",
              color=plots.COLOURS[5])  # fmt: skip
    spread = [[w - min(c) for w, c in zip(whole, costs, strict=True)],
              [max(c) - w for w, c in zip(whole, costs, strict=True)]]  # fmt: skip
    axes.errorbar(whole, places, xerr=spread, fmt="none", ecolor="black", elinewidth=0.7)
    axes.set_yticks(places, [kind.name for kind in kinds])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
