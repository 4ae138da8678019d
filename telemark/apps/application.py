"""Applications that run on hosts, e.g. collectors, with the same class in real and virtual time."""

import heapq
import itertools
import math
import pickle
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from telemark.errors import TestbedError
from telemark.metrics.folder import INTERVAL_S, MetricsFolder
from telemark.session.error_reporting import user_frames
from telemark.topology.links import ETHERNET_BYTES, ICMP_BYTES, IPV4_BYTES, UDP_BYTES
from telemark.traffic.received import Arrivals, Datagrams, Frames, Taken
from telemark.watch.display import Display

if TYPE_CHECKING:
    from prometheus_client.core import Metric

# environment variable that is set in processes of applications, which import the script
APPLICATION_PROCESS = "TELEMARK_APPLICATION"


@dataclass(frozen=True)
class HostInfo:
    """Name, addresses and neighbours of a host."""

    name: str
    address: str  # IPv4
    mac: str
    mtu_bytes: int
    neighbours: Mapping[str, str]  # map from IPv4 to MAC address, for all hosts of the network
    display: Display | None = None  # the page of --watch
    metrics: MetricsFolder | None = None  # for --metrics


class Application(ABC):
    """Base class of applications; see Network.run_application().

    In real time, an application is a process in the host's namespace. In virtual time, it is an
    object on the event queue. In both cases, a pickled copy of the application runs, and the return
    value of result() is pickled as well. Methods and callbacks are called one at a time and must
    not block.
    """

    @abstractmethod
    def start(self, host: "Host") -> None:
        """Open ports and set timers."""

    def result(self) -> Any:
        """Return the result for the experiment; called after the last packet was delivered."""
        return None


class Socket(Protocol):
    """Socket of a UDP port or of an interface, in real or virtual time."""

    max_batch: int  # maximum number of packets that take() returns

    def take(self) -> Taken:
        """Return up to max_batch waiting packets; see Arrivals."""


class DatagramSocket(Socket, Protocol):
    """Socket of a UDP port."""

    def send(self, payload: bytes, address: str, port: int, tos: int, ttl: int) -> None:
        """Send a datagram; `tos` is DSCP << 2 | ECN (RFC 3168)."""


class IcmpSocket(Socket, Protocol):
    """Socket for the ICMP messages of a host."""

    def send(self, message: bytes, address: str, ttl: int) -> None:
        """Send an ICMP message that contains its checksum."""


class FrameSocket(Socket, Protocol):
    """Socket of a host's interface."""

    def send(self, frame: bytes) -> None:
        """Send a frame."""


class UdpPort:
    """A UDP port of a host, open until the network ends."""

    def __init__(self, host: "Host", socket: DatagramSocket) -> None:
        self._host = host
        self._socket = socket

    def send(
        self, payload: bytes, address: str, port: int, *, dscp: int = 0, ecn: int = 0, ttl: int = 64
    ) -> None:
        """Send a datagram to a host of the network immediately. Raises TestbedError.

        `ecn` (RFC 3168): 0 not ECN-capable, 1 ECT(1), 2 ECT(0), 3 congestion experienced.
        """
        limit = self._host.mtu_bytes - UDP_BYTES
        if len(payload) > limit:
            raise TestbedError(f"payload of {len(payload)} bytes: expected at most {limit}")
        _check_address(self._host, address)
        check_header(port, dscp, ecn, ttl)
        self._socket.send(payload, address, port, dscp << 2 | ecn, ttl)
        self._host.sent += 1


class IcmpPort:
    """ICMP of a host, open until the network ends."""

    def __init__(self, host: "Host", socket: IcmpSocket) -> None:
        self._host = host
        self._socket = socket

    def send(self, message: bytes, address: str, *, ttl: int = 64) -> None:
        """Send an ICMP message to a host of the network immediately. Raises TestbedError.

        `message` is the ICMP header, with its checksum, and its data.
        """
        limit = self._host.mtu_bytes - IPV4_BYTES
        if not ICMP_BYTES <= len(message) <= limit:
            raise TestbedError(
                f"ICMP message of {len(message)} bytes: expected {ICMP_BYTES} to {limit}"
            )
        _check_address(self._host, address)
        check_range("ttl", ttl, 1, 255)
        self._socket.send(message, address, ttl)
        self._host.sent += 1


