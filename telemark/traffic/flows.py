"""Traffic: paced UDP flows between hosts, and exact records of what was sent and received."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeAlias, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from minip4.wire.shared import MAX_FRAME
from telemark.errors import TestbedError
from telemark.topology.links import ETHERNET_BYTES, UDP_BYTES

if TYPE_CHECKING:
    from telemark.network import Network
    from telemark.traffic.tcp import TcpFlow, TcpRecord

AnyFlow: TypeAlias = "Flow | TcpFlow"
AnyRecord: TypeAlias = "FlowRecord | TcpRecord"
Record = TypeVar("Record", bound=AnyRecord)

HEADERS_BYTES = ETHERNET_BYTES + UDP_BYTES
# handed_ns: when the call that sent it had returned. In between its frame was at the other end.
SENT = np.dtype([("sequence", "<u8"), ("sent_ns", "<u8"), ("handed_ns", "<u8")])
RECEIVED = np.dtype([("sequence", "<u8"), ("sent_ns", "<u8"), ("received_ns", "<u8")])
FIRST_PORT = 5000  # of destinations: flow 1 arrives at port 5001
FIRST_SOURCE_PORT, SOURCE_PORTS = 49152, 16384  # nobody is assigned these (RFC 6335)
LIMITS: Mapping[str, tuple[float, float]] = {  # of what all flows have
    "id": (0, 0xFFFF),
    "port": (1, 0xFFFF),
    "source_port": (1, 0xFFFF),
    "dscp": (0, 63),
    "after_s": (0, 1e6),
}
SMALLEST_FRAME = 60  # bytes, without the frame check sequence


class RateError(TestbedError):
    """A sender did not keep its rate."""


class Pattern(Protocol):
    """When the datagrams of a flow are sent: see telemark.traffic.patterns."""

    def due_ns(self, flow: "Flow", rng: np.random.Generator) -> NDArray[np.uint64]:
        """Offsets to the flow's start, ascending; shape (count,)."""


@dataclass(frozen=True)
class Flow:
    """A UDP flow, at a steady rate where it has no pattern.

    Raises TestbedError for what cannot be sent.
    """

    protocol: ClassVar = "UDP"

    id: int  # 0..65535, carried by each datagram
    source: str  # host names
    destination: str
    rate_pps: float
    count: int  # datagrams, sequence numbers 0..count-1
    size: int = 64  # bytes of the Ethernet frame, without the frame check sequence
    port: int = 0  # of the destination; 0: 5000 + id
    source_port: int = 0  # 0: 49152 + id, from 49152 again after 65535
    dscp: int = 0
    after_s: float = 0.0  # it begins so long after the time at which traffic starts
    pattern: Pattern | None = None
    allow_total_loss: bool = False  # else a run in which nothing of it arrives fails
    ttl: int = 64  # of IPv4: how many routers may pass it on

    def __post_init__(self) -> None:
        limits = {
            "rate_pps": (1e-3, 1e8), "count": (1, 2**48), "size": (SMALLEST_FRAME, MAX_FRAME),
            "ttl": (1, 255),
        }  # fmt: skip
        complete(self, limits)


def complete(flow: AnyFlow, limits: Mapping[str, tuple[float, float]]) -> None:
    """Fill in the ports that are not given, and check all fields. Raises TestbedError."""
    values = vars(flow)  # a frozen dataclass sets its own in this way
    values["port"] = flow.port or FIRST_PORT + flow.id
    values["source_port"] = flow.source_port or FIRST_SOURCE_PORT + flow.id % SOURCE_PORTS
    for what, (low, high) in {**LIMITS, **limits}.items():
        value = values[what]
        if not low <= value <= high:
            raise TestbedError(f"flow {flow.id}: {what} {value} is not from {low} to {high}")
        if flow.__annotations__[what] is int:
            if value != int(value):
                raise TestbedError(f"flow {flow.id}: {what} {value} is not a whole number")
            values[what] = int(value)  # 1e6 and numpy's are welcome


