"""Load offered to collectors, as frames with memory writes or with datagrams."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from collectors.roce.application import FIRST_RKEY
from collectors.roce.endpoint import Peer, Transport
from collectors.roce.packets import BTH, RETH, UC, Op, icrc
from collectors.roce.region import TCP
from collectors.roce.softnic import BASE

COLLECTOR, PORT, QPN = "10.66.0.2", 5000, 0x100
WRITER = Peer("10.66.0.1", qpn=0x100, psn=0)
# the sender repeats the frames, which a reliable connection (RC) would accept only once
TRANSPORT = Transport.UC
MAC, SENDER_MAC, UNUSED_MAC = "02:00:00:00:00:02", "02:00:00:00:00:01", "02:00:00:00:00:99"
COUNT, FLOWS = 4096, 1000  # number of records of the ring, and number of their flows
VA_AT, PSN_AT, NETWORK_AT, ICRC = 54, 51, 14, 4  # offsets of fields in a frame of RoCEv2


@dataclass(frozen=True, eq=False)
class Writes:
    """RoCE writes that fill a region with `records`. `places` are the indices in the writing order.

    `reports` is the number of switch reports per write.
    """

    name: str
    records: NDArray[Any]  # one record per slot of the region
    places: NDArray[np.int64]
    reports: int = 1

    def frames(self, mac: str) -> list[bytes]:
        """Return the frames for the collector with this MAC address."""
        size = self.records.itemsize
        frame = bytearray(_framed(_write(size), mac))
        end, found = len(frame) - ICRC, []
        for number, place in enumerate(self.places.tolist()):
            frame[end - size : end] = self.records[place].tobytes()
            struct.pack_into("!Q", frame, VA_AT, BASE + place * size)
            frame[PSN_AT : PSN_AT + 3] = number.to_bytes(3, "big")
            frame[end:] = icrc(bytes(frame[NETWORK_AT:end]))
            found.append(bytes(frame))
        return found


@dataclass(frozen=True, eq=False)
class Datagrams:
    """Payloads of UDP datagrams, in order."""

    name: str
    payloads: Sequence[bytes]  # all payloads have the same length
    port: int = PORT
    reports: int = 1

    def frames(self, mac: str) -> list[bytes]:
        """Return the frames for the collector with this MAC address."""
        udp = UDP(sport=1000, dport=self.port, chksum=0)
        head = _framed(udp / Raw(self.payloads[0]), mac)[: -len(self.payloads[0])]
        return [head + each for each in self.payloads]


Offered = Writes | Datagrams


def records() -> NDArray[Any]:
    """Return the records of the ring, shape (COUNT,); neighbours belong to different flows."""
    found = np.zeros(COUNT, TCP)
    words = found.view(">u4").reshape(COUNT, -1)
    words[:, 0] = 0x0A000000 + np.arange(COUNT) % FLOWS
    found["source_port"] = 1000 + np.arange(COUNT) % FLOWS
    found["sequence"] = 1 + np.arange(COUNT)
    return found


RECORDS_WRITTEN = Writes("writes", records(), np.arange(COUNT))
RECORDS_SENT = Datagrams("datagrams", [each.tobytes() for each in records()])


def write_frames(path: Path, frames: Sequence[bytes]) -> None:
    """Write a file of frames for offer.c."""
    path.write_bytes(b"".join(struct.pack("<I", len(each)) + each for each in frames))


def _framed(content: Packet, mac: str) -> bytes:
    network = IP(src=WRITER.address, dst=COLLECTOR, flags="DF")
    return bytes(Ether(src=SENDER_MAC, dst=mac) / network / content)


def _write(size: int) -> Packet:
    header = RETH(va=BASE, rkey=FIRST_RKEY, length=size)
    udp = UDP(sport=49152, chksum=0)
    return udp / BTH(opcode=Op.WRITE_ONLY | UC, dqpn=QPN, icrc=0) / header / Raw(bytes(size))
