"""Decodes Telemetry Reports 2.0 and 1.0, with INT 2.1 and 1.0 in the packets that they hold.

By the specifications alone (p4lang/p4-applications: Telemetry Report Format Specification 2.0,
INT Dataplane Specification 2.1). What they leave open, such as units, is in Encoding.
"""

import ctypes
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from collectors.int.native import library
from collectors.int.shared import (
    ARRAYS,
    FAULT,
    GROUP,
    HOP,
    REPORT,
    Input,
    Output,
    ParseStatus,
    Settings,
)
from minip4.simulator.shared import ARRIVAL
from telemark.traffic.received import Datagrams

ROOM = {"groups": 4096, "reports": 1 << 15, "hops": 1 << 16, "faults": 1 << 15}  # at once
ASIDE = 100  # datagrams with something malformed that are kept, the latest


@dataclass(frozen=True)
class Encoding:
    """What the specifications leave to a deployment."""

    port: int = 0  # UDP destination port that says that INT follows; 0: none does
    dscp: int = 0  # DSCP that says so after TCP and UDP,
    dscp_mask: int = 0  # in these of its bits; 0: none does
    marker: int = 0  # 64-bit probe marker that says so after TCP and UDP; 0: none is used
    timestamp_unit_ns: int = 1  # of timestamps of 64 bits
    latency_unit_ns: int = 1  # of hop latencies
    int1_long_times: bool = False  # INT 1.0: 64 bits, and level 2 interfaces of 16 (GEANT)


class Decoded(NamedTuple):
    """Some datagrams, as structured arrays (collectors.int.shared, c/records.h)."""

    groups: NDArray[np.void]  # GROUP: datagrams with a header, in the order of arrival
    reports: NDArray[np.void]  # REPORT: their reports in order; `group` is an index of groups
    hops: NDArray[np.void]  # HOP: all hops of the first report, then of the next, source first
    faults: NDArray[np.void]  # FAULT: what was malformed, with its datagram's number
    data: bytes  # what `at`, `ds_at` and `int_ds_at` are offsets in


class Fault(NamedTuple):
    """Something malformed, with the datagram's payload: kept to be looked at."""

    time_ns: int
    status: ParseStatus
    offset: int  # in the payload, of the report that it is in, or 0
    payload: bytes


class Decoder:
    """Turns datagrams into arrays. What is malformed is counted in `parse_errors`, never an error.

    `aside` has the last few of such datagrams. A report whose metadata are right, but whose packet
    is not, or was cut too early, is among the reports, counted too, and has its `parse_status`.
    """

    def __init__(self, encoding: Encoding) -> None:
        self.parse_errors: Counter[ParseStatus] = Counter()
        self.aside: deque[Fault] = deque(maxlen=ASIDE)
        self._settings = Settings(
            encoding.timestamp_unit_ns, encoding.latency_unit_ns, encoding.marker, encoding.port,
            encoding.dscp, encoding.dscp_mask, encoding.int1_long_times,
        )  # fmt: skip
        kinds = (GROUP, REPORT, HOP, FAULT)
        self._arrays = {
            name: np.empty(ROOM[name], kind) for name, kind in zip(ARRAYS, kinds, strict=True)
        }
        self._output = Output(
            *(array.ctypes.data for array in self._arrays.values()), *ROOM.values()
        )
        self._decode = library().int_decode

    def decode(self, datagrams: Datagrams) -> Iterator[Decoded]:
        """Decode datagrams, in as many parts as the room for the arrays makes of them."""
        records, data = datagrams.taken
        while len(records):
            done, size = self._run(records, data)
            decoded = self._copy(data)
            self._note(decoded, records)
            yield decoded
            records, data = records[done:], data[size:]

    def _run(self, records: NDArray[np.void], data: bytes) -> tuple[int, int]:
        """Decode until the room is used up: how many datagrams, and how many bytes."""
        arrivals = np.ascontiguousarray(records, ARRIVAL)
        octets = np.frombuffer(data, np.uint8)
        given = Input(arrivals.ctypes.data, len(arrivals), octets.ctypes.data)
        for name in ARRAYS:
            setattr(self._output, f"{name}_used", 0)
        size = ctypes.c_uint64()
        done = self._decode(self._settings, given, self._output, size)
        return done, size.value

    def _copy(self, data: bytes) -> Decoded:
        groups, reports, hops, faults = (
            _copied(array[: getattr(self._output, f"{name}_used")])
            for name, array in self._arrays.items()
        )
        return Decoded(groups, reports, hops, faults, data)

    def _note(self, decoded: Decoded, records: NDArray[np.void]) -> None:
        """Count what was malformed, and keep some of it."""
        if not len(decoded.faults):
            return
        for number, count in enumerate(np.bincount(decoded.faults["parse_status"]).tolist()):
            if count:
                self.parse_errors[ParseStatus(number)] += count
        ends = np.cumsum(records["length"], dtype=np.int64)
        for fault in decoded.faults[-ASIDE:]:
            which = int(fault["datagram"])
            end, length = int(ends[which]), int(records["length"][which])
            self.aside.append(Fault(
                int(records["time_ns"][which]), ParseStatus(fault["parse_status"]),
                int(fault["offset"]),
                decoded.data[end - length : end],
            ))  # fmt: skip


def _copied(records: NDArray[np.void]) -> NDArray[np.void]:
    """As copy(), which goes through all fields one by one: several times as slow."""
    return records.view(np.uint8).copy().view(records.dtype)
