"""Paced UDP flows between hosts. Every datagram sent or received is recorded."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
    overload,
)

import numpy as np
from numpy.typing import NDArray

from minip4.wire.shared import MAX_FRAME
from telemark.errors import InvalidRunError, TestbedError, note_invalid
from telemark.topology.links import ETHERNET_BYTES, UDP_BYTES
from telemark.topology.routes import shortest_paths

if TYPE_CHECKING:
    from telemark.network import Network
    from telemark.traffic.tcp import TcpFlow, TcpRecord

AnyFlow: TypeAlias = "Flow | TcpFlow"
AnyRecord: TypeAlias = "FlowRecord | TcpRecord"
Record = TypeVar("Record", bound=AnyRecord)

HEADERS_BYTES = ETHERNET_BYTES + UDP_BYTES
# handed_ns is the time when the send call returned. The frame reaches the other end of the veth
# pair after sent_ns and before handed_ns.
SENT = np.dtype([("sequence", "<u8"), ("sent_ns", "<u8"), ("handed_ns", "<u8")])
RECEIVED = np.dtype([("sequence", "<u8"), ("sent_ns", "<u8"), ("received_ns", "<u8")])
FIRST_PORT = 5000  # flow N has the default destination port 5000 + N
FIRST_SOURCE_PORT, SOURCE_PORTS = 49152, 16384  # range of dynamic ports (RFC 6335)
LIMITS: Mapping[str, tuple[float, float]] = {  # limits of the fields of UDP and TCP flows
    "id": (0, 0xFFFF),
    "port": (1, 0xFFFF),
    "source_port": (1, 0xFFFF),
    "dscp": (0, 63),
    "after_s": (0, 1e6),
}
SMALLEST_FRAME = 60  # minimum length in bytes, without the frame check sequence


class RateError(InvalidRunError):
    """A sender did not keep its rate."""

    records: "Mapping[int, AnyRecord]" = {}  # records of all flows, up to the last sent packet


class Pattern(Protocol):
    """Send times of the datagrams of a flow; see telemark.traffic.patterns."""

    def due_ns(self, flow: "Flow", rng: np.random.Generator) -> NDArray[np.uint64]:
        """Return the send times relative to the flow's start, ascending; shape (count,)."""


@dataclass(frozen=True)
class Flow:
    """UDP flow. Its rate is constant, unless the flow has a pattern.

    Raises TestbedError for invalid fields.
    """

    protocol: ClassVar = "UDP"

    id: int  # 0..65535; each datagram contains it
    source: str  # names of hosts (source and destination)
    destination: str
    rate_pps: float
    count: int  # number of datagrams, with sequence numbers 0..count-1
    size: int = 64  # bytes of the Ethernet frame, without the frame check sequence
    port: int = 0  # destination port; 0 means 5000 + id
    source_port: int = 0  # 0 means 49152 + id, starting again at 49152 after 65535
    dscp: int = 0
    after_s: float = 0.0  # start of the flow, relative to the start of the traffic
    pattern: Pattern | None = None
    allow_total_loss: bool = False  # True: the run does not fail if the flow loses all packets
    ttl: int = 64  # TTL of IPv4

    def __post_init__(self) -> None:
        limits = {
            "rate_pps": (1e-3, 1e8), "count": (1, 2**48), "size": (SMALLEST_FRAME, MAX_FRAME),
            "ttl": (1, 255),
        }  # fmt: skip
        complete(self, limits)


def complete(flow: AnyFlow, limits: Mapping[str, tuple[float, float]]) -> None:
    """Set default ports, and check all fields. Raises TestbedError."""
    values = vars(flow)  # the dataclass is frozen, but vars() can change its fields
    values["port"] = flow.port or FIRST_PORT + flow.id
    values["source_port"] = flow.source_port or FIRST_SOURCE_PORT + flow.id % SOURCE_PORTS
    for name, (low, high) in {**LIMITS, **limits}.items():
        value = values[name]
        if not low <= value <= high:
            raise TestbedError(f"flow {flow.id}: {name} {value}: expected {low} to {high}")
        if flow.__annotations__[name] is int:
            if value != int(value):
                raise TestbedError(f"flow {flow.id}: {name} {value}: expected a whole number")
            values[name] = int(value)  # also accepts 1e6 and numpy integers


