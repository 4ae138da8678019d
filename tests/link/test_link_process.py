"""`minip4 link` between two veth pairs: packet accounting, log of drops, and invalid options."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import wire

from minip4.link.cli import INCLUDE, SOURCES
from minip4.native import build

MINIP4_LINK = [sys.executable, "-m", "minip4.cli", "link"]


@pytest.fixture(autouse=True)
def interfaces() -> Iterator[None]:
    with wire.namespace():
        wire.veth("w1", "h1")
        wire.veth("w2", "h2")
        yield


class Link:
    """A running process `minip4 link w1 w2`. stop() ends it, and returns its counters."""

    def __init__(self, *options: str, command: Sequence[str] = MINIP4_LINK) -> None:
        self.process = subprocess.Popen(
            [*command, "w1", "w2", *options], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "minip4 link: ready (w1 - w2)\n"

    def stop(self) -> list[dict[str, Any]]:
        self.process.send_signal(signal.SIGTERM)
        output, _ = self.process.communicate(timeout=wire.TIMEOUT_S)
        assert self.process.returncode == 0
        directions: list[dict[str, Any]] = json.loads(output)["directions"]
        for counted in directions:
            link = counted["link"]
            assert counted["received_packets"] == (
                counted["queue_drops"] + counted["waiting"] + link["sent_packets"]
            )
            assert link["sent_packets"] == link["delivered_packets"] + link["lost_packets"]
            assert link["delivered_packets"] == counted["transmitted_packets"]
            assert counted["kernel"] == {"receive_drops": 0, "send_errors": 0}
        return directions


@pytest.fixture
def ended() -> Iterator[list[subprocess.Popen[str]]]:
    """List to which tests add their processes.

    At the end of a test, those that still run are killed.
    """
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def test_the_log_has_the_lost_frames_of_both_directions(
    tmp_path: Path, ended: list[subprocess.Popen[str]]
) -> None:
    options = ("--loss-probability", "0.2", "--seed", "3", "--delay-us", "1000")
    link = Link(*options, "--drop-log", str(tmp_path))
    ended.append(link.process)
    frames = [wire.frame(60, number) for number in range(2000)]
    with wire.end("h1") as one, wire.end("h2") as two:
        for sent in frames:
            one.send(sent)
            two.send(sent)
        directions = link.stop()
        for end, interface, counted in ((two, "w2", directions[0]), (one, "w1", directions[1])):
            lost = [data for _, _, data in wire.pcap_records(tmp_path / f"{interface}_lost.pcap")]
            assert len(lost) == counted["link"]["lost_packets"]
            assert 300 < len(lost) < 500
            end.settimeout(0)
            arrived = [end.recv(2048) for _ in range(len(frames) - len(lost))]
            assert arrived == [sent for sent in frames if sent not in set(lost)]
    assert wire.pcap_records(tmp_path / "w1_lost.pcap") != wire.pcap_records(
        tmp_path / "w2_lost.pcap"
    )


def test_the_queue_before_a_slow_link_drops_its_tail(ended: list[subprocess.Popen[str]]) -> None:
    link = Link("--rate-bps", "8000000", "--queue-packets", "10")  # 1 ms for 1000 bytes
    ended.append(link.process)
    with wire.end("h1") as one, wire.end("h2") as two:
        start_ns = time.monotonic_ns()
        for number in range(50):
            one.send(wire.frame(1000, number))
        for number in range(11):  # one frame that the link sends, and ten in the queue
            assert two.recv(2048)[14:18] == number.to_bytes(4, "big")
        assert time.monotonic_ns() - start_ns >= 11_000_000
        directions = link.stop()
    assert directions[0]["queue_drops"] + directions[0]["transmitted_packets"] == 50
    assert directions[0]["queue_drops"] > 0


def test_held_back_frames_are_overtaken(ended: list[subprocess.Popen[str]]) -> None:
    link = Link("--reorder-probability", "0.2", "--reorder-us", "20000", "--seed", "2")
    ended.append(link.process)
    with wire.end("h1") as one, wire.end("h2") as two:
        for number in range(200):
            one.send(wire.frame(60, number))
        numbers = [int.from_bytes(two.recv(2048)[14:18], "big") for _ in range(200)]
    assert sorted(numbers) == list(range(200))
    assert numbers != sorted(numbers)
    link.stop()


def test_hostile_frames_under_address_sanitizer(
    tmp_path: Path, ended: list[subprocess.Popen[str]]
) -> None:
    """A link with AddressSanitizer gets frames of odd lengths, with VLAN tags, and of jumbo size.

    Its queue overflows, too.
    """
    sanitized = build.program(SOURCES, include=INCLUDE, sanitize=True)
    for interface in ("w1", "h1", "w2", "h2"):
        wire.run(f"ip link set dev {interface} mtu 20000")
    values = ["20000000", "500000", "400000", "0.1", "0.1", "2000000", "7", "20", str(tmp_path)]
    link = Link(*values, command=[str(sanitized)])
    ended.append(link.process)
    rng = random.Random(4)
    with wire.end("h1") as one, wire.end("h2") as two:
        for number in range(6000):
            frame = rng.randbytes(rng.choice([14, 15, 60, 190, 191, 1514, 9216, 9217, 15_000]))
            if rng.random() < 0.5:
                frame = (frame[:12] + b"\x81\0" + frame[14:]).ljust(18)
            (one if number % 2 else two).send(frame)
            if number % 20 == 0:
                time.sleep(0.001)
        # This takes a few ms, even on a loaded machine. The link needs 370 ms for these frames.
        for _ in range(100):
            one.send(bytes(9216))
            two.send(bytes(9216))
        directions = link.stop()  # if there are leaks, the exit status is 1
    for counted in directions:
        assert counted["queue_drops"] > 0
        assert counted["link"]["lost_packets"] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["w1", "none"], "none: no such interface; available: lo, "),
        (["w1", "w1"], "w1: expected two different interfaces"),
        (["w1", "w2", "--loss-probability", "1.5"], "'1.5' is not a probability from 0 to 1"),
        (["w1", "w2", "--delay-us", "-1"], "'-1' is not a number of microseconds >= 0"),
        (["w1", "w2", "--jitter-us", "5"], "--jitter-us 5: expected at most the delay, 0 us"),
        (["w1", "w2", "--reorder-probability", "0.1"], "needs --reorder-us"),
        (["w1", "w2", "--queue-packets", "0"], "expected at least 1"),
        (["w1", "w2", "--rate-bps", "1e6"], "'1e6' is not an integer >= 0"),
        (["w1", "w2", "--drop-log", "/nonexistent"], "/nonexistent: No such file or directory"),
    ],
)
def test_bad_options_are_one_clear_line(options: list[str], message: str) -> None:
    done = subprocess.run([*MINIP4_LINK, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
