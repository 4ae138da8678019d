"""Probes of p4src/congestion/link_monitor.p4: frames, reader and ground truth."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from struct import Struct

import numpy as np
from numpy.typing import NDArray
from scapy.fields import BitField, ByteField, IntField
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from telemark.accounting import pcap
from telemark.apps.application import Application, Host
from telemark.network import Network
from telemark.traffic.received import Frames

ETHERTYPE = 0x0812
BROADCAST = "ff:ff:ff:ff:ff:ff"
FRAME_BYTES = 60  # length of a sent probe, including padding
NUMBER = Struct(">I")


class Probe(Packet):
    """Header of a probe after the Ethernet header; `hops` is the number of hops that added data."""

    name = "Probe"
    fields_desc = [ByteField("hop_cnt", 0)]


class ProbeData(Packet):
    """Data that a hop adds about one of its ports."""

    name = "ProbeData"
    fields_desc = [
        BitField("bos", 0, 1), BitField("swid", 0, 7), ByteField("port", 0),
        IntField("byte_cnt", 0), BitField("last_time", 0, 48), BitField("cur_time", 0, 48),
    ]  # fmt: skip


HEADER_BYTES, DATA_BYTES = 14 + len(Probe()), len(ProbeData())


def probe(number: int, ports: Sequence[int], mac: str) -> bytes:
    """Return a source-routed probe that carries its number at the end."""
    frame = Ether(dst=BROADCAST, src=mac, type=ETHERTYPE) / Probe() / Raw(bytes(ports))
    return bytes(frame).ljust(FRAME_BYTES - NUMBER.size, b"\0") + NUMBER.pack(number)


class ProbeReader(Application):
    """Receiver of probes; the result is a list of frames."""

    def __init__(self) -> None:
        self._frames: list[bytes] = []

    def start(self, host: Host) -> None:
        host.frames(self._take)

    def _take(self, frames: Frames) -> None:
        is_probe = ETHERTYPE.to_bytes(2, "big")
        self._frames += [arrived.frame for arrived in frames if arrived.frame[12:14] == is_probe]

    def result(self) -> list[bytes]:
        return self._frames


def reported_by(frames: Sequence[bytes], hop: int) -> NDArray[np.void]:
    """Return the data of one hop in all probes (0 is the first hop).

    The data are the number of the probe, and the fields of ProbeData.
    """
    names = ("swid", "port", "byte_cnt", "last_time", "cur_time")
    found = []
    for frame in frames:
        hops = frame[HEADER_BYTES - 1]
        at = HEADER_BYTES + DATA_BYTES * (hops - 1 - hop)  # the data of the last hop come first
        data = ProbeData(frame[at : at + DATA_BYTES])
        number = NUMBER.unpack(frame[-NUMBER.size :])
        found.append((*number, *(data.getfieldval(name) for name in names)))
    return np.array(found, [(name, "<i8") for name in ("number", *names)])


@dataclass(frozen=True)
class Sent:
    """Ground truth of a port: what it sent between two probes. Arrays have an element per pair."""

    arrived: int  # number of arrived probes; fewer depart if the queue is full
    on_link: int  # number of probes that the link transmitted
    numbers: NDArray[np.int64]  # number of the second probe of a pair
    left_ns: NDArray[np.int64]  # departure time of the second probe of a pair
    bytes: NDArray[np.int64]
    min_us: NDArray[np.float64]  # bounds of the interval between both timestamps of the switch
    max_us: NDArray[np.float64]


def read_sent(net: Network, switch: str, before: str, after: str) -> Sent:
    """Return the ground truth of the port towards `after`, after the network has stopped.

    Probes arrive from `before`. The panel switch (minip4, between bmv2 and the links) contains the
    queue of the link and may drop packets that bmv2 has counted and sent.
    """
    on_link = pcap.read(net.capture(switch, after, "out"))
    out = pcap.read(net.capture(switch, after, "in", inner=True)) if net.has_panels else on_link
    arrived = pcap.read(net.capture(switch, before, "in"))
    arrived_ns = dict(
        zip(_numbers(arrived), arrived.time_ns[_probes(arrived)].tolist(), strict=True)
    )
    rows = _probes(out)
    left_ns = out.time_ns[rows].astype(np.int64)
    numbers = _numbers(out)
    taken_ns = np.array([arrived_ns[number] for number in numbers], np.int64)
    lengths = out.length.astype(np.int64)
    lengths[rows] = FRAME_BYTES  # the switch counts the length of a packet on ingress
    return Sent(
        len(arrived_ns), len(_probes(on_link)), np.array(numbers[1:], np.int64),
        left_ns[1:], np.diff(np.cumsum(lengths)[rows]),
        (taken_ns[1:] - left_ns[:-1]) / 1000, (left_ns[1:] - taken_ns[:-1]) / 1000,
    )  # fmt: skip


def matched(reported: NDArray[np.void], sent: Sent) -> tuple[NDArray[np.void], Sent]:
    """Return the data and the ground truth of the delivered probes, in the same order."""
    _, rows, pairs = np.intersect1d(reported["number"], sent.numbers, return_indices=True)
    return reported[rows], replace(
        sent, numbers=sent.numbers[pairs], left_ns=sent.left_ns[pairs], bytes=sent.bytes[pairs],
        min_us=sent.min_us[pairs], max_us=sent.max_us[pairs],
    )  # fmt: skip


def _probes(frames: pcap.Frames) -> NDArray[np.int64]:
    return np.flatnonzero((frames.bytes[:, 12:14] == divmod(ETHERTYPE, 256)).all(axis=1))


def _numbers(frames: pcap.Frames) -> list[int]:
    return [NUMBER.unpack(frames.bytes[row, end - NUMBER.size : end].tobytes())[0]
            for row in _probes(frames) for end in frames.length[[row]].tolist()]  # fmt: skip
