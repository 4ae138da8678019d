"""TCP flows between hosts, and records of how they fared.

In real time the hosts' kernels speak TCP, in virtual time the simulator's hosts do.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from minip4.simulator.shared import CONGESTION, TCP_ANSWERS, TCP_PROGRESS, TCP_RECEIVED
from telemark.errors import TestbedError
from telemark.traffic.flows import complete

PROGRESS, RECEIVED, ANSWERS = TCP_PROGRESS, TCP_RECEIVED, TCP_ANSWERS


LIMITS = {
    "size_bytes": (0, 2**48), "duration_s": (0, 1e6), "rate_bps": (0, 1e12), "on_s": (0, 1e6),
    "off_s": (0, 1e6), "requests": (0, 1e6), "response_bytes": (0, 2**32), "think_s": (0, 1e6),
}  # fmt: skip


@dataclass(frozen=True)
class TcpFlow:
    """Data over a TCP connection of its own: `size_bytes`, or as much as goes in `duration_s`.

    Written at `rate_bps`, or as fast as TCP takes it; with `off_s` there are silences. `requests`
    of `size_bytes` each are written one by one: the destination answers with `response_bytes`, and
    the next one follows `think_s` later. The connection is made when the flow begins.
    Raises TestbedError for what cannot be sent.
    """

    protocol: ClassVar = "TCP"

    id: int  # 0..65535
    source: str  # host names
    destination: str
    size_bytes: int = 0
    duration_s: float = 0.0
    rate_bps: float = 0.0  # of the data, without headers; 0: as fast as it goes
    port: int = 0  # of the destination; 0: 5000 + id
    source_port: int = 0  # 0: 49152 + id, from 49152 again after 65535
    dscp: int = 0
    after_s: float = 0.0  # it begins so long after the time at which traffic starts
    congestion: str = "cubic"  # control: "reno", "cubic" or "dctcp"
    ecn: bool = False  # whether switches are asked to mark packets (RFC 3168); dctcp always asks
    on_s: float = 0.0  # it is written so long, and then not for off_s, again and again
    off_s: float = 0.0
    requests: int = 0
    response_bytes: int = 0
    think_s: float = 0.0

    def __post_init__(self) -> None:
        complete(self, LIMITS)
        if bool(self.size_bytes) == bool(self.duration_s):
            raise TestbedError(f"flow {self.id}: expected either size_bytes or duration_s")
        if bool(self.on_s) != bool(self.off_s):
            raise TestbedError(f"flow {self.id}: expected both on_s and off_s, or neither")
        self._check_requests()
        if self.congestion not in CONGESTION:
            raise TestbedError(
                f"flow {self.id}: congestion {self.congestion!r} is none of {', '.join(CONGESTION)}"
            )

    def _check_requests(self) -> None:
        """Raise TestbedError for requests that cannot be, and for what goes with requests alone."""
        if bool(self.requests) != bool(self.response_bytes) or (self.think_s and not self.requests):
            raise TestbedError(
                f"flow {self.id}: expected both requests and response_bytes, or neither; think_s "
                "is between requests"
            )
        if self.requests and (self.duration_s or self.rate_bps or self.on_s):
            raise TestbedError(
                f"flow {self.id}: a request is of size_bytes, written at once: expected no "
                "duration_s, rate_bps, on_s"
            )

    @property
    def has_ecn(self) -> bool:
        """Whether its packets may be marked."""
        return self.ecn or self.congestion == "dctcp"


@dataclass(frozen=True)
class TcpRecord:
    """What happened to a TCP flow. Times are CLOCK_MONOTONIC; rows are in order of time."""

    flow: TcpFlow
    progress: NDArray[np.void]  # PROGRESS; the first row is of the flow's beginning
    received: NDArray[np.void]  # RECEIVED; a row each time that the receiver took data
    answers: NDArray[np.void]  # ANSWERS; a row for each request

    @property
    def began_ns(self) -> int:
        """When the sender asked for the connection."""
        return int(self.progress["time_ns"][0])

    @property
    def acknowledged_bytes(self) -> int:
        return int(self.progress["acknowledged"][-1])

    @property
    def received_bytes(self) -> int:
        return int(self.received["bytes"][-1]) if len(self.received) else 0

    @property
    def retransmitted_segments(self) -> int:
        """Those of the connection's setting up included."""
        return int(self.progress["retransmitted"][-1])

    @property
    def goodput_bps(self) -> float:
        """Bits of data a second that the receiver got, from the beginning to the last of them."""
        if not self.received_bytes:
            return 0.0
        return 8e9 * self.received_bytes / (int(self.received["time_ns"][-1]) - self.began_ns)

    @property
    def answered_s(self) -> NDArray[np.float64]:
        """From each request's writing until all of its answer had come; shape (requests,)."""
        return (self.answers["answered_ns"] - self.answers["asked_ns"]) / 1e9

    def goodput_over(self, interval_s: float) -> NDArray[np.float64]:
        """The same in each interval from the beginning, the last one whole: bits a second."""
        since_s = (self.received["time_ns"] - np.uint64(self.began_ns)) / 1e9
        edges_s = interval_s * np.arange(np.ceil(since_s.max(initial=0) / interval_s) + 1)
        totals = np.concatenate([[0], self.received["bytes"]])
        return 8 * np.diff(totals[np.searchsorted(since_s, edges_s, side="right")]) / interval_s
