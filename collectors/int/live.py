"""What the INT collector shows on the page of --watch: queues, hop latencies and paths."""

import time

import numpy as np
from numpy.typing import NDArray

from collectors.int.decoder import Decoded
from collectors.int.index import endpoints
from collectors.int.native import Bit
from telemark.watch.display import Display, Series, peaks

SEND_S = 0.2  # interval of messages
MAX_FLOWS = 200  # maximum number of flows whose paths are shown
SHOWN = np.dtype([("time_ns", "<i8"), ("place", "<i8"), ("value", "<i8")])
QUEUE, LATENCY = "queue (maximum per 10 ms)", "hop latency (maximum per 10 ms)"
# field, bit of its availability, divisor and unit
QUANTITIES = {
    QUEUE: ("occupancy", Bit.QUEUE, 1, "packets"),
    LATENCY: ("latency_ns", Bit.LATENCY, 1000, "us"),
}


def queue_series(link: str) -> Series:
    """Return the series of a queue; `link` is from Display.link(), e.g. "s1 to s2"."""
    return _series(QUEUE, link)


def _series(quantity: str, link: str) -> Series:
    return Series("INT", quantity, link, QUANTITIES[quantity][3])


class LiveReports:
    """Summarizes reports for the page of --watch."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._rows: dict[str, list[NDArray[np.void]]] = {name: [] for name in QUANTITIES}
        self._paths: dict[int, tuple[int, ...]] = {}
        self._sent_s = 0.0

    def take(self, part: Decoded) -> None:
        """Add decoded reports."""
        hops = part.hops
        arrived_ns = part.reports["time_ns"][hops["report"]]
        has_time = (hops["has"] & Bit.INGRESS) != 0
        for name, (field, bit, unit, _) in QUANTITIES.items():
            rows = np.empty(len(hops), SHOWN)
            rows["time_ns"] = np.where(has_time, hops["ingress_ns"], arrived_ns)
            rows["place"] = hops["node"].astype(np.int64) << 16 | hops["egress"]
            rows["value"] = hops[field] // unit
            self._rows[name].append(rows[(hops["has"] & bit) != 0])
        self._take_paths(part)
        if time.monotonic() - self._sent_s >= SEND_S:
            self.send()

    def send(self) -> None:
        """Send everything since the last call."""
        self._sent_s = time.monotonic()
        for name, parts in self._rows.items():
            rows = np.concatenate([np.empty(0, SHOWN), *parts])
            parts.clear()
            for place in np.unique(rows["place"]).tolist():
                own = rows[rows["place"] == place]
                series = _series(name, self._display.link(place >> 16, place & 0xFFFF))
                self._display.add(series, peaks(own["time_ns"], own["value"]))

    def _take_paths(self, part: Decoded) -> None:
        """Send paths that are new or have changed. Reports of single hops have no path."""
        whole = part.reports[(part.reports["hops"] > 1) & (part.reports["flow"] != 0)]
        # the last report of each flow
        flows, places = np.unique(whole["flow"][::-1], return_index=True)
        for flow, report in zip(flows.tolist(), whole[::-1][places], strict=True):
            first = int(report["first_hop"])
            nodes = tuple(part.hops["node"][first : first + int(report["hops"])].tolist())
            is_shown = flow in self._paths or len(self._paths) < MAX_FLOWS
            if is_shown and self._paths.get(flow) != nodes:
                self._paths[flow] = nodes
                names = [self._display.switch(node) for node in nodes]
                self._display.path("INT", _ends(report["key"]), names)


def _ends(key: np.void) -> list[str | int]:
    """Return the endpoints of a flow, as in Display.path()."""
    found = endpoints(key)
    return [found[name] for name in ("source", "destination", "source_port", "destination_port")]
