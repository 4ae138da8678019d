"""Ground truth of queue lengths and ECN marks of TCP segments, from captures of switch ports."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from telemark.accounting import pcap
from telemark.network import Network

ETHERTYPE, TOS, PROTOCOL = 12, 15, 23  # offsets of fields in a frame
IPV4, TCP = (0x08, 0x00), 6
ECN_BITS, MARKED = 3, 3  # congestion experienced (CE), RFC 3168 section 5
# Bytes that no switch changes: length, identification, addresses, ports, sequence numbers, options.
UNCHANGED = np.r_[16:20, 26:66]
MIN_BYTES = 200  # min length of a frame with data; handshakes and pure acknowledgements are shorter


@dataclass(frozen=True)
class QueueTrace:
    """Segments with data that left by a port with one queue, in order of departure.

    The min and max queue lengths of a segment differ if another packet left in the nanosecond in
    which the segment arrived. In real time, they also differ if a packet left after the arrival but
    before the switch received the segment.
    """

    arrived_ns: NDArray[np.int64]
    min_queued: NDArray[np.int64]  # number of packets in the queue on arrival
    max_queued: NDArray[np.int64]
    is_capable: NDArray[np.bool_]  # True for an ECN-capable transport (ECT)
    is_marked: NDArray[np.bool_]

    def wrong_marks(self, threshold: int) -> int:
        """Count segments marked below the threshold and segments not marked at or above it."""
        below = self.is_marked & (self.max_queued < threshold)
        above = self.is_capable & ~self.is_marked & (self.min_queued >= threshold)
        return int(np.sum(below | above))

    def between(self, begin_ns: float, end_ns: float) -> "QueueTrace":
        """Return the segments that arrived in an interval."""
        ours = (self.arrived_ns >= begin_ns) & (self.arrived_ns < end_ns)
        return QueueTrace(*(values[ours] for values in vars(self).values()))


def read_trace(net: Network, switch: str, before: str, after: str, *, stamped: bool) -> QueueTrace:
    """Return the trace of the port towards `after`, after the network has stopped.

    All its segments must arrive from the neighbour `before`. `stamped` is true in real time for a
    network with a stamp log.
    """
    left = pcap.read(net.capture(switch, after, "out"))
    rows = _segments(left)
    keys = _keys(left, rows)
    arrived_ns, taken_ns = (
        np.array([*map(_times(net.capture(switch, before, what)).__getitem__, keys)], np.int64)
        for what in ("in", "taken" if stamped else "in")
    )
    left_ns = left.time_ns.astype(np.int64)
    low = np.maximum(rows - np.searchsorted(left_ns, taken_ns, "right"), 0)
    high = np.maximum(rows - np.searchsorted(left_ns, arrived_ns, "left"), 0)
    ecn = left.bytes[rows, TOS] & ECN_BITS
    return QueueTrace(arrived_ns, low, high, ecn != 0, ecn == MARKED)


def _segments(frames: pcap.Frames) -> NDArray[np.int64]:
    """Return the indices of TCP frames with data."""
    is_ipv4 = (frames.bytes[:, ETHERTYPE : ETHERTYPE + 2] == IPV4).all(axis=1)
    is_data = (frames.bytes[:, PROTOCOL] == TCP) & (frames.length >= MIN_BYTES)
    return np.flatnonzero(is_ipv4 & is_data)


def _keys(frames: pcap.Frames, rows: NDArray[np.int64]) -> list[bytes]:
    return [row.tobytes() for row in frames.bytes[rows][:, UNCHANGED]]


def _times(path: Path) -> dict[bytes, int]:
    """Return the time of each segment in a capture, by those bytes that switches do not change.

    A retransmission has another identification or timestamp, so it has another key.
    """
    frames = pcap.read(path)
    rows = _segments(frames)
    return dict(zip(_keys(frames, rows), frames.time_ns[rows].tolist(), strict=True))
