"""The collector as a separate process, which Prometheus scrapes while it runs."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path

import pytest
from decoding import ENCODING, datagrams
from path_reports import alone

from collectors.int.__main__ import SharedCollector, main
from collectors.int.decoder import Decoded
from collectors.int.index import Limits
from telemark.apps.application import HostInfo
from telemark.backends.real.application_host import ProcessHost
from telemark.backends.real.applications import Task
from telemark.results.provenance import REPOSITORY

LOCAL = "127.0.0.1"
LISTEN = " 0A "  # TCP_LISTEN in /proc/net/tcp
TIMEOUT_S = 120.0  # timeout for hung processes; generous for a loaded machine


def free_port(kind: socket.SocketKind) -> int:
    """Return a port outside of the kernel's ephemeral range (ip_local_port_range, ip(7)).

    No other test gets this port before the caller binds it.
    """
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with suppress(OSError), socket.socket(socket.AF_INET, kind) as probe:
            probe.bind((LOCAL, port))
            return port
    raise AssertionError("no port is free")


@pytest.fixture
def ports() -> tuple[int, int]:
    """Return free ports for UDP and TCP."""
    return free_port(socket.SOCK_DGRAM), free_port(socket.SOCK_STREAM)


@pytest.fixture
def collector(ports: tuple[int, int]) -> Iterator[subprocess.Popen[str]]:
    """Start a collector in this folder, at the default addresses."""
    with started(ports) as process:
        yield process


@contextmanager
def started(ports: tuple[int, int], *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run a collector at these ports until the `with` block ends."""
    command = [sys.executable, "-m", "collectors.int", "--port", str(ports[0]),
               "--metrics", str(ports[1]), "--timestamp-unit", "1", *options]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stderr is not None
    assert f", UDP port {ports[0]}; " in process.stderr.readline()
    yield process
    process.kill()
    process.communicate()


def addresses(protocol: str, port: int) -> set[str]:
    """Return the local IPv4 addresses of sockets with this local port (proc_net(5))."""
    lines = Path("/proc/net", protocol).read_text().splitlines()[1:]
    sockets = [line.split()[1].split(":") for line in lines if protocol == "udp" or LISTEN in line]
    return {str(ip_address(int(address, 16).to_bytes(4, sys.byteorder)))
            for address, number in sockets if int(number, 16) == port}  # fmt: skip


@pytest.mark.parametrize(
    ("options", "expected"),
    [((), (LOCAL, LOCAL)),
     (("--address", "127.0.0.2", "--metrics-address", "127.0.0.3"), ("127.0.0.2", "127.0.0.3")),
     (("--address", "0.0.0.0"), ("0.0.0.0", LOCAL))],
    ids=["default", "named", "all"],
)  # fmt: skip
def test_it_listens_at_loopback_unless_an_address_is_given(
    ports: tuple[int, int], options: tuple[str, ...], expected: tuple[str, str]
) -> None:
    with started(ports, *options):
        found = addresses("udp", ports[0]), addresses("tcp", ports[1])
    assert found == tuple({address} for address in expected)
    # An IPv6 socket would also accept packets to IPv4 addresses.
    for protocol, port in zip(("udp6", "tcp6"), ports, strict=True):
        assert f":{port:04X} " not in Path("/proc/net", protocol).read_text()


def metrics(port: int) -> str:
    with urllib.request.urlopen(f"http://{LOCAL}:{port}/metrics", timeout=TIMEOUT_S) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return str(answer.read().decode())


