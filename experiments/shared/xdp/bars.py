"""Bar charts of compared programs: median, spread over rounds, and published value."""

import statistics
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from experiments.shared.xdp.interleaved_rounds import Candidate, Rounds
from telemark.results import plots


def draw_ratios(
    axes: Axes, rounds: Rounds, candidates: Sequence[Candidate], to: Candidate,
    published: Mapping[Candidate, float],
) -> None:  # fmt: skip
    """Draw rates per core, normalized to the candidate `to`. Whiskers range from min to max."""
    draw_medians(axes, [rounds.ratios(each, to) for each in candidates],
                 [each.name for each in candidates])  # fmt: skip
    draw_published(axes, candidates, published)
    plots.legend(axes, 2)


def draw_medians(axes: Axes, found: Sequence[Sequence[float]], names: Sequence[str]) -> None:
    """Draw one bar per candidate, from top to bottom; whiskers range from min to max."""
    places = np.arange(len(found))
    middle = np.array([statistics.median(each) for each in found])
    spread = [middle - [min(each) for each in found], [max(each) for each in found] - middle]
    axes.barh(places, middle, 0.6, label="measured", xerr=spread, ecolor="black",
              error_kw={"elinewidth": 0.7})  # fmt: skip
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    axes.set_xlim(left=0)


def draw_published(
    axes: Axes, candidates: Sequence[Candidate], published: Mapping[Candidate, float]
) -> None:
    """Draw each published value at the bar of its candidate."""
    axes.plot([*published.values()], [candidates.index(each) for each in published], "D",
              color=plots.COLOURS[3], label="published (100 Gbit/s NIC)")  # fmt: skip
