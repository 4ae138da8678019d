"""DTA reports from a capture file.

Either the file contains DTA reports, or one report is made for each of its packets.
"""

import dataclasses
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path

import numpy as np
from scapy.error import Scapy_Exception
from scapy.layers.inet import IP, TCP, UDP
from scapy.packet import Packet
from scapy.utils import PcapReader

from collectors.dta.load import Load, Reports, reporter_keys
from collectors.dta.packets import PORT, PROTOTYPE_PORT
from telemark.errors import TestbedError


def read_reports(path: Path, speed: float = 1.0) -> Reports:
    """Return the payloads and the send times of the DTA reports in a pcap file.

    With `speed` 2, the times between reports are half as long as in the file.

    Raises TestbedError.
    """
    found = [
        (float(packet.time), bytes(packet[UDP].payload), int(packet[UDP].dport))
        for packet in _packets(path)
        if UDP in packet and packet[UDP].dport in (PORT, PROTOTYPE_PORT)
    ]
    if not found:
        raise TestbedError(
            f"{path}: no DTA reports in this file; expected UDP packets to port {PORT} or "
            f"{PROTOTYPE_PORT}"
        )
    times_s, payloads, ports = map(list, zip(*found, strict=True))
    offsets_ns = np.round((np.array(times_s) - times_s[0]) * 1e9 / speed).astype(np.int64)
    return Reports(payloads, ports, None, offsets_ns)


def reports_of_packets(path: Path, load: Load) -> Reports:
    """Make one report for each IPv4 packet of a pcap file, with the properties of `load`.

    The key of a report is the flow key of the packet (see flow_key() in controllers/dta/watch.py).
    In the format of the prototype, the key is the source address. At most `load.count` packets are
    read. Raises TestbedError.
    """
    flows = [_flow_words(packet) for packet in _packets(path) if IP in packet][: load.count]
    if not flows:
        raise TestbedError(f"{path}: no IPv4 packets in this file; use a capture of IPv4 traffic")
    keys = reporter_keys(load, np.array(flows, np.uint32))
    return dataclasses.replace(load, count=len(flows), keys=keys).reports()


def _packets(path: Path) -> Iterator[Packet]:
    try:
        with PcapReader(str(path)) as reader:
            yield from reader
    except (OSError, EOFError, Scapy_Exception) as error:
        raise TestbedError(f"{path}: expected a pcap file: {error}") from None


def _flow_words(packet: Packet) -> tuple[int, ...]:
    ip = packet[IP]
    layer = next((packet[kind] for kind in (UDP, TCP) if kind in packet), None)
    ports = 0 if layer is None or ip.frag else layer.sport << 16 | layer.dport
    return int(IPv4Address(ip.src)), int(IPv4Address(ip.dst)), ports, ip.proto << 24
