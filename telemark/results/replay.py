"""replay.json: when packets of a run were where, for index.html to play again."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

NAME = "replay.json"


@dataclass(frozen=True)
class ReplayedFlow:
    """A flow, none of whose packets was lost, and all of which took one path."""

    name: str
    colour: str  # as CSS has it
    path: Sequence[str]  # nodes, from host to host
    # Shape (packets, 2 * len(path) - 2), in order of sending: when a packet left the sender, came
    # to and left each switch, and came to the receiver.
    times_ns: NDArray[np.int64]


@dataclass(frozen=True)
class Replay:
    """Some time of a run in virtual time: of a run in real time no two would be the same."""

    caption: str
    places: Mapping[str, tuple[float, float]]  # of nodes: from left and from above, 0 to 1
    flows: Sequence[ReplayedFlow]
    zero_ns: int  # the time that is shown as 0
    begin_ns: int
    end_ns: int

    def write(self, path: Path) -> None:
        """Write it as JSON, with times in microseconds since the beginning."""
        flows = [
            {"name": f.name, "colour": f.colour, "path": [*f.path], "packets": self._packets(f)}
            for f in self.flows
        ]
        said = {
            "caption": self.caption,
            "zero_us": (self.zero_ns - self.begin_ns) // 1000,
            "lasts_us": (self.end_ns - self.begin_ns) // 1000,
            "places": {node: [*place] for node, place in self.places.items()},
            "flows": flows,
        }
        path.write_text(json.dumps(said, separators=(",", ":")) + "\n")

    def _packets(self, flow: ReplayedFlow) -> list[int]:
        """Of packets that were anywhere meanwhile, one after the other: when each was sent, after
        the one before it; then how much later than the time before it each other time is."""
        times_ns = flow.times_ns
        meanwhile = (times_ns[:, -1] >= self.begin_ns) & (times_ns[:, 0] < self.end_ns)
        steps_us = (times_ns[meanwhile] - self.begin_ns) // 1000
        steps_us[:, 1:] = np.diff(steps_us, axis=1)
        steps_us[1:, 0] = np.diff(steps_us[:, 0])
        found: list[int] = steps_us.ravel().tolist()
        return found
