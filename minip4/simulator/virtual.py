"""A virtual network: engines, hosts and wires on one event queue in C, in virtual time."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from ctypes import POINTER, byref, c_bool, c_int, c_size_t, c_uint8, c_uint16, c_uint32
from ctypes import c_char_p as text
from ctypes import c_uint64 as u64
from ctypes import c_void_p as handle
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from minip4.engine.engine import Engine
from minip4.engine.errors import EngineError, InvalidArgument
from minip4.errors import Minip4Error
from minip4.native import build, layouts
from minip4.native.library import address
from minip4.simulator import C_FOLDER, shared
from minip4.simulator.handle import Caller, Handle
from minip4.simulator.inboxes import Inboxes
from minip4.simulator.shared import (
    CALLS,
    CAPTURES,
    MAX_THREADS,
    NO_CPU_PORT,
    NONE,
    RECEIVED,
    SENT,
    Calls,
    FlowConfig,
    HostCounters,
    PartitionState,
    Stop,
    copied,
)
from minip4.simulator.tcp import Connections
from minip4.wire import C_FOLDER as WIRE
from minip4.wire.shared import FRAME_ROOM, MAX_FRAME, SNAPLEN

NEVER = 2**64 - 1


@dataclass(frozen=True, slots=True)
class FlowSpec:
    """A flow of UDP datagrams between two hosts (struct virtual_flow_config of virtual.h)."""

    source: int
    destination: int
    id: int
    source_port: int
    destination_port: int
    tos: int
    payload: int  # bytes
    count: int
    start_ns: int
    rate_pps: float
    due_ns: NDArray[np.uint64] | None = None  # offsets to start_ns, used instead of a constant rate
    ttl: int = 64  # time to live in the IPv4 header


@dataclass(frozen=True, slots=True)
class FlowResult:
    """The packets that a flow has sent and received, as arrays of the dtypes SENT and RECEIVED."""

    sent: NDArray[np.void]
    received: NDArray[np.void]
    foreign: int
    dscp_changed: int


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition: the nodes of one thread (struct virtual_partition of virtual.h)."""

    nodes: int
    events: int  # events since the start
    sent: int  # frames sent to other partitions
    waited_s: float  # time spent waiting for other partitions, in real time
    lookahead_ns: int | None  # how far it may advance beyond other partitions; None means no limit
    may_stop: bool  # has the switches with digests or a CPU port, and hosts with applications