@dataclass(frozen=True)
class Schedule:
    """When a flow is sent, in nanoseconds."""

    after_ns: int  # the flow begins so long after traffic starts
    duration_ns: int  # from its beginning until its last datagram is due
    due_ns: NDArray[np.uint64] | None  # offsets to its beginning; None: a steady rate

    @classmethod
    def of(cls, flow: Flow, seed: int) -> "Schedule":
        """`seed` is the network's."""
        after_ns = round(flow.after_s * 1e9)
        if flow.pattern is None:
            return cls(after_ns, int((flow.count - 1) * 1e9 / flow.rate_pps), None)
        due_ns = flow.pattern.due_ns(flow, np.random.default_rng([seed, flow.id]))
        return cls(after_ns, int(due_ns[-1]), due_ns)


@dataclass(frozen=True)
class FlowRecord:
    """What happened to a flow. Times are CLOCK_MONOTONIC; rows are in order of time."""

    flow: Flow
    sent: NDArray[np.void]  # SENT
    received: NDArray[np.void]  # RECEIVED; received_ns is when the kernel took the frame in
    largest_lag_ns: int  # how far the sender was behind its schedule, at worst
    kernel_drops: int  # datagrams that found the receiving socket's buffer full
    foreign: int  # datagrams at the flow's port that are not of the flow
    dscp_changed: int  # datagrams that arrived with another DSCP than they were sent with

    @property
    def lost_sequences(self) -> NDArray[np.uint64]:
        """Sequence numbers that were sent and never received, ascending."""
        return np.setdiff1d(self.sent["sequence"], self.received["sequence"])


def instant_records(records: NDArray[np.void]) -> NDArray[np.void]:
    """What a sender records where sending takes no time, of `sequence` and `sent_ns`."""
    sent = np.empty(len(records), SENT)
    sent["sequence"], sent["sent_ns"] = records["sequence"], records["sent_ns"]
    sent["handed_ns"] = records["sent_ns"]
    return sent


class TrafficDriver(Protocol):
    """What sends and receives flows, in real or in virtual time."""

    late_remedy: ClassVar[str]  # what else helps where flows begin before all is ready

    async def prepare(self) -> int:
        """Return when all is ready to send and to receive: from when on traffic can start."""

    def begin(self, start_ns: int) -> None:
        """Have traffic start then."""

    async def finish(self, drain_s: float) -> dict[int, AnyRecord]:
        """See Traffic.finish()."""

    async def stop(self) -> None:
        """End what still runs; may be called at any time."""


