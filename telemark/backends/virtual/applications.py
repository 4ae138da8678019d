"""Applications in virtual time: objects that the event queue calls."""

import pickle
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from minip4.engine.errors import InvalidArgument
from minip4.simulator.virtual import Virtual
from telemark.apps.application import (
    Application,
    HostInfo,
    Receiver,
    RunningApplication,
    Timers,
    describe_error,
    pickled,
)
from telemark.apps.application import Host as HostOfApplication
from telemark.apps.headers import PROTOCOL_ICMP, TYPE_IPV4, ipv4_header
from telemark.errors import TestbedError
from telemark.metrics.folder import MetricsFolder
from telemark.traffic.received import Taken
from telemark.watch.display import Display

if TYPE_CHECKING:
    from telemark.backends.virtual.network import Host

# maximum number of timer calls without progress of time; more calls mean an endless loop
MAX_CALLS = 1_000_000


class Applications:
    """Applications of one network.

    `neighbours` maps the IPv4 address of each host to its MAC address.
    """

    def __init__(self, virtual: Virtual, neighbours: Mapping[str, str], mtu_bytes: int) -> None:
        self._virtual = virtual
        self._neighbours = neighbours
        self._mtu_bytes = mtu_bytes
        self._timers = Timers()
        self._hosts: list[VirtualHost] = []
        self._receivers: dict[int, tuple[VirtualHost, Receiver]] = {}  # the keys are inboxes
        # current time, and number of timer calls at the current time
        self._instant_ns = self._calls = 0

    def run(
        self, host: "Host", application: Application, display: Display | None,
        metrics: MetricsFolder | None,
    ) -> RunningApplication:  # fmt: skip
        """Start a copy of an application at a host."""
        name = str(RunningApplication(host.name, type(application).__name__))
        return self.begin(host, pickle.loads(pickled(application, name)), display, metrics)

    def begin(
        self, host: "Host", application: Application, display: Display | None = None,
        metrics: MetricsFolder | None = None,
    ) -> RunningApplication:  # fmt: skip
        """Start the given application itself, not a copy."""
        running = RunningApplication(host.name, type(application).__name__)
        place = HostInfo(
            host.name, host.address, host.mac, self._mtu_bytes, self._neighbours, display,
            metrics,
        )  # fmt: skip
        started = VirtualHost(self._virtual, host.node, place, self._timers, running)
        self._hosts.append(started)
        started.start(application)
        return running

    @property
    def next_ns(self) -> int | None:
        """Time of the next timer."""
        return self._timers.next_ns

    def call_due(self) -> None:
        """Run the timers that are due."""
        now_ns = self._virtual.now_ns
        self._calls = self._calls + 1 if now_ns == self._instant_ns else 0
        self._instant_ns = now_ns
        if self._calls > MAX_CALLS:
            raise TestbedError(
                f"virtual time stands still at {now_ns / 1e9:g} s: a callback of an application "
                f"schedules itself without delay; use call_at() with a later time"
            )
        self._timers.call_due(now_ns)

    def hand_over(self) -> None:
        """Deliver received packets to the applications that own the ports."""
        for inbox in self._virtual.inboxes.filled():
            if inbox not in self._receivers:  # a new port
                self._receivers = {
                    receiver.socket.inbox: (host, receiver)
                    for host in self._hosts for receiver in host.receivers
                }  # fmt: skip
            host, receiver = self._receivers[inbox]
            host.call(receiver.arrived)

    def close(self) -> None:
        """Deliver the packets that are held, and stop all timers, because the network will stop."""
        for host in self._hosts:
            host.call(host.close)

    def finish(self) -> list[RunningApplication]:
        """Read the results of all applications."""
        for host in self._hosts:
            host.call(host.finish)
        return [host.running for host in self._hosts]


