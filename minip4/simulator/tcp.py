"""TCP connections between hosts of a virtual network."""

from ctypes import byref
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from minip4.engine.errors import EngineError, InvalidArgument
from minip4.simulator.handle import Caller
from minip4.simulator.shared import (
    CONGESTION,
    NONE,
    TCP_ANSWERS,
    TCP_PROGRESS,
    TCP_RECEIVED,
    TcpConfig,
    copied,
)
from minip4.simulator.shared import TcpResult as Result


@dataclass(frozen=True, slots=True)
class TcpSpec:
    """A TCP connection and its traffic (struct virtual_tcp_config of virtual.h).

    The source opens the connection and sends the data.
    """

    source: int
    destination: int
    isn: tuple[int, int]  # initial sequence numbers of the source and of the destination
    source_port: int
    destination_port: int
    tos: int  # DSCP << 2
    congestion: str  # name of the congestion control, one of CONGESTION
    ecn: bool
    size_bytes: int
    duration_ns: int  # duration of the flow, used instead of a size
    start_ns: int
    rate_bps: float = 0.0  # rate of the application; 0: as fast as TCP allows
    on_ns: int = 0  # alternating periods with and without writes; 0: no pauses
    off_ns: int = 0
    # size of requests, each sent after the response to the previous one; 0: no requests
    request_bytes: int = 0
    response_bytes: int = 0
    think_ns: int = 0


@dataclass(frozen=True, slots=True)
class TcpResult:
    """The result of a connection.

    The arrays have the dtypes TCP_PROGRESS, TCP_RECEIVED and TCP_ANSWERS.

    """

    progress: NDArray[np.void]
    received: NDArray[np.void]
    answers: NDArray[np.void]
    retransmitted: int  # number of segments that the source retransmitted
    is_acknowledged: bool  # all data were acknowledged
    has_failed: bool  # no connection, ten seconds without progress, or reset
    was_reset: bool  # a RST refused or ended the connection


class Connections(Caller):
    """The TCP connections of a Virtual network, numbered in the order of adding."""

    def add(self, spec: TcpSpec) -> int:
        """Add a connection and return its number. The connection opens at its start time."""
        config = TcpConfig(
            spec.source, spec.destination, spec.isn, spec.source_port, spec.destination_port,
            spec.tos, CONGESTION.index(spec.congestion), spec.ecn, spec.size_bytes,
            spec.duration_ns, spec.start_ns, spec.rate_bps, spec.on_ns, spec.off_ns,
            spec.request_bytes, spec.response_bytes, spec.think_ns,
        )  # fmt: skip
        number = self._library.virtual_add_tcp(self._handle, byref(config))
        if number == NONE:
            raise InvalidArgument(
                f"a connection from TCP port {spec.source_port} to "
                f"{spec.destination_port} exists already, or there is no memory left"
            )
        return int(number)

    def is_over(self, connection: int) -> bool:
        """Return whether the connection has ended: all data were acknowledged, or it has failed."""
        result = self._result(connection)
        return bool(result.is_acknowledged or result.has_failed)

    def result(self, connection: int) -> TcpResult:
        """Return the current result of a connection."""
        result = self._result(connection)
        return TcpResult(
            copied(result.progress, result.progress_count, TCP_PROGRESS),
            copied(result.received, result.received_count, TCP_RECEIVED),
            copied(result.answers, result.answers_count, TCP_ANSWERS),
            result.retransmitted, result.is_acknowledged, result.has_failed, result.was_reset,
        )  # fmt: skip

    def byte_counts(self, connection: int) -> tuple[int, int]:
        """Return how many bytes the source has written, and the destination has received."""
        result = self._result(connection)
        written = _last(result.progress, result.progress_count, TCP_PROGRESS, "written")
        received = _last(result.received, result.received_count, TCP_RECEIVED, "bytes")
        # the last record of the source may be older than that of the destination
        return max(written, received), received

    def remove(self, connection: int) -> None:
        """End a connection immediately and free its ports."""
        self._library.virtual_remove_tcp(self._handle, connection)

    def _result(self, connection: int) -> Result:
        result = Result()
        if not self._library.virtual_tcp_result(self._handle, connection, byref(result)):
            raise EngineError("out of memory: segments were lost")
        return result


def _last(start: int | None, count: int, dtype: np.dtype[np.void], name: str) -> int:
    """Return a field of the last C record; 0 if there is no record."""
    if not start or not count:
        return 0
    return int(copied(start + (count - 1) * dtype.itemsize, 1, dtype)[name][0])
