"""Functions for tests that send packets over real interfaces.

The functions create namespaces and veth pairs, send and receive frames, and read captures.
"""

import contextlib
import ctypes
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from scapy.utils import RawPcapNgReader, RawPcapReader

TIMEOUT_S = 120.0  # timeout, long enough for a loaded machine
CLONE_NEWNET = 0x40000000
SO_RCVBUFFORCE = 33
SOL_PACKET, PACKET_AUXDATA, PACKET_IGNORE_OUTGOING, ETH_P_ALL = 263, 8, 23, 3
libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def namespace() -> Iterator[None]:
    """Move this thread into a new network namespace. Processes that it starts are there, too."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    if libc.unshare(CLONE_NEWNET):
        pytest.skip("needs root: run sudo ./run_tests.sh")
    try:
        for scope in ("default", "all"):
            Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6").write_text("1")
        yield
    finally:
        libc.setns(before, CLONE_NEWNET)
        os.close(before)


def veth(left: str, right: str, mtu: int = 1500) -> None:
    """Create a veth pair. Both interfaces are up."""
    run(f"ip link add name {left} mtu {mtu} type veth peer name {right} mtu {mtu}")
    run(f"ip link set dev {left} up")
    run(f"ip link set dev {right} up")


def run(command: str) -> None:
    """Run a command. Raise an error if the command fails."""
    subprocess.run(command.split(), check=True, capture_output=True)


def end(interface: str) -> socket.socket:
    """Return a packet socket on an interface. It receives only frames that arrive there."""
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    packets.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 256 * 1024 * 1024)
    packets.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    packets.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    packets.bind((interface, ETH_P_ALL))
    packets.settimeout(TIMEOUT_S)
    return packets


def frame(length: int, number: int = 0) -> bytes:
    """Return an Ethernet frame of this length, with a number and random bytes as its payload.

    The EtherType is one for local experiments.
    """
    start = bytes.fromhex("020000000002 020000000001 88b5") + number.to_bytes(4, "big")
    return (start + os.urandom(length))[:length]


def await_true(condition: Callable[[], bool]) -> None:
    """Wait until a condition is true. Raises AssertionError after TIMEOUT_S."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.005)


def pcap_records(path: Path) -> list[tuple[int, int, bytes]]:
    """Return time in ns, length, and captured bytes of each frame in a capture."""
    reader = RawPcapReader(str(path))
    assert not isinstance(reader, RawPcapNgReader)
    assert reader.nano
    return [(m.sec * 10**9 + m.usec, m.wirelen, data) for data, m in reader]
