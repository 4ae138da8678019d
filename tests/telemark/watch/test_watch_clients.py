"""--watch: hostile clients, clients that do not read, and a run or server that is killed."""

import contextlib
import json
import math
import os
import signal
import socket
import struct
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

import pytest
from virtual_networks import Pair
from watching import Lossy, events, port, set_speed, status_of

from minip4.errors import Minip4Error
from telemark.watch import flow_counts
from telemark.watch import server as server_module
from telemark.watch.display import Display
from telemark.watch.measurement import started
from telemark.watch.publisher import Publisher, WatchServer
from telemark.watch.server import END_S, MAX_CONNECTIONS, REQUEST_S, Feed, Sampler, received

LARGE = 1 << 20  # bytes of an event; more than the buffers of a connection


@pytest.fixture
def server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[tuple[WatchServer, str]]:
    """A server without a run, and the address of its page. The server must print nothing."""
    printed, before = tmp_path / "stderr", os.dup(2)
    with printed.open("w") as file:
        os.dup2(file.fileno(), 2)  # capfd would use another file in each phase of a test
        found = WatchServer("example", is_virtual=True)
        os.dup2(before, 2)
    os.close(before)
    with found:
        yield found, capsys.readouterr().out.split()[1]
    assert printed.read_text() == ""


def connect(url: str) -> socket.socket:
    host, _, number = url.split("/")[2].partition(":")
    return socket.create_connection((host, int(number)), timeout=60)


