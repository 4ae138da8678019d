"""Process of an application on a host in real time.

    Command: python -m telemark.backends.real.application_host

The module telemark.backends.real.applications starts this process. The docstring of that module
describes the protocol.
"""

import ctypes
import errno
import importlib.util
import os
import pickle
import select
import socket
import struct
import subprocess
import sys
import time
import traceback
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from minip4 import simulator
from minip4.native import build
from minip4.simulator.shared import ARRIVAL
from telemark.apps.application import Application, Host, Timers, describe_error, pickled
from telemark.backends.real.applications import (
    CLOSE,
    CLOSED,
    FAILED,
    READY,
    SCRIPT,
    ExitReport,
    Task,
)
from telemark.errors import TestbedError
from telemark.traffic.received import Taken

RECEIVE_BYTES = 64 << 20  # size of the receive buffer of a socket
# Constants from asm-generic/socket.h and from linux/socket.h, if_packet.h, if_ether.h, in.h,
# icmp.h, sock_diag.h.
SOL_PACKET, PACKET_AUXDATA, PACKET_IGNORE_OUTGOING = 263, 8, 23
ETH_P_ALL = 3
SO_TIMESTAMPNS, SO_RCVBUFFORCE, SO_MEMINFO = 35, 33, 55
SK_MEMINFO_DROPS, SK_MEMINFO_VARS = 8, 9
SOL_RAW, ICMP_FILTER, ECHO_REQUEST = 255, 1, 8
IP_MTU_DISCOVER, IP_PMTUDISC_DO, IP_RECVTTL = 10, 2, 12


class ProcessSocket:
    """See telemark.apps.application.Socket."""

    def __init__(self, kernel: socket.socket) -> None:
        self._kernel = kernel
        kernel.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BYTES)
        kernel.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._library = _library()
        self.max_batch: int = self._library.arrivals_max_batch()
        self._records = np.empty(self.max_batch, ARRIVAL)
        self._bytes = np.empty(self._library.arrivals_bytes(), np.uint8)

    def fileno(self) -> int:
        """Return the file descriptor, for select()."""
        return self._kernel.fileno()

    def take(self) -> Taken:
        """Return up to max_batch waiting packets."""
        count = self._library.arrivals_take(
            self.fileno(), self._records.ctypes.data, self._bytes.ctypes.data
        )
        if count < 0:
            raise OSError(-count, os.strerror(-count))
        records = self._records[:count].copy()
        return records, self._bytes[: int(records["length"].sum())].tobytes()

    def kernel_drops(self) -> int:
        """Return the number of packets dropped because the buffer was full."""
        size = SK_MEMINFO_VARS * 4
        memory = self._kernel.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, size)
        return int(struct.unpack(f"{SK_MEMINFO_VARS}I", memory)[SK_MEMINFO_DROPS])


class ProcessDatagramSocket(ProcessSocket):
    """See telemark.apps.application.DatagramSocket."""

    def send(self, payload: bytes, address: str, port: int, tos: int, ttl: int) -> None:
        """Send a datagram; the kernel adds the headers."""
        marked = [
            (socket.IPPROTO_IP, option, struct.pack("i", value))
            for option, value in ((socket.IP_TOS, tos), (socket.IP_TTL, ttl))
        ]
        self._kernel.sendmsg([payload], marked, 0, (address, port))


class ProcessIcmpSocket(ProcessSocket):
    """Raw socket, see raw(7) and telemark.apps.application.IcmpSocket."""

    def take(self) -> Taken:
        """Return up to max_batch waiting messages, without their IPv4 headers."""
        records, data = super().take()
        messages, start = [], 0
        for record in records:
            end = start + int(record["length"])
            messages.append(data[start + 4 * (data[start] & 15) : end])
            record["length"] = len(messages[-1])
            start = end
        return records, b"".join(messages)

    def send(self, message: bytes, address: str, ttl: int) -> None:
        """Send an ICMP message; the kernel adds the IPv4 header."""
        marked = [(socket.IPPROTO_IP, socket.IP_TTL, struct.pack("i", ttl))]
        self._kernel.sendmsg([message], marked, 0, (address, 0))


class ProcessFrameSocket(ProcessSocket):
    """Packet socket, see packet(7) and telemark.apps.application.FrameSocket."""

    def send(self, frame: bytes) -> None:
        """Send a frame over the interface to which the socket is bound."""
        self._kernel.send(frame)


