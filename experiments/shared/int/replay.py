"""Program that replays Telemetry Reports at a given rate.

    python replay.py ADDRESS PORT

Each line of standard input describes a round: REPORTS HOPS FLOWS DATAGRAMS_PER_S SECONDS QUIET_S.
The program sends datagrams of REPORTS INT-MD reports each, for packets over HOPS hops. After a
pause of QUIET_S, in which the collector can catch up, it sends one more datagram, which reveals
missing sequence numbers before it. Then it prints the number of sent datagrams.
"""

import ctypes
import socket
import struct
import sys
import time

import numpy as np
from numpy.typing import NDArray

INT_PORT = 32767
REPORTER = 7  # node id of the sender of the reports
BATCH = 32  # max datagrams per sendmmsg call
# min number of prepared datagrams, which are sent repeatedly with new sequence numbers
MIN_DATAGRAMS = 1024


class Vector(ctypes.Structure):
    """struct iovec, readv(2)."""

    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class Message(ctypes.Structure):
    """struct mmsghdr, sendmmsg(2), with its struct msghdr, sendmsg(2)."""

    _fields_ = [
        ("name", ctypes.c_void_p), ("name_length", ctypes.c_uint32),
        ("vectors", ctypes.POINTER(Vector)), ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p), ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int), ("none", ctypes.c_int), ("sent", ctypes.c_uint),
    ]  # fmt: skip


def report(flow: int, packet: int, hops: int) -> bytes:
    """Return a report of a packet. Each hop has node id, interfaces, latency and queue (0xF000)."""
    stack = b"".join(
        struct.pack("!IHHII", hops - hop, 1, 2, 20 + hop, flow % 7) for hop in range(hops)
    )
    shim = struct.pack("!BBH", 0x14, 3 + len(stack) // 4, 80)
    header = struct.pack("!BBBBHHHH", 0x20, 0, 4, 10, 0xF000, 0, 0, 0)
    above = shim + header + stack + packet.to_bytes(16, "big")
    udp = struct.pack("!HHHH", 1024 + flow, INT_PORT, 8 + len(above), 0)
    ip = struct.pack(
        "!BBHHHBBHII", 0x45, 0, 28 + len(above), 0, 0, 60, 17, 0, 0x0A000001, 0x0A000002
    )
    inner = ip + udp + above
    return struct.pack("!BBBB", 0x04, len(inner) // 4, 0, 0x20) + inner


def datagrams(reports: int, hops: int, flows: int) -> NDArray[np.uint8]:
    """Return datagram payloads, one per row; consecutive reports belong to different flows."""
    rows = flows * -(-MIN_DATAGRAMS // flows)
    payloads = []
    for first in range(0, rows * reports, reports):
        body = (report(each % flows, each, hops) for each in range(first, first + reports))
        payloads.append(struct.pack("!II", 0, REPORTER) + b"".join(body))
    return np.frombuffer(b"".join(payloads), np.uint8).reshape(rows, -1).copy()


class Sender:
    """Repeated sender of payloads, with consecutive sequence numbers."""

    def __init__(self, connected: socket.socket, payloads: NDArray[np.uint8]) -> None:
        self.sent = 0
        self._fd = connected.fileno()
        self._payloads = payloads
        rows, size = payloads.shape
        self._vectors = (Vector * rows)(
            *((payloads.ctypes.data + row * size, size) for row in range(rows))
        )
        self._messages = (Message * rows)()
        for row, message in enumerate(self._messages):
            message.vectors, message.vector_count = ctypes.pointer(self._vectors[row]), 1
        self._sendmmsg = ctypes.CDLL(None, use_errno=True).sendmmsg

    def send(self, number: int) -> None:
        """Send up to `number` datagrams, but not beyond the last prepared one."""
        rows = len(self._payloads)
        first = self.sent % rows
        number = min(number, BATCH, rows - first)
        words = (2 << 28 | (self.sent + np.arange(number)) & 0x3FFFFF).astype(">u4")
        self._payloads[first : first + number, :4] = words.view(np.uint8).reshape(number, 4)
        done = self._sendmmsg(self._fd, ctypes.byref(self._messages[first]), number, 0)
        if done < 0:
            raise OSError(ctypes.get_errno(), "sendmmsg")
        self.sent += done


def turn(connected: socket.socket, line: str) -> int:
    """Send one round; return the number of sent datagrams (fewer if the sender is too slow)."""
    *shape, rate, seconds, quiet_s = line.split()
    sender = Sender(connected, datagrams(*map(int, shape)))
    begin_s = time.monotonic()
    while (now_s := time.monotonic() - begin_s) < float(seconds):
        due = int(now_s * float(rate)) - sender.sent
        if due > 0:
            sender.send(due)
    time.sleep(float(quiet_s))
    sender.send(1)
    return sender.sent


def main() -> None:
    address, port = sys.argv[1:]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connected:
        connected.connect((address, int(port)))
        print("ready", flush=True)
        for line in sys.stdin:
            print(turn(connected, line), flush=True)


if __name__ == "__main__":
    main()
