"""Applications at hosts: collectors and responders, the same class in both kinds of time."""

import heapq
import itertools
import math
import pickle
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from telemark.errors import TestbedError
from telemark.session.traceback_filter import user_frames
from telemark.topology.links import ETHERNET_BYTES, UDP_BYTES
from telemark.traffic.received import Arrivals, Datagrams, Frames, Taken

APPLICATION_PROCESS = (
    "TELEMARK_APPLICATION"  # environment variable of a process that imports an experiment's script
)


@dataclass(frozen=True)
class HostInfo:
    """Which host it is, and whom it knows."""

    name: str
    address: str  # IPv4
    mac: str
    mtu_bytes: int  # of the longest IP packet that it sends and takes
    neighbours: Mapping[str, str]  # IPv4 address -> MAC address, of all hosts of the network


class Application(ABC):
    """What runs at a host of a network: subclass it, and see Network.run_application().

    In real time it is a process in the host's namespace, in virtual time an object of the event
    queue. Either way the object is pickled and a copy of it runs: what that found out is told by
    result(), and pickled too. Its methods and what it asks to be called are called one at a time;
    none of them may wait.
    """

    @abstractmethod
    def start(self, host: "Host") -> None:
        """Open ports and set timers."""

    def result(self) -> Any:
        """What the experiment gets once the network has ended and all that came was handed over."""
        return None


class Socket(Protocol):
    """What a port is made of, in one kind of time."""

    max_batch: int  # that take() takes at a time

    def take(self) -> Taken:
        """What came and was not taken yet, or the first part of it; see Arrivals."""


class DatagramSocket(Socket, Protocol):
    """That of a UDP port."""

    def send(self, payload: bytes, address: str, port: int, tos: int) -> None:
        """`tos` is DSCP << 2 | ECN (RFC 3168)."""


class FrameSocket(Socket, Protocol):
    """That of a host's interface."""

    def send(self, frame: bytes) -> None:
        """By the interface."""


class UdpPort:
    """A UDP port of a host, open until the network ends."""

    def __init__(self, host: "Host", socket: DatagramSocket) -> None:
        self._host = host
        self._socket = socket

    def send(self, payload: bytes, address: str, port: int, *, dscp: int = 0, ecn: int = 0) -> None:
        """Send a datagram to a host of the network, at once. Raises TestbedError.

        `ecn`: 0 not ECN-capable, 1 ECT(1), 2 ECT(0), 3 congestion experienced (RFC 3168).
        """
        most = self._host.mtu_bytes - UDP_BYTES
        if len(payload) > most:
            raise TestbedError(f"a payload of {len(payload)} bytes: at most {most}")
        if address not in self._host.neighbours:
            raise TestbedError(f"no host of the network has the address {address}")
        _check("UDP port", port, 1, 0xFFFF)
        _check("dscp", dscp, 0, 63)
        _check("ecn", ecn, 0, 3)
        self._socket.send(payload, address, port, dscp << 2 | ecn)
        self._host.sent += 1


class FramePort:
    """A host's interface, for Ethernet frames as they are."""

    def __init__(self, host: "Host", socket: FrameSocket) -> None:
        self._host = host
        self._socket = socket

    def send(self, frame: bytes) -> None:
        """Send a frame at once, as `bytes(Ether() / ...)` of scapy. Raises TestbedError."""
        most = self._host.mtu_bytes + ETHERNET_BYTES
        if not ETHERNET_BYTES <= len(frame) <= most:
            raise TestbedError(
                f"a frame of {len(frame)} bytes: expected {ETHERNET_BYTES} to {most}"
            )
        self._socket.send(frame)
        self._host.sent += 1


