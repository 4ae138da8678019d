"""Applications in virtual time: objects of the event queue, called at the simulated instant."""

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
from telemark.errors import TestbedError
from telemark.traffic.received import Taken

if TYPE_CHECKING:
    from telemark.backends.virtual.network import Host

CALLS_AT_ONCE = 1_000_000  # of timers, at one instant: more than any that end


class Applications:
    """Those of one network, whose hosts' addresses are `neighbours`: IPv4 -> MAC."""

    def __init__(self, virtual: Virtual, neighbours: Mapping[str, str], mtu_bytes: int) -> None:
        self._virtual = virtual
        self._neighbours = neighbours
        self._mtu_bytes = mtu_bytes
        self._timers = Timers()
        self._hosts: list[VirtualHost] = []
        self._receivers: dict[int, tuple[VirtualHost, Receiver]] = {}  # by inbox
        self._instant_ns = self._calls = 0  # of timers, since time last went on

    def run(self, host: "Host", application: Application) -> RunningApplication:
        """Start a copy of an application at a host."""
        name = str(RunningApplication(host.name, type(application).__name__))
        return self.begin(host, pickle.loads(pickled(application, name)))

    def begin(self, host: "Host", application: Application) -> RunningApplication:
        """Start an application itself."""
        running = RunningApplication(host.name, type(application).__name__)
        place = HostInfo(host.name, host.address, host.mac, self._mtu_bytes, self._neighbours)
        started = VirtualHost(self._virtual, host.node, place, self._timers, running)
        self._hosts.append(started)
        started.start(application)
        return running

    @property
    def next_ns(self) -> int | None:
        """When somebody is to be called."""
        return self._timers.next_ns

    def call_due(self) -> None:
        """Call those whose time has come."""
        now_ns = self._virtual.now_ns
        self._calls = self._calls + 1 if now_ns == self._instant_ns else 0
        self._instant_ns = now_ns
        if self._calls > CALLS_AT_ONCE:
            raise TestbedError(
                f"virtual time stands still at {now_ns / 1e9:g} s: an application has itself "
                "called back at once, again and again: call_at() a later time"
            )
        self._timers.call_due(now_ns)

    def hand_over(self) -> None:
        """Tell those for whom something came."""
        for inbox in self._virtual.inboxes.filled():
            if inbox not in self._receivers:  # it was opened since
                self._receivers = {
                    receiver.socket.inbox: (host, receiver)
                    for host in self._hosts for receiver in host.receivers
                }  # fmt: skip
            host, receiver = self._receivers[inbox]
            host.call(receiver.arrived)

    def close(self) -> None:
        """The network is about to end: nothing is held back, and no timer is looked at any more."""
        for host in self._hosts:
            host.call(host.close)

    def finish(self) -> list[RunningApplication]:
        """What became of them."""
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
        """Let an application have the host."""
        self._application = application
        self.call(lambda: application.start(self))

    def finish(self) -> None:
        """Ask for the result."""
        self.running.sent, self.running.received = self.sent, self.received
        result = self._application.result()
        self.running.results.append(pickle.loads(pickled(result, "its result")))

    def call(self, what: Callable[[], object]) -> None:
        """Call something of the application's; what goes wrong there names it."""
        try:
            what()
        except Exception as error:
            raise TestbedError(f"{self.running}: {describe_error(error)}") from error

    def now_ns(self) -> int:
        """Virtual time."""
        return self._virtual.now_ns

    def call_at(self, time_ns: float, callback: Callable[[], None]) -> None:
        """See telemark.apps.application.Host."""
        super().call_at(time_ns, lambda: self.call(callback))

    def _open_udp(self, port: int) -> "VirtualDatagramSocket":
        try:
            inbox = self._virtual.inboxes.open_udp(self._node, port)
        except InvalidArgument:
            raise TestbedError(f"UDP port {port} is taken") from None
        return VirtualDatagramSocket(self._virtual, self._node, inbox, port, self.neighbours)

    def _open_frames(self, *, takes: bool) -> "VirtualFrameSocket":
        try:
            inbox = self._virtual.inboxes.open_frames(self._node) if takes else None
        except InvalidArgument:
            raise TestbedError("its frames are taken") from None
        return VirtualFrameSocket(self._virtual, self._node, inbox)


class VirtualSocket:
    """See telemark.apps.application.Socket; `inbox` is None where it only sends."""

    most = sys.maxsize

    def __init__(self, virtual: Virtual, node: int, inbox: int | None) -> None:
        self.inbox = inbox
        self._inboxes = virtual.inboxes
        self._node = node

    def take(self) -> Taken:
        """All that waits."""
        assert self.inbox is not None
        return self._inboxes.take(self.inbox)


class VirtualFrameSocket(VirtualSocket):
    """See telemark.apps.application.FrameSocket."""

    def send(self, frame: bytes) -> None:
        """It leaves now."""
        self._inboxes.send_frame(self._node, frame)


class VirtualDatagramSocket(VirtualSocket):
    """See telemark.apps.application.DatagramSocket."""

    def __init__(
        self, virtual: Virtual, node: int, inbox: int, port: int, neighbours: Mapping[str, str]
    ) -> None:
        super().__init__(virtual, node, inbox)
        self._port = port
        self._neighbours = neighbours

    def send(self, payload: bytes, address: str, port: int, tos: int) -> None:
        """It leaves now."""
        to = (self._neighbours[address], address, port)
        self._inboxes.send_datagram(self._node, self._port, to, payload, tos)
