"""Applications that tests run at hosts, and a function that waits for their packets."""

import os
import signal
import threading
from functools import partial
from typing import Any

from telemark.apps.application import Application, Host, IcmpPort
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.received import Datagrams, Frames

BROADCAST = b"\xff" * 6


async def until_left(net: Network, run: Run, near: str, far: str, count: int) -> None:
    """Wait until the switch `near` has sent `count` frames to the host `far`."""
    port = str(net.port(near, far))
    while net.switch(near).read_counters()["ports"][port]["transmitted_packets"] < count:
        await run.clock.sleep_until(run.clock.now_ns() + 1_000_000)


class Counter(Application):
    """Counts and stores datagrams, as a collector of reports does."""

    def __init__(self, port: int, hold_us: float = 0) -> None:
        self.port = port
        self.hold_us = hold_us
        self.calls: list[tuple[int, int]] = []  # time and number of datagrams of each call
        self.came: list[Any] = []

    def start(self, host: Host) -> None:
        self.host = host
        self.udp = host.udp(self.port, self.on_datagrams, hold_us=self.hold_us)

    def on_datagrams(self, datagrams: Datagrams) -> None:
        self.calls.append((self.host.now_ns(), len(datagrams)))
        self.came += datagrams

    def result(self) -> Any:
        return self.calls, self.came


class Echo(Counter):
    """Returns each datagram with its bytes reversed and with the same DSCP and ECN bits."""

    def on_datagrams(self, datagrams: Datagrams) -> None:
        super().on_datagrams(datagrams)
        for datagram in datagrams:
            sender = datagram.address, datagram.port
            self.udp.send(datagram.payload[::-1], *sender, dscp=datagram.dscp, ecn=datagram.ecn)


class Sender(Application):
    """Sends numbered datagrams at given times after the start, and stores the responses."""

    def __init__(self, after_ns: list[int], address: str, *ports: int) -> None:
        self.after_ns = after_ns
        self.address = address
        self.ports = ports
        self.due_ns: list[int] = []
        self.called_ns: list[int] = []
        self.answers: list[Any] = []

    def start(self, host: Host) -> None:
        self.host = host
        self.udp = host.udp(6000, self.on_datagrams)
        self.due_ns = [host.now_ns() + after_ns for after_ns in self.after_ns]
        for due_ns in self.due_ns:
            host.call_at(due_ns, self.send)

    def send(self) -> None:
        number = len(self.called_ns)
        payload = number.to_bytes(2, "big") + bytes(number)
        self.called_ns.append(self.host.now_ns())
        for port in self.ports:
            self.udp.send(payload, self.address, port, dscp=number % 64, ecn=number % 4)

    def on_datagrams(self, datagrams: Datagrams) -> None:
        self.answers += datagrams

    def result(self) -> Any:
        return self.due_ns, self.called_ns, self.answers


class Card(Application):
    """Receives all frames of its host, like an RDMA NIC, and sends each one back to its sender."""

    def __init__(self) -> None:
        self.came: list[Any] = []

    def start(self, host: Host) -> None:
        self.port = host.frames(self.on_frames)

    def on_frames(self, frames: Frames) -> None:
        for _, frame in frames:
            self.came.append(frame)
            if frame[:6] != BROADCAST:
                self.port.send(frame[6:12] + frame[:6] + frame[12:])

    def result(self) -> Any:
        return self.came


class Crafter(Application):
    """Sends complete frames at a given time. The IP stack of its host stays active."""

    def __init__(self, time_ns: int, frames: list[bytes]) -> None:
        self.time_ns = time_ns
        self.frames = frames

    def start(self, host: Host) -> None:
        self.port = host.frames()
        host.call_at(self.time_ns, self.send)

    def send(self) -> None:
        for frame in self.frames:
            self.port.send(frame)


class Timers(Application):
    """Records which timers were called, and how late."""

    def __init__(self, start_ns: int) -> None:
        self.start_ns = start_ns
        self.called: list[tuple[str, int]] = []

    def start(self, host: Host) -> None:
        self.host = host
        for name, after_ns in (("c", 20), ("b", 10), ("a", 10), ("now", -5), ("never", 21)):
            host.call_at(self.start_ns + after_ns, partial(self.note, name))

    def note(self, name: str) -> None:
        self.called.append((name, self.host.now_ns() - self.start_ns))
        if name == "b":
            self.host.call_at(0, partial(self.note, "soon"))

    def result(self) -> Any:
        return self.called


class Restless(Application):
    """Sets a new timer for the current time in each call."""

    def start(self, host: Host) -> None:
        self.host = host
        self.again()

    def again(self) -> None:
        self.host.call_at(self.host.now_ns(), self.again)


class Broken(Application):
    """Raises an error at a given stage."""

    def __init__(self, what: str, stage: str = "start") -> None:
        self.what = what
        self.stage = stage
        if what == "not to be copied" and stage == "before":
            self.lock = threading.Lock()

    def start(self, host: Host) -> None:
        self.host = host
        self.udp = host.udp(5000, lambda _datagrams: self.fail("on_datagrams"))
        host.call_at(host.now_ns() + 10_000_000, lambda: self.fail("timer"))
        self.fail("start")

    def result(self) -> Any:
        self.fail("result")
        return threading.Lock() if self.what == "not to be copied" else None

    def fail(self, stage: str) -> None:
        if stage != self.stage:
            return
        wrong = {
            "error": lambda: self.host.receivers[9],
            "port taken": lambda: self.host.udp(5000),
            "no port": lambda: self.host.udp(70000),
            "no host": lambda: self.udp.send(b"x", "10.9.9.9", 5000),
            "no port to send to": lambda: self.udp.send(b"x", self.host.address, 0),
            "no dscp": lambda: self.udp.send(b"x", self.host.address, 5000, dscp=64),
            "no ecn": lambda: self.udp.send(b"x", self.host.address, 5000, ecn=-1),
            "no ttl": lambda: self.udp.send(b"x", self.host.address, 5000, ttl=0),
            "short message": lambda: self.icmp().send(bytes(7), self.host.address),
            "no host for ICMP": lambda: self.icmp().send(bytes(8), "10.9.9.9"),
            "no ttl for ICMP": lambda: self.icmp().send(bytes(8), self.host.address, ttl=256),
            "long payload": lambda: self.udp.send(bytes(1473), self.host.address, 5000),
            "short frame": lambda: self.host.frames().send(bytes(13)),
            "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
            "gone": lambda: os._exit(0),
        }
        wrong.get(self.what, lambda: None)()

    def icmp(self) -> IcmpPort:
        return self.host.icmp(lambda _messages: None)


class Large(Application):
    """Application that stores much data, and returns its size."""

    def __init__(self, size: int) -> None:
        self.data = bytes(size)

    def start(self, host: Host) -> None:
        pass

    def result(self) -> int:
        return len(self.data)


class Alerting(Application):
    """Shows its host's name on the page of --watch, at the end."""

    def start(self, host: Host) -> None:
        self._host = host

    def result(self) -> None:
        assert self._host.display is not None
        self._host.display.alert("application", self._host.now_ns(), f"from {self._host.name}")
