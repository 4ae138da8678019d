"""The collector as a process that is started by hand, and what Prometheus gets of it meanwhile."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress

import pytest
from decoding import ENCODING, datagrams
from path_reports import alone

from collectors.int.__main__ import SharedCollector, main
from collectors.int.decoder import Decoded
from telemark.apps.application import HostInfo
from telemark.backends.real.application_host import ProcessHost
from telemark.backends.real.applications import Task

LOCAL = "127.0.0.1"
TIMEOUT_S = 120.0  # of what hangs: on a busy machine all takes longer


def free_port(kind: socket.SocketKind) -> int:
    """One of those that the kernel gives nobody who asks for any: else another test might get it
    before it is bound again (ip_local_port_range, ip(7))."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with suppress(OSError), socket.socket(socket.AF_INET, kind) as probe:
            probe.bind((LOCAL, port))
            return port
    raise AssertionError("no port is free")


@pytest.fixture
def ports() -> tuple[int, int]:
    """Free ones, UDP and TCP."""
    return free_port(socket.SOCK_DGRAM), free_port(socket.SOCK_STREAM)


@pytest.fixture
def collector(ports: tuple[int, int]) -> Iterator[subprocess.Popen[str]]:
    """One that listens there."""
    command = [sys.executable, "-m", "collectors.int", "--address", LOCAL, "--port", str(ports[0]),
               "--metrics", str(ports[1]), "--timestamp-unit", "1"]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stderr is not None
    assert f"listening at UDP port {ports[0]}" in process.stderr.readline()
    yield process
    process.kill()
    process.communicate()


def metrics(port: int) -> str:
    with urllib.request.urlopen(f"http://{LOCAL}:{port}/metrics", timeout=TIMEOUT_S) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return str(answer.read().decode())


def test_it_answers_prometheus_while_it_runs_and_says_in_the_end_what_it_found(
    collector: subprocess.Popen[str], ports: tuple[int, int]
) -> None:
    sent = [alone(5, 0, ttl=64), alone(6, 0, ttl=63), alone(5, 2, number=1), b"none"]
    assert "int_datagrams_total 0\n" in metrics(ports[1])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for payload in sent:
            sender.sendto(payload, (LOCAL, ports[0]))
    deadline = time.monotonic() + TIMEOUT_S
    while "int_datagrams_total 4\n" not in (text := metrics(ports[1])):
        assert time.monotonic() < deadline, text
    assert "int_flows 1\n" in text
    assert re.search(r'int_malformed_total\{reason="group_header"\} 1', text)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://{LOCAL}:{ports[1]}/", timeout=TIMEOUT_S)
    collector.send_signal(signal.SIGINT)
    output, _ = collector.communicate(timeout=TIMEOUT_S)
    assert collector.returncode == 0
    found = json.loads(output)
    wanted = {"datagrams": 4, "reports": 3, "flows": 1, "lost": 1, "kernel_drops": 0,
              "malformed": {"group_header": 1}}  # fmt: skip
    assert {what: found[what] for what in wanted} == wanted
    [flow] = found["seen_last"]
    assert (flow["source"], flow["path"], flow["reports"]) == ("10.0.0.1", [5, 6], 3)


class Asked(SharedCollector):
    """Somebody asks for its findings in the midst of its work."""

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
        (["--address", LOCAL, "--port", "{udp}"], "UDP port {udp} is taken"),
        (["--address", LOCAL, "--metrics", "{tcp}"], "TCP port {tcp} for Prometheus: Address alr"),
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