@dataclass(frozen=True)
class Schedule:
    """Send times of a flow, in nanoseconds."""

    after_ns: int  # start of the flow, relative to the start of the traffic
    duration_ns: int  # from the start of the flow to its last datagram
    # send times relative to the start of the flow; None means a constant rate
    due_ns: NDArray[np.uint64] | None

    @classmethod
    def from_flow(cls, flow: Flow, seed: int) -> "Schedule":
        """Compute the schedule of a flow. `seed` is the seed of the network."""
        after_ns = round(flow.after_s * 1e9)
        if flow.pattern is None:
            return cls(after_ns, int((flow.count - 1) * 1e9 / flow.rate_pps), None)
        due_ns = flow.pattern.due_ns(flow, np.random.default_rng([seed, flow.id]))
        return cls(after_ns, int(due_ns[-1]), due_ns)


@dataclass(frozen=True)
class FlowRecord:
    """Datagrams that a flow sent and received, ordered by time. Times are CLOCK_MONOTONIC."""

    flow: Flow
    sent: NDArray[np.void]  # SENT records
    received: NDArray[np.void]  # RECEIVED records; received_ns is the kernel's receive timestamp
    largest_lag_ns: int  # maximum delay of the sender behind its schedule
    kernel_drops: int  # number of datagrams dropped because the receive buffer was full
    foreign: int  # number of datagrams of other flows that arrived at the flow's port
    dscp_changed: int  # number of datagrams whose DSCP differs from the DSCP that was sent

    @property
    def lost_sequences(self) -> NDArray[np.uint64]:
        """Sequence numbers that were sent but never received, ascending."""
        return np.setdiff1d(self.sent["sequence"], self.received["sequence"])


def instant_records(records: NDArray[np.void]) -> NDArray[np.void]:
    """Extend records of `sequence` and `sent_ns` to SENT records.

    The send call takes no time, so handed_ns equals sent_ns.
    """
    sent = np.empty(len(records), SENT)
    sent["sequence"], sent["sent_ns"] = records["sequence"], records["sent_ns"]
    sent["handed_ns"] = records["sent_ns"]
    return sent


class TrafficDriver(Protocol):
    """Senders and receivers of flows, in real or virtual time."""

    late_remedy: ClassVar[str]  # further remedy in the message "start is too early"

    async def prepare(self) -> int:
        """Wait until all senders and receivers are ready; return the earliest start time."""

    def begin(self, start_ns: int) -> None:
        """Schedule the start of the traffic."""

    def counts(self, flows: Sequence[int]) -> Mapping[int, tuple[int, int]]:
        """Return how much these flows have sent and received, if this is already known.

        The counts are packets of UDP flows, and bytes of TCP flows.
        """

    async def finish(self, drain_s: float) -> dict[int, AnyRecord]:
        """See Traffic.finish()."""

    async def stop(self) -> None:
        """Stop all senders and receivers; may be called at any time."""