class ProcessHost(Host):
    """See telemark.apps.application.Host."""

    def __init__(self, task: Task) -> None:
        super().__init__(task.place, Timers())
        self._interface = task.interface

    def now_ns(self) -> int:
        """Return CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    def _open_udp(self, port: int) -> ProcessDatagramSocket:
        kernel = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # sends no IPv4 fragments
        kernel.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
        kernel.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        kernel.setsockopt(socket.IPPROTO_IP, IP_RECVTTL, 1)
        opened = ProcessDatagramSocket(kernel)
        try:
            kernel.bind((self.address, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise TestbedError(f"UDP port {port}: already in use; choose another port") from None
        return opened

    def _open_icmp(self) -> ProcessIcmpSocket:
        kernel = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        kernel.setsockopt(SOL_RAW, ICMP_FILTER, struct.pack("I", 1 << ECHO_REQUEST))
        kernel.setsockopt(socket.IPPROTO_IP, IP_RECVTTL, 1)
        return ProcessIcmpSocket(kernel)

    def _open_frames(self, *, takes: bool) -> ProcessFrameSocket:
        kernel = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        kernel.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        kernel.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        opened = ProcessFrameSocket(kernel)
        if takes:  # remove the IP address, so that the kernel sends no ARP, ICMP and RST packets
            subprocess.run(["ip", "address", "flush", "dev", self._interface], check=True)
        kernel.bind((self._interface, ETH_P_ALL if takes else 0))
        return opened

    def kernel_drops(self) -> int:
        """Return the number of packets dropped by all sockets."""
        return sum(receiver.socket.kernel_drops() for receiver in self.receivers)

    def serve(self, commands: BinaryIO, answers: BinaryIO) -> None:
        """Deliver packets and run callbacks until the end of the command input."""
        while True:
            waiting = {
                receiver.socket.fileno(): receiver
                for receiver in self.receivers
                if not receiver.is_held
            }
            timeout_s = None
            if (next_ns := self._timers.next_ns) is not None:
                timeout_s = max(next_ns - self.now_ns(), 0) / 1e9
            ready, _, _ = select.select([commands, *waiting], [], [], timeout_s)
            for source in ready:
                if source is not commands:
                    waiting[source].arrived()
            self._timers.call_due(self.now_ns())
            if commands in ready:
                if commands.readline() != CLOSE:
                    break
                self._timers.clear()
                self.close()
                answers.write(CLOSED)
                answers.flush()
        self.close()


@cache
def _library() -> ctypes.CDLL:
    source = Path(__file__).parent / "c" / "arrivals.c"
    with build.shared_object([source], include=[simulator.C_FOLDER]) as built:
        library = ctypes.CDLL(str(built))
    library.arrivals_take.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    return library


class _Unpickler(pickle.Unpickler):
    """Unpickler for classes of the experiment's script, which the parent calls __main__."""

    script: str | None = None

    def find_class(self, module: str, name: str) -> Any:
        if module != "__main__":
            return super().find_class(module, name)
        if SCRIPT not in sys.modules:
            _load_script(self.script)
        return super().find_class(SCRIPT, name)


def _load_script(path: str | None) -> None:
    if path is None:
        raise TestbedError("its class is not defined in a file; define it in a module or script")
    spec = importlib.util.spec_from_file_location(SCRIPT, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[SCRIPT] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def _run(commands: BinaryIO, answers: BinaryIO) -> None:
    task: Task = pickle.load(commands)
    sys.path[:] = task.paths
    unpickler = _Unpickler(commands)
    unpickler.script = task.script
    application: Application = unpickler.load()
    host = ProcessHost(task)
    application.start(host)
    answers.write(READY)
    answers.flush()
    host.serve(commands, answers)
    exit_report = ExitReport(application.result(), host.sent, host.received, host.kernel_drops())
    answers.write(pickled(exit_report, "its result"))
    answers.flush()


def main() -> None:
    """Run an application.

    Logs an error as a traceback, followed by a line that summarizes it.
    """
    # Reads of an unbuffered pipe would return at most 64 KB. The buffer never holds a command when
    # serve() waits for the next one, because the other process waits for each answer.
    commands, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # so that output of the application goes to the log
    try:
        _run(commands, answers)
    except Exception as error:
        traceback.print_exc()
        print(describe_error(error), file=sys.stderr)
        sys.exit(FAILED)


if __name__ == "__main__":
    main()
