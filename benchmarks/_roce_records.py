"""Collectors of records in Python, for roce_collector.py: one over UDP, and the RoCE responder.

    _roce_records.py udp ADDRESS PORT | roce ADDRESS INTERFACE

Both say "ready"; when standard input ends they print how many records came, how many were dropped,
and the CPU time in ns.
"""

import select
import socket
import sys
import time
from typing import Any

from collectors.roce.application import FIRST_RKEY
from collectors.roce.card import Card
from collectors.roce.endpoint import Peer, Transport
from collectors.roce.region import TCP, Region
from collectors.roce.softnic import SoftNic
from testbed.real.application_host import RECEIVE_BYTES, SO_RCVBUFFORCE

COUNT = 4096  # records of the ring
KEY_BYTES = 36
WRITER = Peer("10.66.0.1", qpn=0x100, psn=0)
TRANSPORT = Transport.UC  # the same frames again and again: RC would take them once


def _ready() -> int:
    """Say so; the CPU time until here."""
    print("ready", flush=True)
    return time.process_time_ns()


def udp(address: str, port: str) -> tuple[int, int, int]:
    """Receive, keep and index, one datagram at a time."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BYTES)
    listening.bind((address, int(port)))
    listening.setblocking(False)
    ring, index = bytearray(COUNT * TCP.itemsize), {}
    received = 0
    began_ns = _ready()
    while True:
        ended = sys.stdin in select.select([listening, sys.stdin], [], [])[0]
        while True:
            try:
                record = listening.recv(TCP.itemsize)
            except BlockingIOError:
                break
            place = received % COUNT
            ring[place * TCP.itemsize : (place + 1) * TCP.itemsize] = record
            index[record[:KEY_BYTES]] = place
            received += 1
        if ended:
            return received, 0, time.process_time_ns() - began_ns


def roce(address: str, interface: str) -> tuple[int, int, int]:
    """Let the responder write; in the end all records must be there that came."""
    nic = SoftNic(address)
    region = Region(TCP, COUNT)
    nic.connect(nic.register(region, rkey=FIRST_RKEY), WRITER, transport=TRANSPORT)
    card = Card(nic, interface)
    began_ns = _ready()
    sys.stdin.read()
    used_ns, drops = time.process_time_ns() - began_ns, card.drops()
    card.close()
    counts = nic.counts()
    if set(counts.refused) - {"FOREIGN"}:
        raise AssertionError(f"{counts.refused}: {nic.refusals()[-1]}")
    received = counts.accepted.total()
    written = region.records["sequence"] != 0
    if received > 4 * COUNT and not drops and not written.all():
        raise AssertionError(f"{written.sum()} of {COUNT} records are there")
    return received, drops, used_ns


def main() -> None:
    kind, *arguments = sys.argv[1:]
    collect: Any = {"udp": udp, "roce": roce}[kind]
    print(*collect(*arguments))


if __name__ == "__main__":
    main()
