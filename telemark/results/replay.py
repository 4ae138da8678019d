"""replay.json: positions of packets over time, which the player in index.html shows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

NAME = "replay.json"


@dataclass(frozen=True)
class ReplayedFlow:
    """Flow that lost no packet, and whose packets all take the same path."""

    name: str
    colour: str  # CSS colour
    path: Sequence[str]  # names of the nodes, from the sending host to the receiving host
    # Shape (packets, 2 * len(path) - 2), one row per packet in order of sending. A row contains the
    # time at which the packet left the sender, the times at which it reached and left each switch,
    # and the time at which it reached the receiver.
    times_ns: NDArray[np.int64]


@dataclass(frozen=True)
class Replay:
    """Time interval of a run in virtual time, with the flows in it."""

    caption: str
    # map from node to its position: x from the left and y from the top, both from 0 to 1
    places: Mapping[str, tuple[float, float]]
    flows: Sequence[ReplayedFlow]
    zero_ns: int  # the time of the run that the player shows as 0
    begin_ns: int
    end_ns: int

    def write(self, path: Path) -> None:
        """Write JSON, with times in microseconds since begin_ns."""
        flows = [
            {"name": f.name, "colour": f.colour, "path": [*f.path], "packets": self._packets(f)}
            for f in self.flows
        ]
        data = {
            "caption": self.caption,
            "zero_us": (self.zero_ns - self.begin_ns) // 1000,
            "lasts_us": (self.end_ns - self.begin_ns) // 1000,
            "places": {node: [*place] for node, place in self.places.items()},
            "flows": flows,
        }
        path.write_text(json.dumps(data, separators=(",", ":")) + "\n")

    def _packets(self, flow: ReplayedFlow) -> list[int]:
        """Return the times of all packets in the interval, as one list of differences.

        The first time of a packet is stored relative to the first time of the previous packet. Each
        other time is stored relative to the preceding time of the same packet.
        """
        times_ns = flow.times_ns
        in_interval = (times_ns[:, -1] >= self.begin_ns) & (times_ns[:, 0] < self.end_ns)
        steps_us = (times_ns[in_interval] - self.begin_ns) // 1000
        steps_us[:, 1:] = np.diff(steps_us, axis=1)
        steps_us[1:, 0] = np.diff(steps_us[:, 0])
        found: list[int] = steps_us.ravel().tolist()
        return found
