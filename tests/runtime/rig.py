"""A real switch between veth pairs, and hosts at the other ends of these pairs.

All of them are in the network namespace of the caller.
"""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import finsy as fy
from harness import compiled

MINIP4 = (sys.executable, "-m", "minip4.cli")

FRAME = bytes.fromhex("020000000002 020000000001 1234") + bytes(46)
FORWARDED = b"\x02\0\0\0\0\x03" + FRAME[6:]
CPU_PORT = 255
SO_RCVBUFFORCE = 33
DEADLINE_S = 120  # timeout, long enough for a loaded machine


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def make_links() -> None:
    """Create the veth pairs v1-p1 and v2-p2. The switch uses v1 and v2, and hosts use p1 and p2."""
    ip("link", "set", "lo", "up")
    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
    for number in "12":
        make_link(number)


def make_link(number: str) -> None:
    ip("link", "add", f"v{number}", "type", "veth", "peer", "name", f"p{number}")
    ip("link", "set", f"v{number}", "up")
    ip("link", "set", f"p{number}", "up")


class Host:
    """A host at the end of a veth pair that the switch does not use."""

    def __init__(self, interface: str) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        self._socket.bind((interface, 0))
        self._socket.settimeout(DEADLINE_S)

    def wait_at_most(self, timeout_s: float) -> None:
        """Set how long receive() waits for a frame before it raises TimeoutError."""
        self._socket.settimeout(timeout_s)

    def send(self, frame: bytes) -> None:
        self._socket.send(frame)

    def receive(self) -> bytes:
        while True:
            frame, address = self._socket.recvfrom(9216)
            if address[2] != socket.PACKET_OUTGOING:
                return frame


class Switch:
    """A process of `minip4 switch`, or of another command; its paths are in the folder."""

    def __init__(
        self, folder: Path, *options: str, p4info: bool = False, stderr: int | None = None,
        command: tuple[str | Path, ...] = ("switch", Path("control.json")),
    ) -> None:  # fmt: skip
        program = compiled()
        self.json_path = folder / "control.json"
        self.p4info_path = folder / "control.p4info.txtpb"
        self.counters_path = folder / "counters.json"
        self.json_path.write_text(json.dumps(program.bmv2_json))
        self.p4info_path.write_text(str(program.p4info))
        given = ["--p4info", str(self.p4info_path)] if p4info else []
        start = time.monotonic()
        arguments = [
            *(str(folder / part) if isinstance(part, Path) else part for part in command),
            "-i", "1@v1", "-i", "2@v2",
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
        """Stop the switch. Return its final counters."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(DEADLINE_S) == 0
        return json.loads(self.counters_path.read_text())  # type: ignore[no-any-return]

    def rss_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(s.split()[1]) for s in status.splitlines() if s.startswith("VmRSS")) / 1024

    def controller(self, **fields: Any) -> fy.Switch:
        options = fy.SwitchOptions(p4info=self.p4info_path, p4blob=self.json_path, **fields)
        return fy.Switch("s1", self.address, options)


class Flow:
    """Numbered frames that one host sends to the other, until the flow is stopped."""

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
        """Wait until this number of further frames has been sent."""
        end = self.sent + frames
        while self.sent < end:
            await asyncio.sleep(0.01)

    def stop(self) -> None:
        """Stop the flow. Assert that each sent frame arrived, in order."""
        self._stopping.set()
        self._sender.join()
        self._hosts[0].send(FORWARDED)  # a frame without a number marks the end
        self._receiver.join()
        assert self.received == self.sent

    def _send(self) -> None:
        while not self._stopping.wait(0.0002):
            self._hosts[0].send(FORWARDED + self.sent.to_bytes(4, "big"))
            self.sent += 1

    def _receive(self) -> None:
        while self._hosts[1].receive() == FORWARDED + self.received.to_bytes(4, "big"):
            self.received += 1