class FramePort:
    """Raw Ethernet socket of a host's interface."""

    def __init__(self, host: "Host", socket: FrameSocket) -> None:
        self._host = host
        self._socket = socket

    def send(self, frame: bytes) -> None:
        """Send a frame immediately, e.g. scapy's `bytes(Ether() / ...)`. Raises TestbedError."""
        limit = self._host.mtu_bytes + ETHERNET_BYTES
        if not ETHERNET_BYTES <= len(frame) <= limit:
            raise TestbedError(f"frame of {len(frame)} bytes: expected {ETHERNET_BYTES} to {limit}")
        self._socket.send(frame)
        self._host.sent += 1


class Timers:
    """Callbacks ordered by time; callbacks for the same time run in the order of addition."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def add(self, time_ns: float, callback: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (math.ceil(time_ns), next(self._numbers), callback))

    @property
    def next_ns(self) -> int | None:
        """Time of the first callback."""
        return self._heap[0][0] if self._heap else None

    def call_due(self, now_ns: int) -> None:
        """Run the callbacks that are due; callbacks that they add run in the next call."""
        due = []
        while self._heap and self._heap[0][0] <= now_ns:
            due.append(heapq.heappop(self._heap)[2])
        for callback in due:
            callback()

    def clear(self) -> None:
        """Remove all callbacks."""
        self._heap.clear()


class Host(ABC):
    """Host interface for applications."""

    def __init__(self, place: HostInfo, timers: Timers) -> None:
        self.name, self.address, self.mac = place.name, place.address, place.mac
        self.mtu_bytes = place.mtu_bytes
        self.neighbours = place.neighbours
        self.display = place.display  # the page of --watch; None without --watch
        self.metrics = place.metrics  # None without --metrics
        self.sent = self.received = 0  # number of datagrams and frames
        self.receivers: list[Receiver] = []
        self._timers = timers

    @abstractmethod
    def now_ns(self) -> int:
        """Return the time of the common clock: nanoseconds since an arbitrary start."""

    def call_at(self, time_ns: float, callback: Callable[[], None]) -> None:
        """Call a function at `time_ns` of the common clock, or just after it.

        If this time has passed, the function is called immediately.

        A callback that is not yet due when the network begins to stop is never called.
        """
        self._timers.add(time_ns, callback)

    def publish_metrics(self, system: str, collect: "Callable[[], Iterable[Metric]]") -> None:
        """With --metrics, publish the metrics of an application now, and then every INTERVAL_S.

        An application calls this method in start(), and again in result() for the last values.
        `system` is the telemetry method, e.g. "int".
        """
        if self.metrics is None:
            return
        self.metrics.publish(f"{system}_{self.name}", collect())
        next_ns = self.now_ns() + INTERVAL_S * 1e9
        self.call_at(next_ns, lambda: self.publish_metrics(system, collect))

    def udp(
        self, port: int, on_datagrams: Callable[[Datagrams], None] | None = None, *,
        hold_us: float = 0,
    ) -> UdpPort:  # fmt: skip
        """Open a UDP port; `on_datagrams` is called with batches of arriving datagrams.

        A batch is delivered at most `hold_us` after its first datagram arrived. A value above 0
        reduces the number of calls in virtual time, and the number of wake-ups in real time. Raises
        TestbedError if the port is in use.
        """
        check_range("UDP port", port, 1, 0xFFFF)
        socket = self._open_udp(port)
        self.receivers.append(Receiver(self, socket, Datagrams, on_datagrams, hold_us))
        return UdpPort(self, socket)

    def icmp(self, on_messages: Callable[[Datagrams], None]) -> IcmpPort:
        """Send and receive ICMP messages; `on_messages` is called with batches of messages.

        The payload of each message is its ICMP header and data. Echo requests are not delivered,
        because the host responds to them. In real time, each application of the host receives all
        messages. In virtual time, raises TestbedError if another application receives them.
        """
        socket = self._open_icmp()
        self.receivers.append(Receiver(self, socket, Datagrams, on_messages, 0))
        return IcmpPort(self, socket)

    def frames(
        self, on_frames: Callable[[Frames], None] | None = None, *, hold_us: float = 0
    ) -> FramePort:
        """Open the host's interface for Ethernet frames.

        `on_frames` is called with all frames that arrive. It replaces the host's IP stack, so flows
        and pings do not reach the host. For `hold_us`, see udp().
        """
        socket = self._open_frames(takes=on_frames is not None)
        if on_frames is not None:
            self.receivers.append(Receiver(self, socket, Frames, on_frames, hold_us))
        return FramePort(self, socket)

    @abstractmethod
    def _open_udp(self, port: int) -> DatagramSocket: ...

    @abstractmethod
    def _open_icmp(self) -> IcmpSocket: ...

    @abstractmethod
    def _open_frames(self, *, takes: bool) -> FrameSocket: ...

    def close(self) -> None:
        """Deliver all held packets. From now on, hold no packets, because the network will stop."""
        for receiver in self.receivers:
            receiver.hold_ns = 0
            receiver.deliver()


class Receiver:
    """Delivers the packets that arrive at one port or interface to a callback."""

    def __init__(
        self, host: Host, socket: Socket, kind: type[Arrivals],
        callback: Callable[[Any], None] | None, hold_us: float,
    ) -> None:  # fmt: skip
        self.hold_ns = round(hold_us * 1000)
        self.is_held = False
        self.socket: Any = socket  # a Socket; the sockets of real time have more methods
        self._host = host
        self._kind = kind
        self._callback = callback

    def arrived(self) -> None:
        """Handle the first waiting packet: deliver it or hold it."""
        if self.hold_ns:
            self.is_held = True
            self._host.call_at(self._host.now_ns() + self.hold_ns, self.deliver)
        else:
            self.deliver()

    def deliver(self) -> None:
        """Deliver all waiting packets.

        Packets that arrive during the call are held.
        """
        self.is_held = False
        while True:
            arrivals = self._kind(self.socket.take())
            if not len(arrivals):
                return
            self._host.received += len(arrivals)
            if self._callback is not None:
                self._callback(arrivals)
            if self.hold_ns and len(arrivals) < self.socket.max_batch:
                return


@dataclass
class RunningApplication:
    """Application on a host. Its counts and result are known after the network has stopped."""

    host: str
    name: str  # class name of the application
    sent: int = 0  # number of datagrams and frames that the application sent
    received: int = 0
    kernel_drops: int = 0  # number of packets dropped because a socket buffer was full
    # empty until the network has stopped; then the only element is the result
    results: list[Any] = field(default_factory=list)

    @property
    def result(self) -> Any:
        """Return value of Application.result().

        Raises RuntimeError before the network has stopped.
        """
        if not self.results:
            raise RuntimeError(f"{self}: no result before the end of the network's `with` block")
        return self.results[0]

    def __str__(self) -> str:
        return f"application {self.name} at {self.host}"


def describe_error(error: Exception) -> str:
    """Format an error in one line, with the innermost source line of the user's code."""
    text = " ".join(str(error).split())
    message = text if isinstance(error, TestbedError) else f"{type(error).__name__}: {text}"
    frames = list(traceback.walk_tb(error.__traceback__))
    where, line = (user_frames(frames) or frames)[-1]
    return f"{message} ({Path(where.f_code.co_filename).name}:{line})"


def pickled(what: object, name: str) -> bytes:
    """Pickle an application or its result. Raises TestbedError if it cannot be pickled."""
    try:
        return pickle.dumps(what)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TestbedError(f"{name}: cannot be pickled for another process: {error}") from None


def _check_address(host: Host, address: str) -> None:
    if address not in host.neighbours:
        raise TestbedError(f"address {address}: no host of the network has this address")


def check_header(port: int, dscp: int, ecn: int, ttl: int) -> None:
    """Raise TestbedError for values that the headers of a datagram cannot have."""
    check_range("UDP port", port, 1, 0xFFFF)
    check_range("dscp", dscp, 0, 63)
    check_range("ecn", ecn, 0, 3)
    check_range("ttl", ttl, 1, 255)


def check_range(what: str, value: int, low: int, high: int) -> None:
    """Raise TestbedError for a value out of range."""
    if not low <= value <= high:
        raise TestbedError(f"{what} {value}: expected {low} to {high}")
