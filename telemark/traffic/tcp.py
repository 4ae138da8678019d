"""TCP flows between hosts, and their records.

In real time, TCP runs in the kernels of the hosts. In virtual time, simulated hosts implement TCP.
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
    """Transfer of `size_bytes`, or for `duration_s`, over one TCP connection.

    The source writes data at `rate_bps`, or as fast as TCP accepts data. With `off_s`, it writes in
    bursts. With `requests`, each request has `size_bytes`. The destination responds with
    `response_bytes`, and the next request follows after `think_s`. The connection opens when the
    flow starts. Raises TestbedError for invalid fields.
    """

    protocol: ClassVar = "TCP"

    id: int  # 0..65535
    source: str  # names of hosts (source and destination)
    destination: str
    size_bytes: int = 0
    duration_s: float = 0.0
    rate_bps: float = 0.0  # data rate without headers; 0 means unlimited
    port: int = 0  # destination port; 0 means 5000 + id
    source_port: int = 0  # 0 means 49152 + id, starting again at 49152 after 65535
    dscp: int = 0
    after_s: float = 0.0  # start of the flow, relative to the start of the traffic
    congestion: str = "cubic"  # congestion control: "reno", "cubic" or "dctcp"
    ecn: bool = False  # negotiate ECN (RFC 3168); always on for dctcp
    on_s: float = 0.0  # duration of bursts; silences of off_s follow them
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
                f"flow {self.id}: congestion {self.congestion!r}: expected one of "
                f"{', '.join(CONGESTION)}"
            )

    def _check_requests(self) -> None:
        """Raise TestbedError if the fields of requests cannot be combined."""
        if bool(self.requests) != bool(self.response_bytes) or (self.think_s and not self.requests):
            raise TestbedError(
                f"flow {self.id}: expected both requests and response_bytes, or neither; think_s "
                "needs requests"
            )
        if self.requests and (self.duration_s or self.rate_bps or self.on_s):
            raise TestbedError(
                f"flow {self.id}: requests have size_bytes and no pacing: expected no duration_s, "
                "rate_bps, on_s"
            )

    @property
    def has_ecn(self) -> bool:
        """True if the packets are ECN-capable."""
        return self.ecn or self.congestion == "dctcp"


@dataclass(frozen=True)
class TcpRecord:
    """Progress of a TCP flow. Times are CLOCK_MONOTONIC. Rows are ordered by time."""

    flow: TcpFlow
    progress: NDArray[np.void]  # PROGRESS records; the first row is the start of the flow
    received: NDArray[np.void]  # RECEIVED records, one per read call of the receiving program
    answers: NDArray[np.void]  # ANSWERS records, one per request

    @property
    def began_ns(self) -> int:
        """Time at which the sender began to open the connection."""
        return int(self.progress["time_ns"][0])

    @property
    def written_bytes(self) -> int:
        """Number of bytes that the sender wrote to its connection."""
        return int(self.progress["written"][-1])

    @property
    def acknowledged_bytes(self) -> int:
        return int(self.progress["acknowledged"][-1])

    @property
    def received_bytes(self) -> int:
        return int(self.received["bytes"][-1]) if len(self.received) else 0

    @property
    def retransmitted_segments(self) -> int:
        """Number of retransmitted segments, including SYNs."""
        return int(self.progress["retransmitted"][-1])

    @property
    def goodput_bps(self) -> float:
        """Goodput in bit/s, from the start of the flow to the last received byte."""
        if not self.received_bytes:
            return 0.0
        return 8e9 * self.received_bytes / (int(self.received["time_ns"][-1]) - self.began_ns)

    @property
    def answered_s(self) -> NDArray[np.float64]:
        """Time (s) from each request to the last byte of its response; shape (requests,)."""
        return (self.answers["answered_ns"] - self.answers["asked_ns"]) / 1e9

    def goodput_over(self, interval_s: float) -> NDArray[np.float64]:
        """Return the goodput (bit/s) per interval since the start. All intervals are complete."""
        since_s = (self.received["time_ns"] - np.uint64(self.began_ns)) / 1e9
        edges_s = interval_s * np.arange(np.ceil(since_s.max(initial=0) / interval_s) + 1)
        totals = np.concatenate([[0], self.received["bytes"]])
        return 8 * np.diff(totals[np.searchsorted(since_s, edges_s, side="right")]) / interval_s
