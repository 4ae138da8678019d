"""Scenes with a real switch between veths; test_switch.py gives each a network namespace.

python live.py SCENE FOLDER: exits 0 when all that the scene asserts holds.
"""

import asyncio
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import finsy as fy
import grpc
from finsy.proto import p4r_grpc
from harness import arbitration, compiled

from minip4.engine import build
from minip4.runtime.control import call

MINIP4 = (sys.executable, "-m", "minip4.cli")
FRAME = bytes.fromhex("020000000002 020000000001 1234") + bytes(46)
FORWARDED = b"\x02\0\0\0\0\x03" + FRAME[6:]
CPU_PORT = 255
SO_RCVBUFFORCE = 33
DEADLINE_S = 10
STRESS_S = 2


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def make_links() -> None:
    """v1-p1 and v2-p2; the switch gets v1 and v2."""
    ip("link", "set", "lo", "up")
    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
    for number in "12":
        make_link(number)


def make_link(number: str) -> None:
    ip("link", "add", f"v{number}", "type", "veth", "peer", "name", f"p{number}")
    ip("link", "set", f"v{number}", "up")
    ip("link", "set", f"p{number}", "up")


class Host:
    """The far end of a veth."""

    def __init__(self, interface: str) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        self._socket.bind((interface, 0))
        self._socket.settimeout(DEADLINE_S)

    def wait_at_most(self, timeout_s: float) -> None:
        """For a frame; then receive() raises TimeoutError."""
        self._socket.settimeout(timeout_s)

    def send(self, frame: bytes) -> None:
        self._socket.send(frame)

    def receive(self) -> bytes:
        while True:
            frame, address = self._socket.recvfrom(9216)
            if address[2] != socket.PACKET_OUTGOING:
                return frame


