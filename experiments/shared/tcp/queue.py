"""What TCP's segments met in a queue, and which were marked: by captures of a switch's ports."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from telemark.accounting import pcap
from telemark.network import Network

ETHERTYPE, TOS, PROTOCOL = 12, 15, 23  # offsets in a frame
IPV4, TCP = (0x08, 0x00), 6
ECN_BITS, MARKED = 3, 3  # CE of RFC 3168, 5
# No switch here changes them: length and identification; addresses, ports, numbers, options.
UNCHANGED = np.r_[16:20, 26:66]
LEAST_BYTES = 200  # of a frame with data; handshakes and acknowledgements alone have fewer


@dataclass(frozen=True)
class Met:
    """All segments with data that left by a port with one queue; an element for each, in order.

    Captures do not tell of a packet that left the queue at the very nanosecond at which another
    came to it, nor in real time of those that left until the switch had taken that one in.
    """

    came_ns: NDArray[np.int64]
    min_queued: NDArray[np.int64]  # packets in the queue when it came
    max_queued: NDArray[np.int64]
    is_capable: NDArray[np.bool_]  # its hosts speak ECN
    is_marked: NDArray[np.bool_]

    def wrong_marks(self, threshold: int) -> int:
        """Segments that are marked though fewer waited, or are not though as many did."""
        below = self.is_marked & (self.max_queued < threshold)
        above = self.is_capable & ~self.is_marked & (self.min_queued >= threshold)
        return int(np.sum(below | above))

    def between(self, begin_ns: float, end_ns: float) -> "Met":
        """Those that came from then on, and before that."""
        ours = (self.came_ns >= begin_ns) & (self.came_ns < end_ns)
        return Met(*(values[ours] for values in vars(self).values()))


def read_met(net: Network, switch: str, before: str, after: str, *, stamped: bool) -> Met:
    """Of the port towards the neighbour `after`, when the net has ended.

    All segments there must have come from the neighbour `before`. `stamped`: in real time, of a
    network with a stamp log.
    """
    left = pcap.read(net.capture(switch, after, "out"))
    rows = _segments(left)
    keys = _keys(left, rows)
    came_ns, taken_ns = (
        np.array([*map(_times(net.capture(switch, before, what)).__getitem__, keys)], np.int64)
        for what in ("in", "taken" if stamped else "in")
    )
    left_ns = left.time_ns.astype(np.int64)
    least = np.maximum(rows - np.searchsorted(left_ns, taken_ns, "right"), 0)
    most = np.maximum(rows - np.searchsorted(left_ns, came_ns, "left"), 0)
    ecn = left.bytes[rows, TOS] & ECN_BITS
    return Met(came_ns, least, most, ecn != 0, ecn == MARKED)


def _segments(frames: pcap.Frames) -> NDArray[np.int64]:
    """Which frames are TCP's, with data."""
    is_ipv4 = (frames.bytes[:, ETHERTYPE : ETHERTYPE + 2] == IPV4).all(axis=1)
    is_data = (frames.bytes[:, PROTOCOL] == TCP) & (frames.length >= LEAST_BYTES)
    return np.flatnonzero(is_ipv4 & is_data)


def _keys(frames: pcap.Frames, rows: NDArray[np.int64]) -> list[bytes]:
    return [row.tobytes() for row in frames.bytes[rows][:, UNCHANGED]]


def _times(path: Path) -> dict[bytes, int]:
    """When each segment of a capture passed. Retransmissions have an identification, or a
    timestamp, of their own."""
    frames = pcap.read(path)
    rows = _segments(frames)
    return dict(zip(_keys(frames, rows), frames.time_ns[rows].tolist(), strict=True))
