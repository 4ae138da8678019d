"""Server process of --watch: it sends the page and the measurements of a run to browsers.

The process receives JSON objects, one per line, over the connection from the run (publisher.py). It
ends with this connection. In the other direction, it sends the speed of virtual time that the user
selects. Collectors and experiments, which may be other processes, use a pipe (display.py). In real
time, the server process reads the counters of the switches from their control sockets, and the
counts of the flows from a mapped file (flow_counts.py).
"""

import contextlib
import json
import secrets
import socket
import sys
import threading
import time
from base64 import b64encode
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO

from minip4.errors import Minip4Error
from minip4.runtime.switch.control import call
from telemark.results.markup import text
from telemark.watch.flow_counts import FlowCountReader
from telemark.watch.measurement import measure
from telemark.watch.publisher import UPDATE_S

PAGE = Path(__file__).parent / "page"
SHARED = Path(__file__).parents[1] / "results" / "page"  # parts that index.html has, too
MAX_MESSAGES = 20_000  # of collectors and experiments; the oldest ones are removed
ALIVE_S = 15.0  # interval of comments, which reveal that a browser has closed the connection
REQUEST_S = 10.0  # maximum time to receive a request or to send a part of a response
# Maximum share of a CPU for reading counters in real time: 2.5 % of a machine with two CPUs. For
# example, reading the counters of 80 switches takes 30 ms, so the page shows them every 0.6 s.
MAX_CPU_SHARE = 0.05
# Maximum time between readings. It applies if a switch responds late, and above 260 switches, where
# reading then needs more than MAX_CPU_SHARE.
MAX_PAUSE_S = 2.0
END_S = 1.0  # maximum time to send the last event
MAX_SPEED_BYTES = 32
MAX_CONNECTIONS = 64


class Feed:
    """The last event of each kind, and the messages of collectors and experiments.

    A browser that is slow receives only the last event of each kind.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._number = 0
        self._events: dict[str, tuple[int, str]] = {}
        self._messages: deque[tuple[int, str, str]] = deque(maxlen=MAX_MESSAGES)
        self._readers = 0

    def publish(self, kind: str, data: object) -> None:
        """Replace the last event of this kind. A new network removes measurement and flows."""
        with self._changed:
            if kind == "network":
                self._events.pop("measurement", None)
                self._events.pop("flows", None)
            self._number += 1
            self._events[kind] = self._number, json.dumps(data, separators=(",", ":"))
            self._changed.notify_all()

    def add_message(self, line: bytes) -> None:
        """Add a message of a collector or an experiment."""
        with self._changed:
            self._number += 1
            self._messages.append((self._number, "message", line.decode().strip()))
            self._changed.notify_all()

    def later(self, number: int) -> list[tuple[int, str, str]]:
        """Wait for events after event `number`; return them as (number, kind, data).

        Returns no event after ALIVE_S.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._number > number, ALIVE_S)
            found = [(n, kind, data) for kind, (n, data) in self._events.items() if n > number]
            found += takewhile(lambda message: message[0] > number, reversed(self._messages))
            return sorted(found)

    @contextlib.contextmanager
    def reader(self) -> Iterator[None]:
        """Count a reader, until it has read the last event."""
        with self._changed:
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    def wait_for_readers(self) -> None:
        """Wait until there are no readers, at most END_S."""
        with self._changed:
            self._changed.wait_for(lambda: not self._readers, END_S)


class WebServer(ThreadingHTTPServer):
    """HTTP server on a socket that already listens. It has a limited number of connections."""

    def __init__(
        self, listener: socket.socket, channel: socket.socket, about: Mapping[str, Any]
    ) -> None:
        super().__init__(listener.getsockname(), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.channel = channel
        self.token = about["token"].encode()
        self.is_virtual = about["is_virtual"]
        self.page, self.policy = render(about)
        self.feed = Feed()
        self._speed: float | None = None  # the last speed that a browser selected
        self._speed_lock = threading.Lock()
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)

    def verify_request(self, request: object, client_address: object) -> bool:
        """Return whether there is room for this connection. If not, it is closed."""
        return self._free.acquire(blocking=False)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print no error of a connection, because the terminal belongs to the run."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def set_speed(self, speed: float, *, is_first: bool) -> None:
        """Set the speed, and send it to all browsers. `is_first`: only if there is no speed yet."""
        with self._speed_lock:
            if is_first and self._speed is not None:
                return
            self._speed = speed
            self.feed.publish("speed", f"{speed:g}")
            self.repeat_speed()

    def repeat_speed(self) -> None:
        """Send the speed again, because another process of the run may have received it."""
        if self._speed is not None:
            with contextlib.suppress(OSError):  # the run has ended
                self.channel.sendall(f"{self._speed}\n".encode())


