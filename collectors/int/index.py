"""Index that is made from decoded reports: flows, their paths, and sequence numbers of reports.

The memory of the index is bounded. Entries beyond a limit are evicted or rejected, and the index
counts them.
"""

import secrets
import weakref
from collections import deque
from ctypes import byref
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collectors.int.decoder import Decoded
from collectors.int.native import (
    CHANGE,
    FLOW,
    GAP,
    SOURCE,
    IndexConfig,
    IndexCounters,
    Output,
    library,
)
from telemark.errors import TestbedError

# maximum number of gaps, and also of path changes, per call with decoded reports
EVENTS_AT_ONCE = 4096


def address(octets: bytes, ip_version: int) -> str:
    """Return an address of a KEY as text."""
    return str(IPv4Address(octets[:4]) if ip_version == 4 else IPv6Address(octets))


def endpoints(key: Any) -> dict[str, str | int]:
    """Return the fields of a KEY as labels for exporters."""
    version = int(key["ip_version"])
    return {
        "source": address(key["source"].tobytes(), version),
        "destination": address(key["destination"].tobytes(), version),
        "protocol": int(key["protocol"]),
        "source_port": int(key["source_port"]),
        "destination_port": int(key["destination_port"]),
    }


@dataclass(frozen=True)
class Limits:
    """Maximum numbers of entries, and the maximum time to wait for all reports of a packet."""

    flows: int = 16_384  # maximum number of flows; each takes 2.2 KB of memory
    # maximum number of packets whose path is only partially known; each takes 1.2 KB
    packets: int = 16_384
    # maximum number of sources of sequence numbers; each hardware subsystem of a node is a source
    sources: int = 4_096
    # maximum number of gaps, and also of path changes; the latest ones are stored
    events: int = 10_000
    settle_us: float = 100_000.0


class Index:
    """Index of flows and their paths, and of report sources and their sequence numbers."""

    def __init__(self, limits: Limits) -> None:
        """Raises TestbedError if memory is exhausted, or if a limit is out of range."""
        amounts = (limits.flows, limits.packets, limits.sources, limits.events)
        if not all(0 < amount < 1 << 24 for amount in amounts):
            raise TestbedError(f"limits of the collector: {limits}: expected 1 to 16,777,215 each")
        self.gaps: deque[NDArray[np.void]] = deque(maxlen=limits.events)  # GAP
        self.changes: deque[NDArray[np.void]] = deque(maxlen=limits.events)  # CHANGE
        self._limits = limits
        self._rooms = tuple(np.zeros(EVENTS_AT_ONCE, kind) for kind in (GAP, CHANGE))
        self._library = library()
        config = IndexConfig(
            round(limits.settle_us * 1000), secrets.randbits(64), limits.flows, limits.packets,
            limits.sources, EVENTS_AT_ONCE,
        )  # fmt: skip
        self._handle = self._library.int_index_create(config)
        if not self._handle:
            raise TestbedError(f"not enough memory for the collector's {limits}; lower the limits")
        weakref.finalize(self, self._library.int_index_destroy, self._handle)

    def add(self, decoded: Decoded) -> None:
        """Add decoded reports in the order in which they arrived."""
        arrays = (decoded.groups, decoded.reports, decoded.hops, decoded.faults)
        lengths = [len(array) for array in arrays]
        self._library.int_index_add(
            self._handle, Output(*(array.ctypes.data for array in arrays), *lengths, *lengths)
        )
        self._take_events()

    def settle(self, now_ns: int) -> None:
        """Close packets for which the time to wait for further reports has passed."""
        self._library.int_index_settle(self._handle, now_ns)
        self._take_events()

    def end(self, time_ns: int) -> None:
        """Handle the end of the input: missing reports now count as lost."""
        self._library.int_index_end(self._handle, time_ns)
        self._take_events()

    def flows(self) -> NDArray[np.void]:
        """Return FLOW records. The flow that was seen last is first."""
        flows = np.zeros(self._library.int_index_flow_count(self._handle), FLOW)
        self._library.int_index_flows(self._handle, flows.ctypes.data)
        return flows

    def sources(self) -> NDArray[np.void]:
        """Return SOURCE records in the order of their first datagrams."""
        sources = np.zeros(self._limits.sources, SOURCE)
        return sources[: self._library.int_index_sources(self._handle, sources.ctypes.data)].copy()

    def counters(self) -> dict[str, int]:
        """Return how many entries exceeded each limit (struct int_index_counters in c/index.h)."""
        counters = IndexCounters()
        self._library.int_index_counters(self._handle, byref(counters))
        return {field[0]: getattr(counters, field[0]) for field in IndexCounters._fields_}

    def _take_events(self) -> None:
        for events, room, take in (
            (self.gaps, self._rooms[0], self._library.int_index_take_gaps),
            (self.changes, self._rooms[1], self._library.int_index_take_changes),
        ):
            if taken := take(self._handle, room.ctypes.data):
                events.extend(room[:taken].copy())
