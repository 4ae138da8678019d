"""The INT collector on the page of --watch: queues, hop latencies, paths and their changes."""

import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from collectors.int.decoder import Decoded
from collectors.int.index import endpoints
from collectors.int.native import HOP, REPORT, Bit
from telemark.watch.display import Display, Series, maxima

SEND_S = 0.2  # interval of messages
MAX_HOPS = 100_000  # maximum number of hops until the next message
MAX_FLOWS = 200  # maximum number of flows whose paths are shown
UNKNOWN = -1


class Quantity(NamedTuple):
    """A field of a hop that is shown as the maximum of each interval."""

    name: str
    field: str
    bit: Bit  # whether a hop has the field
    divisor: int
    unit: str

    def series(self, link: str) -> Series:
        """Return the series of a link; its name is from Display.link(), e.g. "s1 to s2"."""
        return Series("INT", f"{self.name}, maximum of 10 ms", link, self.unit)


QUEUE = Quantity("queue", "occupancy", Bit.QUEUE, 1, "packets")
LATENCY = Quantity("hop latency", "latency_ns", Bit.LATENCY, 1000, "µs")


class LiveReports:
    """Summarizes reports for the page of --watch."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._parts: list[Decoded] = []
        self._hops = 0
        self._paths: dict[int, tuple[int, ...]] = {}
        self._sent_s = time.monotonic()

    def take(self, part: Decoded) -> None:
        """Add decoded reports."""
        self._parts.append(part)
        self._hops += len(part.hops)
        if self._hops >= MAX_HOPS or time.monotonic() - self._sent_s >= SEND_S:
            self.send()

    def send(self) -> None:
        """Send everything since the last call."""
        self._sent_s, parts = time.monotonic(), self._parts
        self._parts, self._hops = [], 0
        reports = _joined([part.reports for part in parts], REPORT)
        hops = _joined([part.hops for part in parts], HOP)
        self._send_values(reports, hops)
        self._send_paths(reports, hops)

    def _send_values(self, reports: NDArray[np.void], hops: NDArray[np.void]) -> None:
        has_time = (hops["has"] & Bit.INGRESS) != 0
        arrived_ns = np.repeat(reports["time_ns"], reports["hops"])
        time_ns = np.where(has_time, hops["ingress_ns"], arrived_ns).astype(np.int64)
        place = hops["node"].astype(np.int64) << 16 | hops["egress"]
        for quantity in (QUEUE, LATENCY):
            values = hops[quantity.field].astype(np.int64) // quantity.divisor
            known = np.where(hops["has"] & quantity.bit, values, UNKNOWN)
            for number, points in maxima(place, time_ns, known).items():
                series = quantity.series(self._display.link(number >> 16, number & 0xFFFF))
                self._display.add(series, [point for point in points if point[1] != UNKNOWN])

    def _send_paths(self, reports: NDArray[np.void], hops: NDArray[np.void]) -> None:
        """Send paths that are new or have changed. Reports of single hops have no path."""
        whole = np.flatnonzero((reports["hops"] > 1) & (reports["flow"] != 0))[::-1]
        first_hops = np.cumsum(reports["hops"], dtype=np.int64) - reports["hops"]
        # the last report of each flow
        flows, at = np.unique(reports["flow"][whole], return_index=True)
        for flow, report in zip(flows.tolist(), whole[at].tolist(), strict=True):
            first = first_hops[report]
            path = tuple(hops["node"][first : first + reports["hops"][report]].tolist())
            is_shown = flow in self._paths or len(self._paths) < MAX_FLOWS
            if is_shown and self._paths.get(flow) != path:
                names = [self._display.switch(node) for node in path]
                ends = _ends(reports["key"][report])
                self._display.path("INT", ends, names)
                if flow in self._paths:
                    text = f"{ends[0]} to {ends[1]} port {ends[3]}: new path {', '.join(names)}"
                    self._display.alert("INT", reports["time_ns"][report], text)
                self._paths[flow] = path


def _joined(parts: list[NDArray[np.void]], kind: np.dtype[np.void]) -> NDArray[np.void]:
    """Concatenate records. With structured arrays, numpy would copy field by field."""
    octets = [np.zeros(0, np.uint8), *(part.view(np.uint8) for part in parts)]
    return np.concatenate(octets).view(kind)


def _ends(key: np.void) -> list[str | int]:
    """Return the endpoints of a flow, as in Display.path()."""
    found = endpoints(key)
    return [found[name] for name in ("source", "destination", "source_port", "destination_port")]