class VirtualHost(HostOfApplication):
    """See telemark.apps.application.Host."""

    def __init__(
        self,
        virtual: Virtual,
        node: int,
        place: HostInfo,
        timers: Timers,
        running: RunningApplication,
    ) -> None:
        super().__init__(place, timers)
        self.running = running
        self._virtual = virtual
        self._node = node
        self._application: Application

    def start(self, application: Application) -> None:
        """Start an application at the host."""
        self._application = application
        self.call(lambda: application.start(self))

    def finish(self) -> None:
        """Read counters and result."""
        self.running.sent, self.running.received = self.sent, self.received
        result = self._application.result()
        self.running.results.append(pickle.loads(pickled(result, "its result")))

    def call(self, function: Callable[[], object]) -> None:
        """Call a function of the application. Raises TestbedError for its exceptions."""
        try:
            function()
        except Exception as error:
            raise TestbedError(f"{self.running}: {describe_error(error)}") from error

    def now_ns(self) -> int:
        """Return virtual time."""
        return self._virtual.now_ns

    def call_at(self, time_ns: float, callback: Callable[[], None]) -> None:
        """See telemark.apps.application.Host."""
        super().call_at(time_ns, lambda: self.call(callback))

    def _open_udp(self, port: int) -> "VirtualDatagramSocket":
        try:
            inbox = self._virtual.inboxes.open_udp(self._node, port)
        except InvalidArgument:
            raise TestbedError(f"UDP port {port}: already in use; choose another port") from None
        return VirtualDatagramSocket(self._virtual, self._node, inbox, port, self.neighbours)

    def _open_icmp(self) -> "VirtualIcmpSocket":
        try:
            inbox = self._virtual.inboxes.open_icmp(self._node)
        except InvalidArgument:
            raise TestbedError("ICMP of the host: another application receives it") from None
        return VirtualIcmpSocket(self._virtual, self._node, inbox, self)

    def _open_frames(self, *, takes: bool) -> "VirtualFrameSocket":
        try:
            inbox = self._virtual.inboxes.open_frames(self._node) if takes else None
        except InvalidArgument:
            raise TestbedError("frames of the host: another application receives them") from None
        return VirtualFrameSocket(self._virtual, self._node, inbox)


class VirtualSocket:
    """See telemark.apps.application.Socket. If `inbox` is None, the socket can only send."""

    max_batch = sys.maxsize

    def __init__(self, virtual: Virtual, node: int, inbox: int | None) -> None:
        self.inbox = inbox
        self._inboxes = virtual.inboxes
        self._node = node

    def take(self) -> Taken:
        """Return all waiting packets."""
        assert self.inbox is not None
        return self._inboxes.take(self.inbox)


class VirtualIcmpSocket(VirtualSocket):
    """See telemark.apps.application.IcmpSocket."""

    def __init__(self, virtual: Virtual, node: int, inbox: int, host: HostOfApplication) -> None:
        super().__init__(virtual, node, inbox)
        self._host = host

    def send(self, message: bytes, address: str, ttl: int) -> None:
        """Send an ICMP message at the current time."""
        host = self._host
        macs = bytes.fromhex((host.neighbours[address] + host.mac).replace(":", ""))
        header = ipv4_header(host.address, address, PROTOCOL_ICMP, len(message), ttl)
        self._inboxes.send_frame(self._node, macs + TYPE_IPV4 + header + message)


class VirtualFrameSocket(VirtualSocket):
    """See telemark.apps.application.FrameSocket."""

    def send(self, frame: bytes) -> None:
        """Send a frame at the current time."""
        self._inboxes.send_frame(self._node, frame)


class VirtualDatagramSocket(VirtualSocket):
    """See telemark.apps.application.DatagramSocket."""

    def __init__(
        self, virtual: Virtual, node: int, inbox: int, port: int, neighbours: Mapping[str, str]
    ) -> None:
        super().__init__(virtual, node, inbox)
        self._port = port
        self._neighbours = neighbours

    def send(self, payload: bytes, address: str, port: int, tos: int, ttl: int) -> None:
        """Send a datagram at the current time."""
        to = (self._neighbours[address], address, port)
        self._inboxes.send_datagram(self._node, self._port, to, payload, tos, ttl=ttl)
