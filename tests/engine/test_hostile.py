"""A switch with AddressSanitizer gets random, mutated and truncated frames at every port."""

import json
import os
import random
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import wire

MINIP4 = [sys.executable, "-m", "minip4.cli"]
PROGRAM = Path(__file__).parent / "programs" / "hostile.p4"
PORTS = (1, 2, 3)
CPU_PORT = 400
MTU = 20_000
VLAN_TAGS = (b"\x81\x00", b"\x88\xa8")
FLOOD_S = float(os.environ.get("TELEMARK_FLOOD_S", "15"))
BATCH, PAUSE_S = 40, 0.004  # moderate load, because other tests run in parallel
DROPS = ("ingress_drops", "egress_drops", "queue_drops", "no_port_drops", "memory_drops")


class Frames:
    """Generator of frames for hostile.p4. Most of them are mutated."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def next(self) -> bytes:
        valid = self.random.choice([self.garbage, self.order, self.labels, self.options, self.ip])()
        frame = self.mutated(valid)[:MTU]
        # The kernel delivers no tagged frame that ends within the tag.
        return frame.ljust(20 if frame[12:14] in VLAN_TAGS else 14, b"\0")

    def ethernet(self, ether_type: int) -> bytes:
        return b"\2\0\0\0\0\2" + b"\2\0\0\0\0\1" + struct.pack("!H", ether_type)

    def garbage(self) -> bytes:
        length = self.random.choice([14, 60, 190, 191, 1514, 9216, 9217, 15_000])
        return self.random.randbytes(length)

    def order_header(self) -> bytes:
        port = self.random.choice([0, 1, 2, 3, CPU_PORT, 510, 511])
        index = self.random.choice([0, 15, 16, 63, 64, 2**31, 2**32 - 1])
        size = self.random.choice([0, 1, 14, 60, 0xFFFF])
        return struct.pack("!HHIHH", port << 7 | self.random.getrandbits(7),
                           self.random.getrandbits(16), index, size, 0)  # fmt: skip

    def order(self) -> bytes:
        payload = self.random.randbytes(self.random.choice([0, 1, 46, 1400, 9190]))
        return self.ethernet(0x88B5) + self.order_header() + payload

    def labels(self) -> bytes:
        count = self.random.randrange(1, 7)  # the stack has room for 4
        stack = b"".join(
            struct.pack("!HH", self.random.getrandbits(15) << 1 | (i == count - 1), i)
            for i in range(count)
        )
        return self.ethernet(0x8847) + stack + b"\0" + self.order_header()

    def options(self) -> bytes:
        words = self.random.choice([0, 1, 10, 11, 199, 200, 255])  # the header has room for 10
        content = self.random.randbytes(4 * words)
        return self.ethernet(0x9999) + bytes([words, 1]) + content + self.order_header()

    def ip(self) -> bytes:
        tag = struct.pack("!HH", 0x8100, self.random.getrandbits(16))
        return self.ethernet(0x0800)[:12] + tag + self.ethernet(0x0800)[12:] + bytes(60)

    def mutated(self, frame: bytes) -> bytes:
        kind = self.random.randrange(4)
        if kind == 0:  # unchanged
            return frame
        if kind == 1:  # truncated
            return frame[: self.random.randrange(14, len(frame) + 1)]
        changed = bytearray(frame)
        for _ in range(self.random.randrange(1, 9)):
            changed[self.random.randrange(min(len(changed), 80))] ^= 1 << self.random.randrange(8)
        return bytes(changed) if kind == 2 else bytes(changed) + changed[: len(changed) // 2]


@pytest.fixture
def switch(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A switch with sanitizers, in its own namespace.

    Its ports 1, 2 and 3 lead to h1, h2 and h3.
    """
    program = tmp_path / "hostile.json"
    subprocess.run([*MINIP4, "compile", str(PROGRAM), "-o", str(program)], check=True)
    with wire.namespace(), (tmp_path / "errors").open("w") as errors:
        wire.run("ip link set dev lo up")
        for port in PORTS:
            wire.veth(f"s{port}", f"h{port}", MTU)
        interfaces = [word for port in PORTS for word in ("-i", f"{port}@s{port}")]
        process = subprocess.Popen(
            [*MINIP4, "switch", str(program), *interfaces, "--cpu-port", str(CPU_PORT),
             "--sanitize",
             "--link", "2:loss_probability=0.1,delay_us=500,rate_bps=1e8,queue_packets=20",
             "--pcap", str(tmp_path), "--drop-log", str(tmp_path),
             "--counters", str(tmp_path / "counters.json")],
            stdout=subprocess.PIPE, stderr=errors, text=True,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            assert ready.startswith("minip4 switch: ready"), (tmp_path / "errors").read_text()
            yield process
        finally:
            process.kill()
            process.communicate()


def test_hostile_frames_neither_crash_nor_hang_a_switch(
    switch: subprocess.Popen[str], tmp_path: Path
) -> None:
    frames = Frames(seed=1)
    ends = [wire.end(f"h{port}") for port in PORTS]
    deadline = time.monotonic() + FLOOD_S
    sent = 0
    while time.monotonic() < deadline and switch.poll() is None:
        for number in range(BATCH):
            ends[number % len(ends)].send(frames.next())
        sent += BATCH
        time.sleep(PAUSE_S)
    for end in ends:
        end.close()

    assert switch.poll() is None, (tmp_path / "errors").read_text()
    with wire.end("h1") as one, wire.end("h2") as two:
        good = frames.ethernet(0x88B6) + b"a good packet".ljust(46)
        for _ in range(200):  # the link loses 10 % of them
            one.send(good)
        while two.recv(65536) != good:
            pass
    switch.send_signal(signal.SIGTERM)
    switch.communicate(timeout=wire.TIMEOUT_S)
    errors = (tmp_path / "errors").read_text()
    assert switch.returncode == 0, errors
    assert "Sanitizer" not in errors
    assert "runtime error" not in errors
    check_books(json.loads((tmp_path / "counters.json").read_text()), sent)


def check_books(counters: dict[str, Any], sent: int) -> None:
    """Check that every frame is accounted for, and that every kind of drop occurred."""
    engine = counters["engine"]
    sockets = [port["socket"] for port in counters["ports"].values()]
    taken = sum(socket["received_packets"] for socket in sockets)
    too_long = sum(socket["receive_too_long"] for socket in sockets)
    missed = sum(socket["receive_kernel_drops"] for socket in sockets)
    assert taken + too_long + missed == sent + 200
    assert engine["received"] == taken
    dropped = sum(engine[reason] for reason in DROPS)
    assert engine["received"] + engine["replicas"] == (
        engine["transmitted"] + dropped + engine["in_queues"]
    )
    link = counters["ports"]["2"]["link"]
    assert link["sent_packets"] == link["delivered_packets"] + link["lost_packets"]
    assert too_long > 0
    assert engine["transmitted"] > sent / 10
    assert link["lost_packets"] > 0
