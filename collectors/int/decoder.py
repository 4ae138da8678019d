"""Decoder of Telemetry Reports 2.0 and 1.0, with INT 2.1 and 1.0 in the reported packets.

The decoder follows the specifications (p4lang/p4-applications: Telemetry Report Format
Specification 2.0, INT Dataplane Specification 2.1). Class Encoding has the parameters that the
specifications leave open, such as units.
"""

import ctypes
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from collectors.int.native import (
    ARRAYS,
    FAULT,
    GROUP,
    HOP,
    REPORT,
    Input,
    Output,
    ParseStatus,
    Settings,
    library,
)
from minip4.simulator.shared import ARRIVAL
from telemark.traffic.received import Datagrams

# maximum numbers of records per call of the C function
ROOM = {"groups": 4096, "reports": 1 << 15, "hops": 1 << 16, "faults": 1 << 15}
# maximum number of malformed datagrams that are stored; new datagrams replace the oldest
ASIDE = 100


@dataclass(frozen=True)
class Encoding:
    """Parameters that the specifications leave to the deployment."""

    port: int = 0  # UDP destination port that indicates INT; 0 means none
    dscp: int = 0  # DSCP that indicates INT after TCP and UDP
    # mask of the DSCP bits that are compared; 0 means that the DSCP does not indicate INT
    dscp_mask: int = 0
    marker: int = 0  # probe marker (64 bits) that indicates INT after TCP and UDP; 0 means none
    timestamp_unit_ns: int = 1  # unit of 64-bit timestamps
    latency_unit_ns: int = 1  # unit of hop latencies
    # True if INT 1.0 has GEANT's format: 64-bit times and 16-bit level 2 interfaces
    int1_long_times: bool = False
    # unit of the fraction of a second in IOAM: 1000 (POSIX), 1 (PTP), or 0 (NTP, 2^-32 s)
    ioam_fraction_ns: int = 1000


class Decoded(NamedTuple):
    """Decoded datagrams, as structured arrays (collectors.int.native, c/records.h)."""

    groups: NDArray[np.void]  # GROUP records: datagrams with a valid header, in order of arrival
    # REPORT records in order; `group` is the index of the datagram in `groups`
    reports: NDArray[np.void]
    # HOP records: the hops of the first report, then of the next report, and so on; the source is
    # first
    hops: NDArray[np.void]
    faults: NDArray[np.void]  # FAULT records: parse errors; each has the number of its datagram
    # bytes of the input; the fields `at`, `ds_at` and `int_ds_at` are offsets in these bytes
    data: bytes


class Fault(NamedTuple):
    """A parse error. The payload of the datagram is stored for inspection."""

    time_ns: int
    status: ParseStatus
    offset: int  # offset of the report in the payload; 0 if the error is not in a report
    payload: bytes


class Decoder:
    """Decodes datagrams into arrays. It counts malformed input in `parse_errors`.

    `aside` stores the latest malformed datagrams. If the metadata of a report are valid, but its
    packet is malformed or truncated, the report is returned with a `parse_status`, and the error is
    counted.
    """

    def __init__(self, encoding: Encoding) -> None:
        self.parse_errors: Counter[ParseStatus] = Counter()
        self.aside: deque[Fault] = deque(maxlen=ASIDE)
        self._settings = Settings(
            encoding.timestamp_unit_ns, encoding.latency_unit_ns, encoding.ioam_fraction_ns,
            encoding.marker, encoding.port, encoding.dscp, encoding.dscp_mask,
            encoding.int1_long_times,
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
        """Decode datagrams. Yield the results in parts, each of which fits into the arrays."""
        records, data = datagrams.taken
        while len(records):
            done, size = self._run(records, data)
            decoded = self._copy(data)
            self._note(decoded, records)
            yield decoded
            records, data = records[done:], data[size:]

    def _run(self, records: NDArray[np.void], data: bytes) -> tuple[int, int]:
        """Decode until the arrays are full.

        Return the numbers of decoded datagrams and of their bytes.
        """
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
            _copy_array(array[: getattr(self._output, f"{name}_used")])
            for name, array in self._arrays.items()
        )
        return Decoded(groups, reports, hops, faults, data)

    def _note(self, decoded: Decoded, records: NDArray[np.void]) -> None:
        """Count parse errors, and store some of the malformed datagrams."""
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


def _copy_array(records: NDArray[np.void]) -> NDArray[np.void]:
    """Copy a structured array as bytes.

    copy() takes several times as long, because it copies each field separately.
    """
    return records.view(np.uint8).copy().view(records.dtype)
