"""The records that collectors are offered, and the frames that bring them, over RoCE or UDP."""

import struct
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
TRANSPORT = Transport.UC  # the same frames again and again: RC would take them once
MAC, SENDER_MAC, NOBODYS_MAC = "02:00:00:00:00:02", "02:00:00:00:00:01", "02:00:00:00:00:99"
COUNT, FLOWS = 4096, 1000  # records of the ring, and of how many flows they are
VA_AT, PSN_AT, NETWORK_AT, ICRC = 54, 51, 14, 4  # in a frame of RoCEv2


def records() -> NDArray[Any]:
    """Records of the ring, shape (COUNT,): of each flow one after the other."""
    found = np.zeros(COUNT, TCP)
    words = found.view(">u4").reshape(COUNT, -1)
    words[:, 0] = 0x0A000000 + np.arange(COUNT) % FLOWS
    found["source_port"] = 1000 + np.arange(COUNT) % FLOWS
    found["sequence"] = 1 + np.arange(COUNT)
    return found


def write_frames(path: Path, *, roce: bool, mac: str) -> None:
    """The frames of all records, as offer.c reads them."""
    content = _write() if roce else UDP(sport=1000, dport=PORT, chksum=0) / _empty()
    packet = Ether(src=SENDER_MAC, dst=mac) / IP(src=WRITER.address, dst=COLLECTOR, flags="DF")
    frame = bytearray(bytes(packet / content))
    end = len(frame) - ICRC if roce else len(frame)
    with path.open("wb") as file:
        for number, record in enumerate(records()):
            frame[end - TCP.itemsize : end] = record.tobytes()
            if roce:
                struct.pack_into("!Q", frame, VA_AT, BASE + number * TCP.itemsize)
                frame[PSN_AT : PSN_AT + 3] = number.to_bytes(3, "big")
                frame[end:] = icrc(bytes(frame[NETWORK_AT:end]))
            file.write(struct.pack("<I", len(frame)) + frame)


def frames_in(path: Path) -> list[bytes]:
    """What write_frames() wrote."""
    content, found, at = path.read_bytes(), [], 0
    while at < len(content):
        (length,) = struct.unpack_from("<I", content, at)
        found.append(content[at + 4 : at + 4 + length])
        at += 4 + length
    return found


def _empty() -> Packet:
    return Raw(bytes(TCP.itemsize))


def _write() -> Packet:
    header = RETH(va=BASE, rkey=FIRST_RKEY, length=TCP.itemsize)
    udp = UDP(sport=49152, chksum=0)
    return udp / BTH(opcode=Op.WRITE_ONLY | UC, dqpn=QPN, icrc=0) / header / _empty()
