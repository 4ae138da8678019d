"""Frames in the format in which an application receives them."""

from collections.abc import Sequence

import numpy as np

from minip4.simulator.shared import ARRIVAL
from telemark.traffic.received import Frames


def frames(contents: Sequence[bytes], time_ns: int = 0) -> Frames:
    """Return frames that arrived at one time."""
    records = np.zeros(len(contents), ARRIVAL)
    records["time_ns"] = time_ns
    records["length"] = [len(content) for content in contents]
    return Frames((records, b"".join(contents)))
