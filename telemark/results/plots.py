"""Style that all figures share. It suits papers, and readers with colour blindness.

A figure is one or two columns wide, uses 8-point text, and has no title: its caption
(`Report.caption`) describes it. Legends are above their panel.
"""

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

# Palette of Okabe and Ito ("Color Universal Design", 2008), but black is the last colour.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

COLUMN_IN, TWO_COLUMNS_IN = 3.5, 7.16  # column widths in IEEE transactions, inches
HEIGHT_IN = 2.5

_STYLE: Any = {
    "axes.prop_cycle": cycler(color=COLOURS, marker=MARKERS),
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "errorbar.capsize": 2.0,
    "figure.constrained_layout.use": True,
    "figure.dpi": 100,
    "font.size": 8.0,
    "axes.titlesize": 8.0,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "legend.columnspacing": 1.2,
    "legend.fontsize": 7.0,
    "legend.frameon": False,
    "legend.handlelength": 1.6,
    "legend.handletextpad": 0.5,
    "legend.labelspacing": 0.3,
    "lines.linewidth": 1.0,
    "lines.markersize": 3.5,
    # embed TrueType fonts, because publishers reject matplotlib's default (Type 3)
    "pdf.fonttype": 42,
    "savefig.dpi": 300,
    "svg.hashsalt": "telemark",  # equal data then give equal files
    "xtick.labelsize": 7.0,
    "xtick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.labelsize": 7.0,
    "ytick.major.width": 0.6,
    "ytick.minor.width": 0.4,
}

mpl.rcParams.update(_STYLE)


def figure(panels: int = 1, *, height_in: float = HEIGHT_IN) -> tuple[Figure, tuple[Axes, ...]]:
    """Create a figure with a single panel (one column wide) or with several panels (two columns).

    Several panels are lettered.

    The caller sets axis labels with units.
    """
    drawn = Figure(figsize=(COLUMN_IN if panels == 1 else TWO_COLUMNS_IN, height_in))
    axes = tuple(drawn.subplots(1, panels, squeeze=False)[0])
    if panels > 1:
        for letter, panel in zip("abcdef", axes, strict=False):
            panel.annotate(
                f"({letter})", (0, 1), (-6, 4), xycoords="axes fraction",
                textcoords="offset points", ha="right", va="bottom", fontweight="bold",
            )  # fmt: skip
    return drawn, axes


def legend(axes: Axes, columns: int = 1, handles: Sequence[Artist] | None = None) -> None:
    """Add the legend of a panel above it."""
    axes.legend(
        handles=axes.get_legend_handles_labels()[0] if handles is None else handles,
        ncols=columns, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0.2,
    )  # fmt: skip


def note(drawn: Figure, text: str) -> None:
    """Add a line of text below a figure."""
    drawn.supxlabel(text, fontsize="medium")


def ring(axes: Axes, x: ArrayLike, y: ArrayLike, label: str = "") -> None:
    """Plot ground truth as rings around measured values."""
    axes.plot(x, y, "o", color="black", fillstyle="none", markersize=6.5, markeredgewidth=0.7,
              label=label)  # fmt: skip


def median_and_range(axes: Axes, x: ArrayLike, values: ArrayLike, label: str) -> None:
    """Plot the median of each row of `values`, with bars from its minimum to its maximum."""
    table = np.asarray(values)
    middle = np.median(table, axis=1)
    bars = np.abs(np.array([table.min(axis=1), table.max(axis=1)]) - middle)
    axes.errorbar(x, middle, bars, label=label, capsize=2)


def runs(number: int, time: str) -> str:
    """Return the caption's text about points and error bars; `time` is real or virtual."""
    points = "one run" if number == 1 else f"mean and standard deviation of {number} runs"
    return f"{points} in {time} time"


def count(number: int, noun: str) -> str:
    """Format a number with a noun in a caption: `1 run`, `10 runs`."""
    return f"{number:,} {noun}" + "s" * (number != 1)
