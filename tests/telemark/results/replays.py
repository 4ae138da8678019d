"""A replay for tests: three packets go from h1 over s1 and s2 to h2; two of them wait at s2."""

import numpy as np

from telemark.results.replay import Replay, ReplayedFlow

TIMES_US = [
    [0, 100, 101, 201, 300, 400],
    [1, 101, 111, 211, 400, 500],
    [900, 1000, 1001, 1101, 1102, 1202],
]


def replay(caption: str = "Three packets.", begin_us: int = 0) -> Replay:
    """Return a replay that ends at 1,000 us. Its displayed time starts at 50 us."""
    flow = ReplayedFlow(
        "red", "#D55E00", ["h1", "s1", "s2", "h2"], np.array(TIMES_US, np.int64) * 1000 + 999
    )
    places = {"h1": (0.0, 0.5), "s1": (0.3, 0.5), "s2": (0.6, 0.5), "h2": (1.0, 0.5)}
    return Replay(caption, places, [flow], 50_000, begin_us * 1000, 1_000_000)
