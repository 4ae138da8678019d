"""Receiver processes in Python: a UDP collector and the RoCE responder.

    python -m experiments.shared.roce.receivers udp | roce INTERFACE MEMORY

MEMORY is a numpy file with the expected content of the region after all writes. Both receivers
print "ready" and wait for a line on standard input. Then they print the number of received records,
of kernel drops, and of wrong records in memory, and exit.
"""

import select
import socket
import struct
import sys
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collectors.roce.application import FIRST_RKEY
from collectors.roce.raw_socket_nic import RawSocketNic
from collectors.roce.region import Region
from collectors.roce.softnic import SoftNic
from experiments.shared.roce import offered
from minip4.simulator.shared import ARRIVAL
from telemark.backends.real.application_host import (
    RECEIVE_BYTES,
    SK_MEMINFO_DROPS,
    SO_MEMINFO,
    SO_RCVBUFFORCE,
)
from telemark.traffic.received import Frames

KEY_BYTES = 36
ALONE_TURNS = 200
QUIET_S = 0.02  # the ring is empty if no new frame arrived for this time


def udp() -> tuple[int, int, int]:
    """Receive, store and index reports, one datagram at a time."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BYTES)
    listening.bind((offered.COLLECTOR, offered.PORT))
    listening.setblocking(False)
    size = len(offered.RECORDS_SENT.payloads[0])
    ring, index = bytearray(offered.COUNT * size), {}
    received, is_over = 0, False
    print("ready", flush=True)
    while not is_over:
        is_over = sys.stdin in select.select([listening, sys.stdin], [], [])[0]
        while True:
            try:
                record = listening.recv(size)
            except BlockingIOError:
                break
            place = received % offered.COUNT
            ring[place * size : (place + 1) * size] = record
            index[record[:KEY_BYTES]] = place
            received += 1
    memory = listening.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 4 * (SK_MEMINFO_DROPS + 1))
    return received, struct.unpack_from("I", memory, 4 * SK_MEMINFO_DROPS)[0], 0


def roce(interface: str, memory: str) -> tuple[int, int, int]:
    """Run the responder. Raises AssertionError if the responder rejected a frame.

    The NIC stays open, because the CPU time of its thread is available only while it exists.
    """
    expected = np.load(memory)
    nic, region = _responder(expected)
    card = RawSocketNic(nic, interface)
    print("ready", flush=True)
    sys.stdin.readline()
    received = -1
    while received != (now := nic.counts().accepted.total()):
        received = now
        time.sleep(QUIET_S)
    drops = card.drops()
    refused = set(nic.counts().refused) - {"FOREIGN"}
    assert not refused, f"{refused}: {nic.refusals()[-1]}"
    return received, drops, wrong(region.records, expected, received, drops)


def alone_ns(writes: offered.Writes) -> float:
    """Return the min CPU time (ns) per write in the responder alone, without a socket."""
    frames = writes.frames(offered.MAC)
    arrivals = np.zeros(len(frames), ARRIVAL)
    arrivals["length"] = [len(frame) for frame in frames]
    taken = Frames((arrivals, b"".join(frames)))
    nic, _ = _responder(writes.records)
    turns = []
    for _ in range(ALONE_TURNS):
        began_ns = time.process_time_ns()
        nic.receive(taken)
        turns.append((time.process_time_ns() - began_ns) / len(frames))
    assert nic.counts().accepted.total() == ALONE_TURNS * len(frames), nic.refusals()[-1]
    return min(turns)


def _responder(expected: NDArray[Any]) -> tuple[SoftNic, Region]:
    nic = SoftNic(offered.COLLECTOR)
    region = Region(expected.dtype, len(expected))
    domain = nic.register(region, rkey=FIRST_RKEY)
    nic.connect(domain, offered.WRITER, transport=offered.TRANSPORT)
    return nic, region


def wrong(records: NDArray[Any], expected: NDArray[Any], received: int, drops: int) -> int:
    """Count wrong records, and missing records that were not dropped."""
    nothing = np.zeros((), expected.dtype)
    there, wanted = records != nothing, expected != nothing
    missing = min(received, int(wanted.sum())) - int(there.sum())
    return int((there & (records != expected)).sum()) + max(0, missing - drops)


def main() -> None:
    kind, *arguments = sys.argv[1:]
    print(*(udp() if kind == "udp" else roce(*arguments)), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
