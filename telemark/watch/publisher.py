"""The run's side of --watch: it starts the server process and sends measurements to it.

In real time, the server process reads the control sockets of the switches and the counts of the
flows itself, so the processes of the run have no additional work. In virtual time, the run sends
measurements.
"""

import contextlib
import json
import math
import os
import secrets
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mininet.topo import Topo

from telemark.watch import flow_counts
from telemark.watch.display import Display
from telemark.watch.measurement import measure, started

UPDATE_S = 0.2  # interval of measurements
# A measurement may come a little early, because pauses are not exact.
EARLY = 0.75
MAX_SHARE = 0.02  # maximum share of the run's time for measurements in virtual time
# In virtual time, the network stops in steps that take about STEP_S. So it reacts to the user.
STEP_S = 0.05
EXIT_S = 10.0  # maximum time until the server process ends
MIN_STEP_NS, MAX_STEP_NS = 1_000, 1_000_000_000
MAX_FLOWS = 200  # maximum number of flows that the page shows, per network

# map from flow id to packets (UDP) or bytes (TCP) sent and received
FlowCounts = Mapping[int, tuple[int, int]]
ReadCounts = Callable[[Sequence[int]], FlowCounts]


class WatchServer:
    """Server process of a run's page. A context manager: the process ends with the block.

    The process must be created before the namespaces of the run, because it listens on the
    machine's loopback interface.
    """

    def __init__(self, name: str, *, is_virtual: bool) -> None:
        """Start the process, and print the address of the page."""
        token = secrets.token_urlsafe(16)
        self._channel, theirs = socket.socketpair()
        readable, writable = os.pipe()
        self._pipe = os.fdopen(writable, "wb")
        self._flow_counts = flow_counts.create()
        with (
            socket.create_server(("127.0.0.1", 0)) as listener, theirs,
            open(readable, "rb") as pipe,
        ):  # fmt: skip
            descriptors = [
                listener.fileno(), theirs.fileno(), pipe.fileno(), self._flow_counts.fileno(),
            ]  # fmt: skip
            # in its own session, so that Ctrl-C reaches only the run
            self._process = subprocess.Popen(
                [sys.executable, "-m", "telemark.watch.server", *map(str, descriptors)],
                pass_fds=descriptors, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            port = listener.getsockname()[1]
        # before the first network, the page shows the time since now
        began_ns = 0 if is_virtual else time.monotonic_ns()
        display = Display(writable, began_ns=began_ns)
        self.publisher = Publisher(
            self._channel, display, is_virtual=is_virtual, flow_counts=self._flow_counts.fileno()
        )
        # not on the command line, which other users can read
        self.publisher.send({"name": name, "token": token, "is_virtual": is_virtual})
        note = " (the run waits until you open this page)" if is_virtual else ""
        print(f"Watch: http://127.0.0.1:{port}/{token}/{note}", flush=True)

    def __enter__(self) -> "WatchServer":
        return self

    def __exit__(self, *_error: object) -> None:
        # The server process ends when it has received everything. It may have been killed.
        self._pipe.close()
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(EXIT_S)
        self._process.kill()
        self._process.wait()
        self._channel.close()
        self._flow_counts.close()


class Publisher:
    """Sends the networks of a run to the server process; in virtual time, it also paces the run.

    `flow_counts` is the descriptor of watch/flow_counts.py.
    """

    def __init__(
        self, channel: socket.socket, display: Display, *, is_virtual: bool, flow_counts: int
    ) -> None:
        self.display = display
        self.flow_counts = flow_counts
        self._channel = channel
        self._is_virtual = is_virtual
        self._network: dict[str, Any] = {}
        self._flows: list[dict[str, Any]] = []
        self._traffic: list[tuple[Sequence[dict[str, Any]], ReadCounts]] = []
        self._began_ns = 0  # time of the run that the page shows as 0
        self._speed = 0.0  # relative to real time; 0: paused, as until the page is open
        self._step_ns = self._adapted_ns = float(MIN_STEP_NS)
        self._resumed_s = self._due_s = 0.0
        self.next_ns = 0  # virtual time of the next call of pace()

    def start_network(self, name: str, topo: Topo, switches: Iterable[Any], now_ns: int) -> None:
        """Send the description of a network that has started."""
        self.next_ns, self._due_s = now_ns, 0.0
        self._resumed_s = time.monotonic()
        self._began_ns = 0 if self._is_virtual else now_ns
        message = started(name, topo, () if self._is_virtual else switches, self._began_ns)
        self._network = message["network"]
        self._flows, self._traffic = [], []
        numbers = {switch: number for number, switch in enumerate(topo.switches(), start=1)}
        links = {
            (numbers[each["from"]], each["from_port"]): f"{each['from']} to {each['to']}"
            for each in self._network["directions"] if each["from"] in numbers
        }  # fmt: skip
        self.display = Display(
            self.display.descriptor, name, self._began_ns, topo.switches(), links
        )
        self.send(message)

    def stop_network(self, counters: Mapping[str, Mapping[str, Any]], now_ns: int) -> None:
        """Send that the network has stopped; `counters` are empty if it has failed."""
        last = measure(self._network, counters, now_ns - self._began_ns) if counters else None
        self.send({"stopped": last})

    def start_flows(self, flows: list[dict[str, Any]], read_counts: ReadCounts) -> None:
        """Send the descriptions of flows that start. Only the first MAX_FLOWS are shown."""
        shown = flows[: MAX_FLOWS - len(self._flows)]
        self._flows += shown
        self._traffic.append((shown, read_counts))
        self.send({"flows": self._flows})

    def end_flows(self, flows: Iterable[dict[str, Any]], counts: FlowCounts) -> None:
        """Send how much each flow has sent and received until its end.

        Only the first call for a flow sets its counts.
        """
        for flow in flows:
            flow.setdefault("counts", counts.get(flow["id"]))
        self.send({"flows": self._flows})

    def _flow_counts(self) -> list[tuple[int, int] | None]:
        """Return the current counts of all flows."""
        found: list[tuple[int, int] | None] = []
        for flows, read_counts in self._traffic:
            counts = read_counts([flow["id"] for flow in flows])
            found += [counts.get(flow["id"]) for flow in flows]
        return found

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message. Does nothing if the server process has ended."""
        with contextlib.suppress(OSError):
            self._channel.sendall(json.dumps(message).encode() + b"\n")

    def pace(self, time_ns: int, read_counters: Callable[[], dict[str, dict[str, Any]]]) -> None:
        """Send a measurement if one is due, and wait until the network may continue.

        The network has reached `next_ns`. This method sets `next_ns` to the time of the next call.
        """
        began_s = time.monotonic()
        ratio = STEP_S / max(began_s - self._resumed_s, 1e-9)
        adapted_ns = self._adapted_ns * min(max(ratio, 0.5), 2)
        self._adapted_ns = min(max(adapted_ns, MIN_STEP_NS), MAX_STEP_NS)
        if began_s >= self._due_s:
            measurement = measure(self._network, read_counters(), time_ns)
            self.send({"measurement": measurement | {"flows": self._flow_counts()}})
            cost_s = time.monotonic() - began_s
            self._due_s = began_s + max(UPDATE_S * EARLY, cost_s / MAX_SHARE)
        self._wait()
        self._step_ns = self._adapted_ns
        if math.isfinite(self._speed):
            self._step_ns = min(self._step_ns, max(UPDATE_S * 1e9 * self._speed, MIN_STEP_NS))
        self.next_ns = time_ns + round(self._step_ns)
        self._resumed_s = time.monotonic()

    def _wait(self) -> None:
        """Wait for as long as the last step lasts at the speed that the user selects.

        The wait is limited, because the last step may be from before the user selected a lower
        speed. At 1 ms/s, a step of 1 s of virtual time would take 1000 s.
        """
        while True:
            left_s = None
            if self._speed:
                since_s = time.monotonic() - self._resumed_s
                step_s = min(self._step_ns / 1e9 / self._speed, UPDATE_S)
                left_s = max(step_s - since_s, 0.0)
            if not select.select([self._channel], [], [], left_s)[0]:
                return
            speeds = []
            with contextlib.suppress(ConnectionResetError):  # the server process was killed
                # the server process sends complete lines, and each of them is short
                speeds = self._channel.recv(4096).split()
            # without the server process, the run continues
            self._speed = float(speeds[-1]) if speeds else math.inf
            if not speeds:
                return