def request(connection: socket.socket, url: str, method: str = "GET", head: str = "") -> None:
    path = "/" + url.split("/", 3)[3]
    connection.sendall(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{head}\r\n".encode())


def reset(connection: socket.socket) -> None:
    """Close a connection with a TCP reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@pytest.mark.parametrize(
    "first_bytes",
    [b"", b"\0\xff" * 1000, b"GET", b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b"\r\n\r\n",
     b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n",
     b"GET /\xff\xfe HTTP/1.1\r\n\r\n", b"DELETE / HTTP/1.1\r\n\r\n"],
    ids=["nothing", "binary", "incomplete", "long", "empty", "version", "headers", "not ASCII",
         "method"],
)  # fmt: skip
def test_a_malformed_request_gets_no_page_and_prints_nothing(
    server: tuple[WatchServer, str], first_bytes: bytes
) -> None:
    with connect(server[1]) as connection:
        connection.sendall(first_bytes)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionResetError):  # the server has not read everything
            while more := connection.recv(4096):
                answer += more
    assert b" 200 " not in answer.partition(b"\r\n")[0]
    assert b"<canvas" not in answer
    assert status_of(server[1]) == 200


def test_a_browser_that_resets_its_connection_prints_nothing(
    server: tuple[WatchServer, str],
) -> None:
    for name in ("", "events", "speed") * 5:
        assert status_of(server[1]) == 200
        connection = connect(server[1])
        request(connection, server[1] + name)
        reset(connection)
    assert status_of(server[1]) == 200


def test_a_speed_without_a_body_does_not_block_others(server: tuple[WatchServer, str]) -> None:
    with connect(server[1]) as connection:
        request(connection, server[1] + "speed", "POST", "Content-Length: 1000000\r\n")
        assert set_speed(server[1], "1") == 204


def test_the_number_of_connections_is_limited(server: tuple[WatchServer, str]) -> None:
    """If all connections are in use, the server closes a new one. Later, it serves again."""
    with contextlib.ExitStack() as stack:
        open_connections = [stack.enter_context(connect(server[1])) for _ in range(MAX_CONNECTIONS)]
        for connection in open_connections:
            request(connection, server[1] + "events")
            assert connection.recv(100)
        with pytest.raises((ConnectionError, urllib.error.URLError)):
            status_of(server[1])
    # the server notices the closed connections when it sends the next event
    server[0].publisher.start_network("network", Pair(), [], 0)
    while True:
        with contextlib.suppress(ConnectionResetError, urllib.error.URLError):
            if status_of(server[1]) == 200:
                break


def test_a_client_that_never_reads_delays_neither_others_nor_the_end(
    server: tuple[WatchServer, str],
) -> None:
    publisher = server[0].publisher
    with connect(server[1]) as lazy:
        request(lazy, server[1] + "events")
        seen = events(server[1])
        for number in range(20):
            publisher.send({"measurement": {"number": number, "padding": "x" * LARGE}})
            assert next(seen)[1]["number"] == number
        began_s = time.monotonic()
        server[0].__exit__()
        assert time.monotonic() - began_s < REQUEST_S / 2
        assert END_S < REQUEST_S / 2


def test_a_browser_that_reconnects_gets_no_event_twice(server: tuple[WatchServer, str]) -> None:
    publisher = server[0].publisher
    publisher.start_network("network", Pair(), [], 0)
    assert next(events(server[1]))[0] == "network"
    again = urllib.request.Request(server[1] + "events", headers={"Last-Event-ID": "1"})
    with urllib.request.urlopen(again, timeout=60) as response:
        publisher.send({"measurement": {"time_ns": 1}})
        assert [response.readline() for _ in range(3)] == [
            b"id: 2\n", b"event: measurement\n", b'data: {"time_ns":1}\n',
        ]  # fmt: skip


@pytest.mark.parametrize("number", ["x", "-1", "9" * 5000])
def test_an_invalid_event_number_is_ignored(server: tuple[WatchServer, str], number: str) -> None:
    server[0].publisher.start_network("network", Pair(), [], 0)
    again = urllib.request.Request(server[1] + "events", headers={"Last-Event-ID": number})
    with urllib.request.urlopen(again, timeout=60) as response:
        assert response.readline() == b"id: 1\n"


def test_two_runs_have_different_pages(
    server: tuple[WatchServer, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with WatchServer("other", is_virtual=True):
        other = capsys.readouterr().out.split()[1]
        token = server[1].split("/")[3]
        assert status_of(other) == 200
        assert status_of(other.replace(other.split("/")[3], token)) == 403
    assert status_of(server[1]) == 200


def test_an_incomplete_message_is_skipped() -> None:
    """A signal may interrupt the run while it sends a message."""
    assert [*received(BytesIO(b'{"a": 1}\n{"b{"c": 1}\n{"d": 1}\n{"e'))] == [{"a": 1}, {"d": 1}]


@pytest.mark.parametrize("message", [b"", b'{"name": "x'])
def test_a_run_that_is_killed_at_its_start_prints_nothing(
    message: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as listener, theirs:
        with ours:
            ours.sendall(message)
        server_module.serve(listener, theirs, -1, -1)
    assert capfd.readouterr() == ("", "")


def test_the_server_of_a_killed_run_ends(server: tuple[WatchServer, str]) -> None:
    """The kernel closes the connection of a killed run."""
    seen = events(server[1])
    server[0].publisher.start_network("network", Pair(), [], 0)
    assert next(seen)[0] == "network"
    server[0]._channel.sendall(b'{"measure')
    server[0]._channel.close()
    assert next(seen) == ("end", {})
    assert server[0]._process.wait(60) == 0


def test_a_run_continues_if_its_server_is_killed(server: tuple[WatchServer, str]) -> None:
    """With unread data at the server, the run's connection is reset."""
    found, url = server
    publisher = found.publisher
    assert status_of(url) == 200  # the server runs
    os.kill(found._process.pid, signal.SIGSTOP)
    publisher.start_network("network", Pair(), [], 0)
    found._process.kill()
    found._process.wait()
    publisher.pace(0, dict)
    assert publisher._speed == math.inf


@pytest.fixture
def responses(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Replace the control sockets of the switches. Return a function that stops a switch."""
    stopped: set[str] = set()

    def call(path: Path, _name: str) -> object:
        if path.stem in stopped:
            raise Minip4Error("no response")
        ports = {"1": port(transmitted_bytes=time.monotonic_ns()), "2": port()}
        return {"engine": {}, "ports": ports}

    monkeypatch.setattr(server_module, "call", call)
    return stopped.add


class Switch:
    target = "minip4"

    def __init__(self, name: str) -> None:
        self.name, self.control_path = name, Path(f"{name}.sock")


@pytest.fixture
def counts() -> Iterator[int]:
    """Memory for counts of flows."""
    with flow_counts.create() as file:
        yield file.fileno()


def test_a_stopped_switch_keeps_its_counters(responses: Callable[[str], None], counts: int) -> None:
    feed = Feed()
    message = started("network", Lossy(), [Switch("s1"), Switch("s2")], 0)
    number = 0

    def sent() -> list[int]:
        """Return the counters of s1 and s2 of the next measurement."""
        nonlocal number
        ((number, _, data),) = feed.later(number)
        directions = json.loads(data)["directions"]
        return [directions[1]["bytes"], directions[3]["bytes"]]

    sampler = Sampler(message, feed, counts)
    sent()
    responses("s1")
    sent()  # the switch may have responded before it stopped
    before, after = sent(), sent()
    sampler.stop()
    assert after[0] == before[0]
    assert after[1] > before[1]


@pytest.mark.usefixtures("responses")
def test_the_pause_after_a_slow_reading_is_limited(
    counts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With this share of a CPU, the pause after any reading would be hours."""
    for name, value in (("MAX_CPU_SHARE", 1e-9), ("MAX_PAUSE_S", 0.01), ("ALIVE_S", 2.0)):
        monkeypatch.setattr(server_module, name, value)
    feed, number = Feed(), 0
    sampler = Sampler(started("network", Lossy(), [Switch("s1")], 0), feed, counts)
    for _ in range(2):
        ((number, *_),) = feed.later(number)
    sampler.stop()


@pytest.mark.usefixtures("responses")
def test_a_flow_that_has_ended_has_no_current_counts(counts: int) -> None:
    feed = Feed()
    os.pwrite(counts, flow_counts.PAIR.pack(8, 7), 3 * flow_counts.PAIR.size)
    sampler = Sampler(started("network", Lossy(), [Switch("s1"), Switch("s2")], 0), feed, counts)
    sampler.flows = [{"id": 3, "counts": (5, 5)}, {"id": 3}]
    number, found = 0, []
    while len(found) < 2:  # the first measurement may have been before the flows
        ((number, _, data),) = feed.later(number)
        found.append(json.loads(data)["flows"])
    sampler.stop()
    assert found[1] == [None, [8, 7]]


def test_a_publisher_without_a_reader_does_nothing() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        theirs.close()
        publisher = Publisher(ours, Display(-1), is_virtual=False, flow_counts=-1)
        publisher.start_network("network", Pair(), [], 0)