class Timers:
    """Who is to be called when: by time, and at the same time in the order in which they asked."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def add(self, time_ns: float, callback: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (math.ceil(time_ns), next(self._numbers), callback))

    @property
    def next_ns(self) -> int | None:
        """When the first one is due."""
        return self._heap[0][0] if self._heap else None

    def call_due(self, now_ns: int) -> None:
        """Call those whose time has come; whom they ask for at once comes the next time."""
        due = []
        while self._heap and self._heap[0][0] <= now_ns:
            due.append(heapq.heappop(self._heap)[2])
        for callback in due:
            callback()

    def clear(self) -> None:
        """Call nobody any more."""
        self._heap.clear()


class Host(ABC):
    """A host, as an application sees it."""

    def __init__(self, place: HostInfo, timers: Timers) -> None:
        self.name, self.address, self.mac = place.name, place.address, place.mac
        self.mtu_bytes = place.mtu_bytes
        self.neighbours = place.neighbours
        self.sent = self.received = 0  # datagrams and frames
        self.receivers: list[Receiver] = []
        self._timers = timers

    @abstractmethod
    def now_ns(self) -> int:
        """The common clock: nanoseconds since an arbitrary start."""

    def call_at(self, time_ns: float, callback: Callable[[], None]) -> None:
        """Call back at a time of the common clock, or just after; soon, when it has passed.

        When the network is about to end, nobody is called any more.
        """
        self._timers.add(time_ns, callback)

    def udp(
        self, port: int, on_datagrams: Callable[[Datagrams], None] | None = None, *,
        hold_us: float = 0,
    ) -> UdpPort:  # fmt: skip
        """Open a UDP port: `on_datagrams` is handed what comes, many at once where many came.

        At once; or at most `hold_us` after the first of them came, which costs less where many
        come: in virtual time one call instead of one for each, in real time fewer wake-ups.
        Raises TestbedError when the port is taken.
        """
        _check("UDP port", port, 1, 0xFFFF)
        socket = self._open_udp(port)
        self.receivers.append(Receiver(self, socket, Datagrams, on_datagrams, hold_us))
        return UdpPort(self, socket)

    def frames(
        self, on_frames: Callable[[Frames], None] | None = None, *, hold_us: float = 0
    ) -> FramePort:
        """Send Ethernet frames by the host's interface; and with `on_frames` take all that come.

        Then the host has no IP stack any more, as if the application were its network card:
        neither flows nor pings reach it. `hold_us` is as of udp().
        """
        socket = self._open_frames(takes=on_frames is not None)
        if on_frames is not None:
            self.receivers.append(Receiver(self, socket, Frames, on_frames, hold_us))
        return FramePort(self, socket)

    @abstractmethod
    def _open_udp(self, port: int) -> DatagramSocket: ...

    @abstractmethod
    def _open_frames(self, *, takes: bool) -> FrameSocket: ...

    def close(self) -> None:
        """The network is about to end: from now on nothing is held back."""
        for receiver in self.receivers:
            receiver.hold_ns = 0
            receiver.deliver()


class Receiver:
    """Hands what comes to a port to who asked for it."""

    def __init__(
        self, host: Host, socket: Socket, kind: type[Arrivals],
        callback: Callable[[Any], None] | None, hold_us: float,
    ) -> None:  # fmt: skip
        self.hold_ns = round(hold_us * 1000)
        self.is_held = False
        self.socket: Any = socket  # which in real time has more to it
        self._host = host
        self._kind = kind
        self._callback = callback

    def arrived(self) -> None:
        """Something came, and nothing had waited."""
        if self.hold_ns:
            self.is_held = True
            self._host.call_at(self._host.now_ns() + self.hold_ns, self.deliver)
        else:
            self.deliver()

    def deliver(self) -> None:
        """Hand over all that waits; what then comes while it is looked at is held anew."""
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
    """An application at a host of a network; what it did is known once the network has ended."""

    host: str
    name: str  # of its class
    sent: int = 0  # datagrams and frames
    received: int = 0
    kernel_drops: int = 0  # that found a socket's buffer full
    results: list[Any] = field(default_factory=list)  # one, once the network has ended

    @property
    def result(self) -> Any:
        """What its result() returned. Raises RuntimeError while the network is up."""
        if not self.results:
            raise RuntimeError(f"{self} has no result before the end of the network's with block")
        return self.results[0]

    def __str__(self) -> str:
        return f"application {self.name} at {self.host}"


def describe_error(error: Exception) -> str:
    """An error in one line, with the last line of the user's own that led to it."""
    text = " ".join(str(error).split())
    told = text if isinstance(error, TestbedError) else f"{type(error).__name__}: {text}"
    frames = list(traceback.walk_tb(error.__traceback__))
    where, line = (user_frames(frames) or frames)[-1]
    return f"{told} ({Path(where.f_code.co_filename).name}:{line})"


def pickled(what: object, name: str) -> bytes:
    """An application, or its result, as it goes from one process to another."""
    try:
        return pickle.dumps(what)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TestbedError(f"{name} cannot be copied to another process: {error}") from None


def _check(what: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise TestbedError(f"{what} {value}: expected {low} to {high}")