def test_it_answers_prometheus_while_it_runs_and_says_in_the_end_what_it_found(
    collector: subprocess.Popen[str], ports: tuple[int, int]
) -> None:
    sent = [alone(5, 0, ttl=64), alone(6, 0, ttl=63), alone(5, 2, number=1), b"none"]
    assert "int_datagrams_total 0.0\n" in metrics(ports[1])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for payload in sent:
            sender.sendto(payload, (LOCAL, ports[0]))
    deadline = time.monotonic() + TIMEOUT_S
    while "int_datagrams_total 4.0\n" not in (text := metrics(ports[1])):
        assert time.monotonic() < deadline, text
    assert "int_flows 1.0\n" in text
    assert 'int_malformed_total{reason="group_header"} 1.0\n' in text
    collector.send_signal(signal.SIGINT)
    output, _ = collector.communicate(timeout=TIMEOUT_S)
    assert collector.returncode == 0
    found = json.loads(output)
    wanted = {"datagrams": 4, "reports": 3, "flows": 1, "lost": 1, "kernel_drops": 0,
              "malformed": {"group_header": 1}}  # fmt: skip
    assert {what: found[what] for what in wanted} == wanted
    [flow] = found["seen_last"]
    assert (flow["source"], flow["path"], flow["reports"]) == ("10.0.0.1", [5, 6], 3)


def test_memory_at_the_limit_of_flows_is_what_the_documentation_says(
    collector: subprocess.Popen[str], ports: tuple[int, int]
) -> None:
    """A collector with the maximum number of flows needs as much memory as documented.

    The peak occurs during a scrape, as docs/reference/int-collector.md says.
    """
    page = (REPOSITORY / "docs" / "reference" / "int-collector.md").read_text()
    (said_mb,) = re.findall(r"While Prometheus scrapes .*needs (\d+) MB", page)
    report, flows = alone(5, 0), Limits().flows
    at = report.index(bytes([10, 0, 0, 1]))  # the source address
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for number in range(flows):
            changed = report[:at] + (0x0A000000 + number).to_bytes(4, "big") + report[at + 4 :]
            sender.sendto(changed, (LOCAL, ports[0]))
            if number % 200 == 0:
                time.sleep(0.01)
    deadline = time.monotonic() + TIMEOUT_S
    while f"int_flows {float(flows)}\n" not in (text := metrics(ports[1])):
        assert time.monotonic() < deadline, text[:1000]
    status = Path("/proc", str(collector.pid), "status").read_text()
    (peak_kb,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
    assert int(peak_kb) / 1000 == pytest.approx(int(said_mb), rel=0.25)


class Asked(SharedCollector):
    """A collector that requests its own findings while it processes reports."""

    def take(self, part: Decoded) -> None:
        thread = threading.Thread(target=lambda: self.answers.append(self.findings().reports))
        thread.start()
        thread.join(0.05)
        super().take(part)
        self.asking = thread


def test_who_asks_waits_for_what_is_being_taken_in() -> None:
    collector = Asked(ENCODING, port=free_port(socket.SOCK_DGRAM))
    collector.answers = []
    collector.start(ProcessHost(Task(HostInfo("here", LOCAL, "", 1500, {}), "", [], None)))
    collector.on_datagrams(datagrams([alone(5, 0)], 0, 1))
    collector.asking.join(TIMEOUT_S)
    assert collector.answers == [1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--address", "192.0.2.1"], "192.0.2.1: Cannot assign requested address"),
        (["--address", "here"], "here: "),
        (["--address", LOCAL, "--port", "{udp}"], "UDP port {udp}: already in use"),
        (
            ["--address", LOCAL, "--metrics", "{tcp}"],
            "TCP port {tcp} at 127.0.0.1 for Prometheus: Addr",
        ),
        (
            ["--address", "127.0.0.2", "--metrics", "0", "--metrics-address", "192.0.2.1"],
            "TCP port 0 at 192.0.2.1 for Prometheus: Cannot",
        ),
        (["--store", "/proc/none/run"], "/proc/none"),
        (["--int-dscp", "64"], "argument --int-dscp: '64' is not a number from 0 to 63"),
        (["--port", "x"], "argument --port: 'x' is not a number from 1 to 65535"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tcp,
    ):
        udp.bind((LOCAL, 0))
        tcp.bind(("", 0))
        tcp.listen()
        taken = {"udp": udp.getsockname()[1], "tcp": tcp.getsockname()[1]}
        try:
            status = main([argument.format(**taken) for argument in arguments])
        except SystemExit as exit_:
            status = int(exit_.code or 0)
    assert status == 2
    [line] = capsys.readouterr().err.splitlines()
    assert words.format(**taken) in line
