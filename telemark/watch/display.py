"""The page of --watch, as collectors and experiments see it: series, alerts and paths."""

import contextlib
import json
import math
import os
import select
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Points = Iterable[tuple[float, float]]  # time (ns of the run's clock) and value

POINTS = 40  # maximum number of points per message
TEXT = 400  # maximum number of characters of a text
# Several processes write to one pipe. Longer messages could be mixed.
MAX_BYTES = select.PIPE_BUF
INTERVAL_NS = 10_000_000  # interval of maxima()


class Series(NamedTuple):
    """Name of a series of measured values."""

    source: str  # telemetry method or program, e.g. "INT"
    quantity: str
    where: str  # switch, link or flow
    unit: str


@dataclass(frozen=True)
class Display:
    """Sends what collectors and experiments measure to the page of --watch.

    Without --watch there is no Display: Run.display and Host.display are None. Times are those of
    the run's clock, in ns.
    """

    descriptor: int  # write end of a pipe to the server process
    network: str = ""  # name of the network; empty before the first network
    began_ns: int = 0  # time that the page shows as 0
    switches: Sequence[str] = ()
    # map from number of a switch (from 1, in the order of the topology) and port to "s1 to s2"
    links: Mapping[tuple[int, int], str] = field(default_factory=dict)

    def add(self, series: Series, points: Points, truth: Points = ()) -> None:
        """Add points to a series and to its ground truth, which may also be added later."""
        measured, true = self._rows(points), self._rows(truth)
        for first in range(0, max(len(measured), len(true)), POINTS):
            part = slice(first, first + POINTS)
            self._send({"series": series, "points": measured[part], "truth": true[part]})

    def alert(self, source: str, time_ns: float, text: str) -> None:
        """Add a detected event, or the rule that mitigates it, to the list of alerts."""
        self._send({"alert": [self._time(time_ns), source, text[:TEXT]]})

    def path(self, source: str, endpoints: Sequence[str | int], nodes: Sequence[str]) -> None:
        """Show the path of a flow as a telemetry method measured it.

        `endpoints` are source and destination address, source and destination port. `nodes` are
        switches in the order of the path.
        """
        self._send({"path": [source, endpoints, nodes]})

    def switch(self, number: int) -> str:
        """Return the name of a switch. Telemetry numbers switches in the order of the topology."""
        return self.switches[number - 1] if 0 < number <= len(self.switches) else f"node {number}"

    def link(self, number: int, port: int) -> str:
        """Return the name of the link at a port of a switch."""
        return self.links.get((number, port), f"{self.switch(number)} port {port}")

    def _rows(self, points: Points) -> list[tuple[float, float]]:
        return [
            (self._time(time_ns), float(f"{value:.9g}"))
            for time_ns, value in points
            if math.isfinite(value)
        ]

    def _time(self, time_ns: float) -> float:
        """Return the time of the page, in seconds."""
        return round((time_ns - self.began_ns) / 1e9, 6)

    def _send(self, message: dict[str, Any]) -> None:
        """Write a message. Does nothing if the server process has ended."""
        data = json.dumps({"network": self.network} | message).encode() + b"\n"
        if len(data) <= MAX_BYTES:
            with contextlib.suppress(OSError):
                os.write(self.descriptor, data)


def maxima(
    place: NDArray[Any], time_ns: NDArray[Any], values: NDArray[Any]
) -> dict[int, list[tuple[int, int]]]:
    """Return for each place the maximum of each interval, because all values would be too many."""
    interval = time_ns.astype(np.int64) // INTERVAL_NS
    order = np.lexsort((interval, place))
    place, interval = place[order], interval[order]
    first = np.flatnonzero((np.diff(place, prepend=-1) != 0) | (np.diff(interval, prepend=-1) != 0))
    most = np.maximum.reduceat(values[order], first) if len(first) else values
    found: dict[int, list[tuple[int, int]]] = {}
    columns = (place[first], interval[first] * INTERVAL_NS, most)
    for where, begin_ns, value in zip(*(column.tolist() for column in columns), strict=True):
        found.setdefault(where, []).append((begin_ns, value))
    return found