class Traffic(Generic[Record]):
    """UDP or TCP flows with a common start time `start_ns`; use with `async with`.

    On entry, the receivers listen and the senders wait for the start. `finish()` waits for the end
    of the traffic and returns the records. If the block is left before that, the flows stop.
    Without an argument `start_ns`, traffic starts when all senders and receivers are ready. In real
    time, this takes about one second per 100 flows. The attribute `start_ns` is the actual start
    time.
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
            net.host(name)  # raises TestbedError for an unknown host
        _check_sizes(flows, net.mtu_bytes)
        _check_memory(flows)
        self._net = net
        self._flows = flows
        schedules = {f.id: Schedule.from_flow(f, net.seed) for f in flows if isinstance(f, Flow)}
        self._driver = net.backend.traffic_driver(flows, schedules)
        self._requested_ns = None if start_ns is None else int(start_ns)
        self.start_ns = 0  # set on entry
        self._shown: list[dict[str, Any]] = []  # flows on the page of --watch

    async def __aenter__(self) -> "Traffic[Record]":
        try:
            ready_ns = await self._driver.prepare()
            self.start_ns = ready_ns if self._requested_ns is None else self._requested_ns
            self._reject_late(ready_ns)
            self._driver.begin(self.start_ns)
        except BaseException:
            await self._driver.stop()
            raise
        if self._net.publisher is not None:
            self._shown = _describe_flows(self._net, self._flows)
            self._net.publisher.start_flows(self._shown, self._driver.counts)
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._driver.stop()
        if self._net.publisher is not None:
            # flows that finish() did not end; later flows may have the same ids
            self._net.publisher.end_flows(self._shown, {})

    async def finish(self, drain_s: float = 0.3) -> dict[int, Record]:
        """Wait until all packets are sent.

        Then wait for `drain_s`, so that packets in flight arrive.

        Returns a map from flow id to record: FlowRecord for UDP, TcpRecord for TCP. The packet
        accounting shows whether `drain_s` was long enough. If a sender did not keep its rate, the
        run is inconclusive (RateError). Raises TestbedError if a program failed.
        """
        records: Mapping[int, AnyRecord]
        try:
            records = await self._driver.finish(drain_s)
        except RateError as error:
            note_invalid(error)
            records = error.records
        self._net.drop_report.add_flows(self._net.name, records.values())
        if self._net.publisher is not None:
            counts = {number: _final_counts(record) for number, record in records.items()}
            self._net.publisher.end_flows(self._shown, counts)
        return cast("dict[int, Record]", records)  # the overloads of __init__ define the type

    def _reject_late(self, ready_ns: int) -> None:
        """Raise TestbedError if a flow would start before the driver is ready (`ready_ns`)."""
        for flow in sorted(self._flows, key=lambda flow: flow.after_s):
            late_ns = ready_ns - self.start_ns - round(flow.after_s * 1e9)
            if late_ns > 0:
                raise TestbedError(
                    f"flow {flow.id} of {flow.source}: start time is {late_ns / 1e9:g} s too "
                    f"early, before all {len(self._flows)} flows are ready; omit Traffic's "
                    f"start_ns, or "
                    f"increase it{self._driver.late_remedy}"
                )


def _describe_flows(net: "Network", flows: Sequence[AnyFlow]) -> list[dict[str, Any]]:
    """Describe flows for the page of --watch.

    `path` is None if there are several shortest paths.
    """
    paths = shortest_paths(net.topo, [(flow.source, flow.destination) for flow in flows])
    return [
        {
            "id": flow.id, "protocol": flow.protocol, "from": flow.source, "to": flow.destination,
            "endpoints": [net.host(flow.source).IP(), net.host(flow.destination).IP(),
                          flow.source_port, flow.port],
            "path": path,
        }
        for flow, path in zip(flows, paths, strict=True)
    ]  # fmt: skip


def _final_counts(record: AnyRecord) -> tuple[int, int]:
    """Return how much a flow has sent and received: packets of UDP, or bytes of TCP."""
    if isinstance(record, FlowRecord):
        return len(record.sent), len(record.received)
    return record.written_bytes, record.received_bytes


def _check_sizes(flows: Sequence[AnyFlow], mtu_bytes: int) -> None:
    """Raise TestbedError for a flow whose datagrams exceed the MTU."""
    for flow in flows:
        if isinstance(flow, Flow) and flow.size > ETHERNET_BYTES + mtu_bytes:
            raise TestbedError(
                f"flow {flow.id}: size {flow.size} exceeds {ETHERNET_BYTES + mtu_bytes}, the "
                f"longest frame of hosts with an MTU of {mtu_bytes}; reduce the size or use "
                f"Network(mtu_bytes={flow.size - ETHERNET_BYTES})"
            )


def _check_memory(flows: Sequence[AnyFlow]) -> None:
    """Raise TestbedError if this machine's memory is too small for the records of all datagrams."""
    count = sum(flow.count for flow in flows if isinstance(flow, Flow))
    needed = count * (SENT.itemsize + RECEIVED.itemsize)
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > available:
        raise TestbedError(
            f"{count:.2g} datagrams: their records need {needed / 2**30:,.0f} GiB of memory, this "
            f"machine has {available / 2**30:,.0f} GiB; send fewer datagrams"
        )


def _check_ports(flows: Sequence[AnyFlow]) -> None:
    """Raise TestbedError if two flows have the same id, or use the same port at a host."""
    ids: set[int] = set()
    destinations: dict[tuple[str, str, int], int] = {}  # map from protocol, host and port to flow
    for flow in flows:
        if flow.id in ids:
            raise TestbedError(f"flow {flow.id}: two flows have this id; use unique ids")
        ids.add(flow.id)
        other = destinations.setdefault((flow.protocol, flow.destination, flow.port), flow.id)
        if other != flow.id:
            raise TestbedError(
                f"flows {other} and {flow.id}: both use destination port {flow.port} of "
                f"{flow.destination}; set another port"
            )
    for flow in flows:
        other = destinations.get((flow.protocol, flow.source, flow.source_port), flow.id)
        if other != flow.id:
            raise TestbedError(
                f"flow {flow.id}: source port {flow.source_port} of {flow.source} is the "
                f"destination port of flow {other}; set another source_port"
            )