class Handler(BaseHTTPRequestHandler):
    """One request: GET for the page or its events, POST for a speed.

    A page sends its speed when it is opened. Only that of the first page counts.
    """

    server: WebServer
    timeout = REQUEST_S

    def do_GET(self) -> None:
        name = self._name()
        if name == "" and not self.path.endswith("/"):  # addresses in the page are relative
            self.send_response(302)
            self.send_header("Location", f"{self.path}/")
            self.end_headers()
        elif name == "":
            self._respond(200, "text/html; charset=utf-8", self.server.page.encode())
        elif name == "events":
            with contextlib.suppress(OSError), self.server.feed.reader():
                self._send_events()
        elif name is not None:
            self._respond(404, "text/plain", b"not found\n")

    def do_POST(self) -> None:
        name = self._name()
        if name in ("speed", "first-speed") and self.server.is_virtual:
            try:
                length = int(self.headers["Content-Length"])
                speed = float(self.rfile.read(min(max(length, 0), MAX_SPEED_BYTES)))
                if not speed >= 0:  # also NaN
                    raise ValueError
            except (TypeError, ValueError):
                self._respond(400, "text/plain", b"speed: expected a number from 0, or inf\n")
                return
            self.server.set_speed(speed, is_first=name == "first-speed")
            self._respond(204, "text/plain", b"")
        elif name is not None:
            self._respond(404, "text/plain", b"not found\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing, because the terminal belongs to the run."""

    def _name(self) -> str | None:
        """Return the path after the token. Without the token, respond with 403; return None."""
        _, token, name = (*self.path.split("/", 2), "", "")[:3]
        if secrets.compare_digest(token.encode(), self.server.token):
            return name
        self._respond(403, "text/plain", b"wrong token: use the address that the run printed\n")
        return None

    def _respond(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Content-Security-Policy", self.server.policy)
        self.end_headers()
        self.wfile.write(body)

    def _send_events(self) -> None:
        """Send events until the run or the browser ends."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        # a browser that lost its connection sends the number of the last event that it received
        number, kind = 0, ""
        with contextlib.suppress(TypeError, ValueError):
            number = max(int(self.headers["Last-Event-ID"]), 0)
        while kind != "end":
            events = self.server.feed.later(number)
            for number, kind, data in events:
                self.wfile.write(f"id: {number}\nevent: {kind}\ndata: {data}\n\n".encode())
            if not events:
                self.wfile.write(b":\n\n")


def render(about: Mapping[str, Any]) -> tuple[str, str]:
    """Return the page and its content security policy."""
    scripts = (SHARED / "canvas.js", PAGE / "timeline.js", PAGE / "watch.js", PAGE / "measured.js")
    script = "".join(path.read_text() for path in scripts)
    styles = (SHARED / "page.css", PAGE / "watch.css", PAGE / "measured.css")
    style = "".join(path.read_text() for path in styles)
    page = (PAGE / "watch.html").read_text().format(
        name=text(about["name"]),
        time="virtual time" if about["is_virtual"] else "real time",
        hidden="" if about["is_virtual"] else "hidden",
        paused="the run" if about["is_virtual"] else "this page",
        style=style,
        script=script,
    )  # fmt: skip
    script_hash = b64encode(sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; connect-src 'self'; script-src 'sha256-{script_hash}'; "
        "style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
    )
    return page, policy


class Sampler:
    """Thread that reads the counters of a network's switches and flows in real time."""

    def __init__(self, message: Mapping[str, Any], feed: Feed, flow_counts: int) -> None:
        self._message, self._feed = message, feed
        self._flow_counts = FlowCountReader(flow_counts)
        self.flows: Sequence[Mapping[str, Any]] = []  # as the run described them
        self._stopped = threading.Event()
        # a daemon, because a switch that does not respond must not delay the end
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop reading, because the network has stopped."""
        self._stopped.set()
        self._thread.join(END_S)

    def _run(self) -> None:
        counters: dict[str, dict[str, Any]] = {}
        cost_s = 0.0
        while not self._stopped.wait(min(max(UPDATE_S, cost_s / MAX_CPU_SHARE), MAX_PAUSE_S)):
            began_s = time.monotonic()
            for name, path in self._message["control"].items():
                with contextlib.suppress(Minip4Error):  # a stopped switch keeps its last counters
                    counters[name] = call(Path(path), "counters")
            if self._stopped.is_set():  # a switch responded late
                return
            now_ns = time.monotonic_ns() - self._message["began_ns"]
            measurement = measure(self._message["network"], counters, now_ns)
            # a flow that has ended has its final counts
            flows = [
                None if "counts" in flow else self._flow_counts.read(flow["id"])
                for flow in self.flows
            ]
            self._feed.publish("measurement", measurement | {"flows": flows})
            cost_s = time.monotonic() - began_s


def read_messages(descriptor: int, feed: Feed) -> None:
    """Read the messages of collectors and experiments."""
    with open(descriptor, "rb") as pipe:
        for line in pipe:
            feed.add_message(line)


def received(file: BinaryIO) -> Iterator[dict[str, Any]]:
    """Yield the messages of the run. A message is incomplete if a signal interrupted the run."""
    with contextlib.suppress(ConnectionResetError):  # the run was killed
        for line in file:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            yield message


def serve(listener: socket.socket, channel: socket.socket, pipe: int, flow_counts: int) -> None:
    """Serve the page until the run ends.

    `pipe` is the descriptor of the pipe of messages, and `flow_counts` that of flow_counts.py.
    """
    with channel.makefile("rb") as file:
        messages = received(file)
        about = next(messages, None)
        if about is None:
            return
        server = WebServer(listener, channel, about)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        # a daemon, because a process that is left may still have the pipe
        reader = threading.Thread(target=read_messages, args=(pipe, server.feed), daemon=True)
        reader.start()
        sampler = None
        for message in messages:
            if "network" in message:
                server.feed.publish("network", message["network"])
                server.repeat_speed()
                if message["control"]:
                    sampler = Sampler(message, server.feed, flow_counts)
            elif "stopped" not in message:
                if "flows" in message and sampler is not None:
                    sampler.flows = message["flows"]
                for kind, data in message.items():
                    server.feed.publish(kind, data)
            else:
                if sampler is not None:
                    sampler.stop()
                if message["stopped"] is not None:
                    server.feed.publish("measurement", message["stopped"])
                server.feed.publish("stopped", {})
    reader.join(END_S)
    server.feed.publish("end", {})
    server.feed.wait_for_readers()


if __name__ == "__main__":
    serve(
        socket.socket(fileno=int(sys.argv[1])), socket.socket(fileno=int(sys.argv[2])),
        int(sys.argv[3]), int(sys.argv[4]),
    )  # fmt: skip