class Switch:
    """A `minip4 switch` process."""

    def __init__(
        self, folder: Path, *options: str, p4info: bool = False, stderr: int | None = None
    ) -> None:
        program = compiled()
        self.json_path = folder / "control.json"
        self.p4info_path = folder / "control.p4info.txtpb"
        self.counters_path = folder / "counters.json"
        self.json_path.write_text(json.dumps(program.bmv2_json))
        self.p4info_path.write_text(str(program.p4info))
        given = ["--p4info", str(self.p4info_path)] if p4info else []
        start = time.monotonic()
        arguments = [
            "switch", str(self.json_path), "-i", "1@v1", "-i", "2@v2",
            "--cpu-port", str(CPU_PORT), "--grpc-server-addr", "127.0.0.1:0",
            "--counters", str(self.counters_path), *given, *options,
        ]  # fmt: skip
        self.process = subprocess.Popen(
            [*MINIP4, *arguments], stdout=subprocess.PIPE, stderr=stderr, text=True
        )
        assert self.process.stdout is not None
        ready = self.process.stdout.readline()
        self.start_s = time.monotonic() - start
        assert ready.startswith("minip4 switch: ready (device 1, "), ready
        self.address = ready.split(", ")[1]

    def stop(self) -> dict[str, Any]:
        """End the switch; return its final counters."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(DEADLINE_S) == 0
        return json.loads(self.counters_path.read_text())  # type: ignore[no-any-return]

    def rss_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(s.split()[1]) for s in status.splitlines() if s.startswith("VmRSS")) / 1024

    def controller(self, **fields: Any) -> fy.Switch:
        options = fy.SwitchOptions(p4info=self.p4info_path, p4blob=self.json_path, **fields)
        return fy.Switch("s1", self.address, options)


async def finsy(folder: Path) -> None:
    """finsy pushes the pipeline, fills tables, sends and gets packets, reads state; then dies."""
    switch = Switch(folder)
    left, right = Host("p1"), Host("p2")
    async with switch.controller() as sw:
        await sw.write(
            [
                +fy.P4TableEntry(
                    "switching",
                    match=fy.Match(destination="02:00:00:00:00:02"),
                    action=fy.Action("to_cpu", reason=5),
                ),
                +fy.P4TableEntry(
                    "switching",
                    match=fy.Match(destination="02:00:00:00:00:03"),
                    action=fy.Action("forward", port=2),
                ),
            ]
        )
        packets = sw.read_packets()
        left.send(FRAME)
        packet = await asyncio.wait_for(anext(packets), DEADLINE_S)
        assert packet.payload == FRAME
        assert (packet["ingress_port"], packet["reason"]) == (1, 5)
        await sw.write(fy.P4PacketOut(FRAME, egress_port=2, padding=0))
        assert right.receive() == FRAME
        entries = [e async for e in sw.read(fy.P4TableEntry("switching"))]
        assert len(entries) == 2
        (count,) = [c async for c in sw.read(fy.P4CounterEntry("port_counter", index=1))]
        assert (count.packet_count, count.byte_count) == (1, len(FRAME))
        (seen, *_) = [r.data async for r in sw.read(fy.P4RegisterEntry("last_seen"))]
        assert 0 <= time.monotonic_ns() // 1000 - seen < 60_000_000
        (wide,) = [r.data async for r in sw.read(fy.P4RegisterEntry("wide", index=0))]
        assert wide == int.from_bytes(FRAME[6:12] + FRAME[:6] + bytes((0, 0, 0, 1)), "big")
    left.send(FORWARDED)  # nobody controls the switch now
    assert right.receive() == FORWARDED
    counters = switch.stop()
    cpu = counters["cpu"]
    assert (cpu["packet_in"], cpu["packet_in_dropped"], cpu["packet_out"]) == (1, 0, 1)
    one = counters["ports"]["1"]
    assert one["interface"] == "v1"
    assert (one["received_packets"], one["kernel"]["receive_drops"]) == (2, 0)
    engine = counters["engine"]
    drops = sum(value for name, value in engine.items() if name.endswith("drops"))
    assert engine["received"] + engine["replicas"] == engine["transmitted"] + drops


class Flow:
    """Numbered frames from one host to the other, until it is stopped."""

    def __init__(self, left: Host, right: Host) -> None:
        self.sent = 0
        self.received = 0
        self._hosts = left, right
        self._stopping = threading.Event()
        self._sender = threading.Thread(target=self._send, daemon=True)
        self._receiver = threading.Thread(target=self._receive, daemon=True)
        self._sender.start()
        self._receiver.start()

    async def more(self, frames: int) -> None:
        """Wait until so many more were sent."""
        end = self.sent + frames
        while self.sent < end:
            await asyncio.sleep(0.01)

    def stop(self) -> None:
        """Return when each frame that was sent came through, in order; else fail."""
        self._stopping.set()
        self._sender.join()
        self._hosts[0].send(FORWARDED)  # the only one without a number: the last
        self._receiver.join()
        assert self.received == self.sent

    def _send(self) -> None:
        while not self._stopping.wait(0.0002):
            self._hosts[0].send(FORWARDED + self.sent.to_bytes(4, "big"))
            self.sent += 1

    def _receive(self) -> None:
        while self._hosts[1].receive() == FORWARDED + self.received.to_bytes(4, "big"):
            self.received += 1


async def killed(folder: Path) -> None:
    """A controller is killed: the switch forwards each frame all the time, and obeys the next."""
    switch = Switch(folder, p4info=True)
    left, right = Host("p1"), Host("p2")
    controller = subprocess.Popen(
        [sys.executable, __file__, "forward_and_hang", str(folder), switch.address],
        stdout=subprocess.PIPE,
    )
    assert controller.stdout is not None
    assert controller.stdout.readline() == b"written\n"
    flow = Flow(left, right)
    async with grpc.aio.insecure_channel(switch.address) as channel:
        backup = p4r_grpc.P4RuntimeStub(channel).StreamChannel()
        await backup.write(arbitration(0))
        assert (await backup.read()).arbitration.election_id.low  # there is a primary
        await flow.more(200)
        controller.kill()
        controller.wait()
        status = (await asyncio.wait_for(backup.read(), DEADLINE_S)).arbitration.status
        assert status.code == grpc.StatusCode.NOT_FOUND.value[0]  # the switch knows that it is gone
        await flow.more(200)
    flow.stop()
    async with switch.controller() as sw:
        await sw.delete_all()
        left.send(FORWARDED)  # missed by all tables, so it is dropped or leaves by port 0
        await sw.write(fy.P4PacketOut(FRAME, egress_port=2, padding=0))
        assert right.receive() == FRAME
    switch.stop()


async def forward_and_hang(folder: Path, address: str) -> None:
    """The controller of killed()."""
    options = fy.SwitchOptions(p4info=folder / "control.p4info.txtpb")
    async with fy.Switch("s1", address, options) as sw:
        match = fy.Match(destination="02:00:00:00:00:03")
        await sw.write([+fy.P4TableEntry("switching", match=match,
                                         action=fy.Action("forward", port=2))])  # fmt: skip
        print("written", flush=True)
        await asyncio.sleep(DEADLINE_S)


async def start(folder: Path) -> None:
    """Three switches start quickly, and stay small."""
    switch = Switch(folder, p4info=True)
    print(f"ready after {switch.start_s:.2f} s, {switch.rss_mb():.0f} MB")
    assert switch.rss_mb() < 80
    async with switch.controller() as sw:
        entries = [e async for e in sw.read(fy.P4TableEntry("fixed"))]
        assert len(entries) == 1
    command = [*MINIP4, "tables", "--grpc-server-addr", switch.address, "fixed"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "hdr.ethernet.type=0x88cc -> MyIngress.drop() (const)" in shown
    switch.stop()


async def control(folder: Path) -> None:
    """Links and queues are changed while frames flow; the trace tells of each."""
    sock, trace = folder / "s.sock", folder / "trace.txt"
    switch = Switch(folder, "--control", str(sock), "--trace", str(trace),
                    "--link", "2:rate_bps=1", "--queue", "2:depth=2", p4info=True)  # fmt: skip
    left, right = Host("p1"), Host("p2")

    def minip4(*words: str) -> str:
        command = [*MINIP4, "control", str(sock), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    async with switch.controller() as sw:
        match = fy.Match(destination="02:00:00:00:00:02")
        forward = fy.Action("forward", port=2)
        await sw.write([+fy.P4TableEntry("switching", match=match, action=forward)])
        minip4("set-link", "2:rate_bps=0,loss=1")
        left.send(FRAME)
        while not call(sock, "counters")["ports"]["2"]["drops"]["link"]:
            await asyncio.sleep(0.01)
        minip4("set-link", "2:loss=0")
        minip4("set-queue", "2:rate_bps=8")  # a frame a minute
        for number in range(5):  # the first leaves, two wait
            left.send(FRAME[:-1] + bytes([number]))
        while call(sock, "counters")["ports"]["2"]["drops"]["queue"] < 2:
            await asyncio.sleep(0.01)
        assert "  queue 0: 2 packets, 120 bytes wait; 2 dropped\n" in minip4("counters")
        minip4("set-queue", "2:rate_bps=0")  # what waits for minutes leaves now
        assert [right.receive()[-1] for _ in range(3)] == [0, 1, 2]
    counters = switch.stop()
    assert not sock.exists()
    drops = {k: v for k, v in counters["ports"]["2"]["drops"].items() if v}
    assert drops == {"link": 1, "queue": 2}
    blocks = trace.read_text().strip().split("\n\n")
    assert len(blocks) == 6
    assert "and lost by the link" in blocks[0]
    assert sum("dropped, queue: the queue was full" in block for block in blocks) == 2
    assert all("table MyIngress.switching" in block for block in blocks)


async def full_disk(folder: Path) -> None:
    """No room for captures, trace and counters: a line for each, and all frames pass."""
    small = folder / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "none", str(small)], check=True)
    switch = Switch(folder, "--pcap", str(small), "--trace", str(small / "trace"), "--counters",
                    str(small / "counters"), p4info=True, stderr=subprocess.PIPE)  # fmt: skip
    left, right = Host("p1"), Host("p2")
    async with switch.controller() as sw:
        match = fy.Match(destination="02:00:00:00:00:03")
        forward = fy.Action("forward", port=2)
        await sw.write([+fy.P4TableEntry("switching", match=match, action=forward)])
    for _ in range(1000):
        left.send(FORWARDED)
        assert right.receive() == FORWARDED
    switch.process.send_signal(signal.SIGTERM)
    _, told = switch.process.communicate(timeout=DEADLINE_S)
    assert switch.process.returncode == 1
    lines = told.splitlines()
    full = "No space left on device"
    assert len(lines) == 3, told
    assert re.fullmatch(
        f"minip4 switch: error: cannot write {small}/v[12]_.*pcap: {full}", lines[0]
    )
    assert lines[1:] == [
        f"minip4 switch: error: --trace {small}/trace: {full}",
        f"minip4 switch: error: --counters {small}/counters: {full}",
    ]
    subprocess.run(["umount", str(small)], check=True)


async def many_ports(folder: Path) -> None:
    """A switch of many ports, with captures, forwards from and to each of them."""
    count = int(os.environ.get("PORTS", "64"))
    numbers = [number for number in range(1, count + 1) if number != CPU_PORT]
    for number in numbers[2:]:
        make_link(str(number))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (max(count, 64), hard)
    )  # too few, unless it asks for more
    more = [word for n in numbers[2:] for word in ("-i", f"{n}@v{n}")]
    captures = folder / "captures"
    captures.mkdir()
    switch = Switch(folder, "--pcap", str(captures), *more, p4info=True)
    print(f"{len(numbers)} ports: ready after {switch.start_s:.1f} s, {switch.rss_mb():.0f} MB")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    hosts = {number: Host(f"p{number}") for number in numbers}
    async with switch.controller() as sw:
        await sw.write([+to_port(n) for n in hosts])
    for number, before in zip(numbers, (numbers[-1], *numbers), strict=False):
        frame = b"\2\0\0\1" + number.to_bytes(2, "big") + FRAME[6:]
        hosts[before].send(frame)
        assert hosts[number].receive() == frame
    counters = switch.stop()
    assert all(p["received_packets"] == p["transmitted_packets"] == 1
               for p in counters["ports"].values())  # fmt: skip
    assert len(list(captures.iterdir())) == 2 * len(numbers)


def to_port(number: int) -> fy.P4TableEntry:
    match = fy.Match(destination=0x0200_0001_0000 + number)
    return fy.P4TableEntry("switching", match=match, action=fy.Action("forward", port=number))


async def interfaces(folder: Path) -> None:
    """Interfaces go down, are deleted and made anew under the switch: frames flow again."""
    switch = Switch(folder, p4info=True, stderr=subprocess.PIPE)
    told: list[str] = []
    listener = threading.Thread(target=told.extend, args=(switch.process.stderr,), daemon=True)
    listener.start()

    def flows() -> None:
        """A frame to v2 comes out of p2; tried until the switch has seen what happened."""
        left, right = Host("p1"), Host("p2")
        right.wait_at_most(0.05)
        deadline = time.monotonic() + DEADLINE_S
        while True:
            left.send(FORWARDED)
            try:
                assert right.receive() == FORWARDED
                return
            except TimeoutError:
                assert time.monotonic() < deadline

    async with switch.controller() as sw:
        match = fy.Match(destination="02:00:00:00:00:03")
        forward = fy.Action("forward", port=2)
        await sw.write([+fy.P4TableEntry("switching", match=match, action=forward)])
        flows()
        for interface in ("v2", "p2"):
            ip("link", "set", interface, "down")
            Host("p1").send(FORWARDED)
            ip("link", "set", interface, "up")
            flows()
        for number in "21":
            for _ in range(3):
                ip("link", "del", f"v{number}")
                make_link(number)
                flows()
        ip("link", "del", "v2")
        Host("p1").send(FORWARDED)
        make_link("2")
        flows()
    counters = switch.stop()
    listener.join()
    assert counters["ports"]["1"]["received_packets"] >= 9, "they go on over new interfaces"
    assert sum("v2: attached to the new interface of this name" in line for line in told) == 4
    assert sum("v1: attached to the new interface of this name" in line for line in told) == 3
    assert all("went down" in line or "attached" in line for line in told), told


async def stress(folder: Path) -> None:
    """Table writes while frames come as fast as they go: no frame misses or sees half an entry."""
    blast = str(build.program([Path(__file__).with_name("blast.c")]))
    switch = Switch(folder, p4info=True)
    async with switch.controller() as sw:
        await sw.write([+stamped(0)])
        checker = await asyncio.create_subprocess_exec(blast, "p2", stdout=subprocess.PIPE)
        assert checker.stdout is not None
        await checker.stdout.readline()
        sender = await asyncio.create_subprocess_exec(
            blast, "p1", str(STRESS_S), stdout=subprocess.PIPE
        )
        writes, start = 0, time.monotonic()
        while sender.returncode is None:
            await sw.write([+other(writes + i) for i in range(50)])
            await sw.write([~stamped(writes + i) for i in range(400)])
            await sw.write([-other(writes + i) for i in range(50)])
            writes += 500
        elapsed_s = time.monotonic() - start
    sent = json.loads((await sender.communicate())[0])["sent"]
    seen = json.loads((await checker.communicate())[0])
    counters = switch.stop()
    print(f"{writes / elapsed_s:.0f} writes/s beside {sent / STRESS_S:.0f} frames/s offered, "
          f"{seen['received'] / STRESS_S:.0f} frames/s forwarded")  # fmt: skip
    assert seen["torn"] == 0
    engine, one = counters["engine"], counters["ports"]["1"]
    assert engine["transmitted"] + engine["queue_drops"] == engine["received"]
    assert counters["ports"]["2"]["transmitted_packets"] == engine["transmitted"]  # none missed
    assert one["received_packets"] + one["kernel"]["receive_drops"] == sent
    assert seen["received"] > STRESS_S * 10_000


def stamped(value: int) -> fy.P4TableEntry:
    """Frames of the blast get one number, made of `value`, as both addresses."""
    twice = value * 0x0101_0101
    return fy.P4TableEntry(
        "switching",
        match=fy.Match(destination="02:00:00:00:00:02"),
        action=fy.Action("stamp", port=2, first=twice, between=value, second=twice),
    )


def other(value: int) -> fy.P4TableEntry:
    return fy.P4TableEntry(
        "switching",
        match=fy.Match(destination=0x0600_0000_0000 + value),
        action=fy.Action("drop"),
    )


SCENES = {
    scene.__name__: scene
    for scene in (control, finsy, full_disk, interfaces, killed, many_ports, start, stress)
}

if __name__ == "__main__":
    if sys.argv[1] == "forward_and_hang":
        asyncio.run(forward_and_hang(Path(sys.argv[2]), sys.argv[3]))
    else:
        make_links()
        asyncio.run(SCENES[sys.argv[1]](Path(sys.argv[2])))