class Traffic(Generic[Record]):
    """Flows, UDP or TCP, that start together at `start_ns`; use with `async with`.

    On entry the receivers listen and the senders wait for their time; `finish()` waits for the
    end and returns the records. Leaving early ends the flows. Without `start_ns` they start as
    soon as all are ready: in real time, senders and receivers are processes, of which a hundred
    take a second or so. `start_ns` then says when it was.
    """

    @overload
    def __init__(
        self: "Traffic[FlowRecord]", net: "Network", flows: "Sequence[Flow]",
        start_ns: float | None = None,
    ) -> None: ...  # fmt: skip

    @overload
    def __init__(
        self: "Traffic[TcpRecord]", net: "Network", flows: "Sequence[TcpFlow]",
        start_ns: float | None = None,
    ) -> None: ...  # fmt: skip

    @overload
    def __init__(
        self: "Traffic[AnyRecord]", net: "Network", flows: Sequence[AnyFlow],
        start_ns: float | None = None,
    ) -> None: ...  # fmt: skip

    def __init__(
        self, net: "Network", flows: Sequence[AnyFlow], start_ns: float | None = None
    ) -> None:
        _check_ports(flows)
        for name in sorted({name for flow in flows for name in (flow.source, flow.destination)}):
            net.host(name)  # which raises where there is none
        _check_sizes(flows, net.mtu_bytes)
        _check_memory(flows)
        self._net = net
        self._flows = flows
        schedules = {f.id: Schedule.from_flow(f, net.seed) for f in flows if isinstance(f, Flow)}
        self._driver = net.backend.traffic_driver(flows, schedules)
        self._wanted_ns = None if start_ns is None else int(start_ns)  # of `now + 0.5 * SECOND`
        self.start_ns = 0  # known from entry on

    async def __aenter__(self) -> "Traffic[Record]":
        try:
            ready_ns = await self._driver.prepare()
            self.start_ns = ready_ns if self._wanted_ns is None else self._wanted_ns
            self._reject_late(ready_ns)
            self._driver.begin(self.start_ns)
        except BaseException:
            await self._driver.stop()
            raise
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._driver.stop()

    async def finish(self, drain_s: float = 0.3) -> dict[int, Record]:
        """Wait until all is sent, and `drain_s` longer for what is on its way.

        Returns the records by the flows' ids: FlowRecord for UDP, TcpRecord for TCP.
        The books tell whether that was long enough. Raises TestbedError when a sender did not
        keep its rate (RateError), or when a program failed.
        """
        records = await self._driver.finish(drain_s)
        self._net.drop_report.add_flows(self._net.name, records.values())
        return cast("dict[int, Record]", records)  # of the flows' kind: see __init__

    def _reject_late(self, ready_ns: int) -> None:
        """Raise TestbedError when a flow was to begin before all were ready."""
        for flow in sorted(self._flows, key=lambda flow: flow.after_s):
            late_ns = ready_ns - self.start_ns - round(flow.after_s * 1e9)
            if late_ns > 0:
                raise TestbedError(
                    f"flow {flow.id} of {flow.source} was to begin {late_ns / 1e9:g} s before "
                    f"everything was ready ({len(self._flows)} flows): leave out Traffic's "
                    f"start_ns, make it so much later{self._driver.late_remedy}"
                )


def _check_sizes(flows: Sequence[AnyFlow], mtu_bytes: int) -> None:
    """Raise TestbedError for a flow whose datagrams a host would have to cut."""
    for flow in flows:
        if isinstance(flow, Flow) and flow.size > ETHERNET_BYTES + mtu_bytes:
            raise TestbedError(
                f"flow {flow.id}: size {flow.size} is more than {ETHERNET_BYTES + mtu_bytes}, the "
                f"longest frame of hosts with an MTU of {mtu_bytes}: make it smaller, or the MTU "
                f"larger, Network(mtu_bytes={flow.size - ETHERNET_BYTES})"
            )


def _check_memory(flows: Sequence[AnyFlow]) -> None:
    """Raise TestbedError for more datagrams than this machine could keep the records of."""
    count = sum(flow.count for flow in flows if isinstance(flow, Flow))
    needed = count * (SENT.itemsize + RECEIVED.itemsize)
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        raise TestbedError(
            f"{count:.2g} datagrams: what was sent and received of so many takes "
            f"{needed / 2**30:,.0f} GiB of memory, of which this machine has "
            f"{there / 2**30:,.0f}: send fewer, or for a shorter time"
        )


def _check_ports(flows: Sequence[AnyFlow]) -> None:
    """Raise TestbedError where two flows have one id, or want one port of a host."""
    ids: set[int] = set()
    arriving: dict[tuple[str, str, int], int] = {}  # protocol, host and port -> flow
    for flow in flows:
        if flow.id in ids:
            raise TestbedError(f"two flows have the same id: {flow.id}")
        ids.add(flow.id)
        other = arriving.setdefault((flow.protocol, flow.destination, flow.port), flow.id)
        if other != flow.id:
            raise TestbedError(
                f"flows {other} and {flow.id} both arrive at port {flow.port} of "
                f"{flow.destination}: give one of them another port"
            )
    for flow in flows:
        other = arriving.get((flow.protocol, flow.source, flow.source_port), flow.id)
        if other != flow.id:
            raise TestbedError(
                f"flow {flow.id} leaves {flow.source} by port {flow.source_port}, at which flow "
                f"{other} arrives: give it another source_port"
            )