class Virtual(Caller):
    """A network of switches, hosts and wires.

    Nodes are numbered in the order of adding.

    Time starts at `now_ns` and advances only in run(). run() uses up to `threads` threads (1 to
    MAX_THREADS); the results do not depend on their number. With `sanitize`, the C code is built
    with sanitizers. The engines must then be built with sanitizers, too.
    """

    def __init__(self, now_ns: int, *, threads: int = 1, sanitize: bool = False) -> None:
        if not 1 <= threads <= MAX_THREADS:
            raise InvalidArgument(f"{threads} threads; expected 1 to {MAX_THREADS}")
        library = _loaded(sanitize=sanitize)
        created = library.virtual_create(now_ns, threads)
        if not created:
            raise EngineError("not enough memory or threads for a virtual network")
        self._threads = threads
        super().__init__(library, Handle(created))
        self.inboxes = Inboxes(self._library, self._network)
        self.connections = Connections(self._library, self._network)
        self._engines: dict[int, Engine] = {}
        self._ports: dict[int, list[int]] = {}
        self._room = ctypes.create_string_buffer(FRAME_ROOM)

    def close(self) -> None:
        """Free the network and its engines and complete the captures. Raises Minip4Error."""
        if (network := self._network.take()) is None:
            return
        for engine in self._engines.values():
            engine.close()
        error = ctypes.create_string_buffer(1024)
        failed = self._library.virtual_destroy(network, error, len(error))
        if failed:
            raise Minip4Error(os.fsdecode(error.value))

    @property
    def now_ns(self) -> int:
        return int(self._library.virtual_now(self._handle))

    @property
    def events(self) -> int:
        """Return the number of events since the start: arrivals of frames, and wake-ups."""
        return int(self._library.virtual_events(self._handle))

    @property
    def events_at_once(self) -> int:
        """Return the number of events processed while all threads ran.

        A single thread processed all other events.
        """
        return int(self._library.virtual_at_once(self._handle))

    def stay_parallel(self) -> None:
        """Use all threads also where one thread is faster. Tests of races need this."""
        self._library.virtual_stay_parallel(self._handle)

    @property
    def max_packets(self) -> int:
        """Return the limit of packets in queues, on links and in switches."""
        return int(self._library.virtual_max_packets())

    @property
    def next_ns(self) -> int | None:
        """Return the time of the next event, or None if there is none."""
        due = int(self._library.virtual_next(self._handle))
        return None if due == NEVER else due

    def run(self, until_ns: int, max_events: int = 2**62) -> Stop:
        """Process events up to and including `until_ns`, in order of time.

        Returns earlier in three cases: after `max_events` events (on several threads: about this
        number), if a switch has messages for its controller, or if an application has received
        packets. SHORT means that memory is short, for example because there are more than
        max_packets packets. The network cannot continue then.
        """
        return Stop(self._library.virtual_run(self._handle, until_ns, max_events))

    # --- nodes -----------------------------------------------------------------------------

    @property
    def partitions(self) -> list[Partition]:
        """Return the state of each partition that has nodes, as after the last run."""
        state, found = PartitionState(), []
        for number in range(self._threads):
            self._library.virtual_partition(self._handle, number, byref(state))
            lookahead_ns = None if state.lookahead_ns == NEVER else int(state.lookahead_ns)
            found.append(Partition(state.nodes, state.events, state.sent, state.waited_ns / 1e9,
                                   lookahead_ns, state.may_stop))  # fmt: skip
        return [partition for partition in found if partition.nodes]

    def place(self, node: int, partition: int) -> None:
        """Assign a node, and nodes that cannot be separated from it, to a partition.

        Nodes that may stop the network are always in the first partition. The choice of the
        partition does not change results.
        """
        self._library.virtual_place(self._handle, node, partition % self._threads)

    def add_switch(self, cpu_port: int | None = None) -> int:
        port = NO_CPU_PORT if cpu_port is None else cpu_port
        return self._number(self._library.virtual_add_switch(self._handle, port))

    def add_host(self, mac: str, address: str, mtu_bytes: int = MAX_FRAME) -> int:
        """Add a host that receives IP packets of at most `mtu_bytes`."""
        mac_bytes = bytes.fromhex(mac.replace(":", ""))
        packed = int.from_bytes(IPv4Address(address).packed, "little")  # byte order in memory
        return self._number(
            self._library.virtual_add_host(self._handle, mac_bytes, packed, mtu_bytes)
        )

    def connect(self, node: int, port: int, other: int, other_port: int) -> None:
        """Connect two ports by a wire; must be called before the switches get their engines."""
        if not self._library.virtual_connect(self._handle, node, port, other, other_port):
            raise EngineError(
                "cannot connect: a host has a port other than 0, or there is no memory left"
            )
        for at, number in ((node, port), (other, other_port)):
            self._ports.setdefault(at, []).append(number)

    def ports(self, node: int) -> list[int]:
        """Return the connected ports of a node."""
        return self._ports.get(node, [])

    def capture(
        self, switch: int, port: int, what: str, path: Path, snaplen: int = SNAPLEN
    ) -> None:
        """Capture frames: received by a port ("in"), sent ("out"), or lost on its link ("lost").

        Each frame is captured up to `snaplen` bytes. Must be called before the switch gets its
        engine.
        """
        number = CAPTURES.index(what)
        if self._library.virtual_capture(
            self._handle, switch, port, number, os.fsencode(path), snaplen
        ):
            raise Minip4Error(f"cannot create capture {path}: {os.strerror(ctypes.get_errno())}")

    def prepare(self, engine: Engine) -> Engine:
        """Prepare an engine for install(). Must be called before the engine's links are set."""
        pool = self._library.virtual_pool(self._handle)
        engine.library.engine_share_pool(engine.handle, pool)
        return engine

    def install(self, switch: int, engine: Engine) -> None:
        """Give a switch its engine and close the previous engine."""
        calls = Calls(*(address(engine.library, f"engine_{name}") for name in CALLS))
        may_notify = bool(engine.program.digests)
        if not self._library.virtual_set_engine(
            self._handle, switch, engine.handle, byref(calls), may_notify
        ):
            engine.close()
            raise EngineError("not enough memory for a switch")
        old = self._engines.get(switch)
        self._engines[switch] = engine
        if old is not None:
            old.close()

    def refresh(self, switch: int) -> None:
        """Recompute when a switch is due, after a change of its links or queues."""
        self._library.virtual_refresh(self._handle, switch)

    def flying(self, switch: int, port: int) -> tuple[int, int]:
        """Return the number of packets and bytes in flight on a port's link.

        The engine counts these packets as delivered.
        """
        packets, size = u64(), u64()
        self._library.virtual_flying(self._handle, switch, port, byref(packets), byref(size))
        return packets.value, size.value

    def too_long(self, switch: int, port: int) -> int:
        """Return the number of received frames longer than MAX_FRAME.

        The engine does not count these frames.
        """
        return int(self._library.virtual_too_long(self._handle, switch, port))

    # --- the control plane -----------------------------------------------------------------

    def control_waiting(self) -> Iterator[int]:
        """Yield each switch that got digests or frames for its controller since the last call."""
        while (switch := self._library.virtual_control_next(self._handle)) != NONE:
            yield switch

    def cpu_receive(self, switch: int) -> list[bytes]:
        """Return the queued frames for a switch's controller, and remove them."""
        frames = []
        while length := self._library.virtual_cpu_read(self._handle, switch, self._room):
            frames.append(self._room.raw[:length])
        return frames

    def cpu_send(self, switch: int, frame: bytes) -> bool:
        """Send a frame to the CPU port.

        Returns False if the frame is too long, or if there is no memory left.
        """
        return self._library.virtual_cpu_write(self._handle, switch, frame, len(frame)) == 0

    # --- hosts -----------------------------------------------------------------------------

    def host_counters(self, host: int) -> dict[str, int]:
        """Return the fields of struct virtual_host_counters."""
        counters = HostCounters()
        self._library.virtual_host_counters(self._handle, host, byref(counters))
        return {field[0]: getattr(counters, field[0]) for field in HostCounters._fields_}

    def first_malformed(self, host: int) -> tuple[int, bytes] | None:
        """Return time (ns) and bytes of the first frame in header_errors or checksum_errors."""
        time_ns = u64()
        length = self._library.virtual_first_malformed(
            self._handle, host, byref(time_ns), self._room
        )
        return (time_ns.value, self._room.raw[:length]) if length else None

    def add_flow(self, spec: FlowSpec) -> int:
        """Add a flow and return its number."""
        config = FlowConfig(
            spec.source, spec.destination, spec.id, spec.source_port, spec.destination_port,
            spec.tos, spec.ttl, spec.payload, spec.count, spec.start_ns, spec.rate_pps,
        )  # fmt: skip
        if spec.due_ns is not None:
            due = np.ascontiguousarray(spec.due_ns, np.uint64)
            if len(due) != spec.count or np.any(due[1:] < due[:-1]):
                raise InvalidArgument(f"flow {spec.id}: expected {spec.count} ascending times")
            config.due_ns = due.ctypes.data
        number = self._library.virtual_add_flow(self._handle, byref(config))
        if number == NONE:
            raise InvalidArgument(
                f"flow {spec.id}: UDP port {spec.destination_port} of its "
                f"destination is in use, or there is no memory left"
            )
        return int(number)

    def flow_result(self, flow: int) -> FlowResult:
        result = shared.FlowResult()
        if not self._library.virtual_flow_result(self._handle, flow, byref(result)):
            raise EngineError("out of memory: datagrams were lost")
        return FlowResult(
            copied(result.sent, result.sent_count, SENT),
            copied(result.received, result.received_count, RECEIVED),
            result.foreign,
            result.dscp_changed,
        )

    def flow_counts(self, flow: int) -> tuple[int, int]:
        """Return how many datagrams a flow has sent and received up to now."""
        sent, received = u64(), u64()
        self._library.virtual_flow_counts(self._handle, flow, byref(sent), byref(received))
        return sent.value, received.value

    def remove_flow(self, flow: int) -> None:
        """End a flow and free its port and records."""
        self._library.virtual_remove_flow(self._handle, flow)

    def send_frames(self, host: int, times_ns: Sequence[int], frames: Sequence[bytes]) -> None:
        """Send unmodified frames from a host, each at its time; times must be ascending."""
        times = np.asarray(times_ns, np.uint64)
        if len(times) != len(frames) or np.any(times[1:] < times[:-1]):
            raise InvalidArgument("send_frames() needs one time per frame, in ascending order")
        lengths = np.array([len(frame) for frame in frames], np.uint32)
        if not self._library.virtual_send_frames(
            self._handle, host, len(frames), times.ctypes.data, lengths.ctypes.data,
            b"".join(frames),
        ):  # fmt: skip
            raise InvalidArgument(f"a frame is longer than {MAX_FRAME} bytes")

    def _number(self, number: int) -> int:
        if number == NONE:
            raise EngineError("not enough memory for another node")
        return int(number)


