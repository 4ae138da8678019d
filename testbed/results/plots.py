"""One house style for all figures: colours that colour-blind readers tell apart, units, a grid."""

from typing import Any

import matplotlib as mpl
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's palette ("Color Universal Design", 2008), black last.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

_STYLE: Any = {
    "axes.prop_cycle": cycler(color=COLOURS, marker=MARKERS),
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "errorbar.capsize": 3.0,
    "figure.dpi": 150,
    "figure.constrained_layout.use": True,
    "font.size": 10.0,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "lines.markersize": 5.0,
    "svg.hashsalt": "telemark",  # the same data give the same file
}

mpl.rcParams.update(_STYLE)


def figure(title: str, columns: int = 1) -> tuple[Figure, tuple[Axes, ...]]:
    """A figure with `columns` pairs of axes side by side; give them labels with their units."""
    drawn = Figure(figsize=(2.5 + 4.5 * columns, 4.3))
    drawn.suptitle(title, fontweight="bold")
    return drawn, tuple(drawn.subplots(1, columns, squeeze=False)[0])