def _loaded(*, sanitize: bool) -> ctypes.CDLL:
    """Build (once) and load the event queue.

    The event queue calls the engines through their shared objects.
    """
    common = [WIRE / f"{name}.c" for name in ("memory", "packet", "capture")]
    with build.shared_object(
        [*sorted(C_FOLDER.rglob("*.c")), *common],
        [build.Generated(layouts.checks(shared.SHARED, shared.NUMBERS))],
        include=(C_FOLDER, WIRE), sanitize=sanitize,
    ) as built:  # fmt: skip
        library = ctypes.CDLL(str(built), ctypes.RTLD_LOCAL, use_errno=True)
    for name, (result, *arguments) in _SIGNATURES.items():
        function = getattr(library, f"virtual_{name}")
        function.restype, function.argtypes = result, arguments
    return library


_SIGNATURES: dict[str, tuple[object, ...]] = {
    "create": (handle, u64, c_uint32),
    "destroy": (c_int, handle, text, c_size_t),
    "pool": (handle, handle),
    "max_packets": (u64,),
    "now": (u64, handle),
    "events": (u64, handle),
    "at_once": (u64, handle),
    "stay_parallel": (None, handle),
    "next": (u64, handle),
    "run": (c_int, handle, u64, u64),
    "partition": (None, handle, c_uint32, POINTER(PartitionState)),
    "place": (None, handle, c_uint32, c_uint16),
    "add_switch": (c_uint32, handle, c_uint16),
    "add_host": (c_uint32, handle, text, c_uint32, c_uint32),
    "connect": (c_bool, handle, c_uint32, c_uint16, c_uint32, c_uint16),
    "set_engine": (c_bool, handle, c_uint32, handle, POINTER(Calls), c_bool),
    "capture": (c_int, handle, c_uint32, c_uint16, c_int, text, c_uint32),
    "refresh": (None, handle, c_uint32),
    "flying": (None, handle, c_uint32, c_uint16, POINTER(u64), POINTER(u64)),
    "too_long": (u64, handle, c_uint32, c_uint16),
    "control_next": (c_uint32, handle),
    "cpu_read": (c_uint32, handle, c_uint32, text),
    "cpu_write": (c_int, handle, c_uint32, text, c_uint32),
    "host_counters": (None, handle, c_uint32, POINTER(HostCounters)),
    "first_malformed": (c_uint32, handle, c_uint32, POINTER(u64), text),
    "add_flow": (c_uint32, handle, POINTER(FlowConfig)),
    "flow_result": (c_bool, handle, c_uint32, POINTER(shared.FlowResult)),
    "flow_counts": (None, handle, c_uint32, POINTER(u64), POINTER(u64)),
    "remove_flow": (None, handle, c_uint32),
    "send_frames": (c_bool, handle, c_uint32, u64, handle, handle, text),
    "add_tcp": (c_uint32, handle, POINTER(shared.TcpConfig)),
    "tcp_result": (c_bool, handle, c_uint32, POINTER(shared.TcpResult)),
    "remove_tcp": (None, handle, c_uint32),
    "open_udp": (c_uint32, handle, c_uint32, c_uint16),
    "open_icmp": (c_uint32, handle, c_uint32),
    "open_frames": (c_uint32, handle, c_uint32),
    "inbox_next": (c_uint32, handle),
    "inbox_take": (c_uint32, handle, c_uint32, POINTER(handle), POINTER(handle)),
    "send_frame": (c_bool, handle, c_uint32, text, c_uint32),
    "send_datagram": (c_bool, handle, c_uint32, text, c_uint32, c_uint16, c_uint16, c_uint8,
                      c_uint8, text, c_uint32),
}  # fmt: skip
