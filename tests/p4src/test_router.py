"""p4src/include/routing.p4 in a router: which next hop it chooses, and the frames that it sends."""

import struct
import zlib
from pathlib import Path

import pytest
import subject
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_NOP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from minip4.engine.keys import Exact, Lpm

PROGRAM = Path(__file__).parents[2] / "p4src" / "routing" / "router.p4"
GROUP, COUNT, SALT = 3, 4, 77
HOPS = range(1, COUNT + 1)  # the port of each next hop
ROUTING, ROUTE = "RouterIngress.routing", [Lpm(0x0A010000, 16)]
IPV4 = IP(src="10.0.0.1", dst="10.1.2.3")

PACKETS = {
    "UDP": (IPV4 / UDP(sport=1000, dport=2000), (1000, 2000)),
    "TCP": (IPV4 / TCP(sport=5, dport=80), (5, 80)),
    "no ports": (IPV4 / ICMP(), (0, 0)),
    "a later fragment": (IP(src="10.0.0.1", dst="10.1.2.3", proto=17, frag=9) / bytes(24), (0, 0)),
}


@pytest.mark.parametrize(("packet", "ports"), PACKETS.values(), ids=PACKETS.keys())
def test_a_hash_of_the_flow_chooses_the_next_hop(packet: Packet, ports: tuple[int, int]) -> None:
    switch = subject.switch(PROGRAM, ports=HOPS)
    switch.table_add(f"{ROUTING}.routes", ROUTE, f"{ROUTING}.spread", [GROUP, COUNT, SALT])
    for member, port in enumerate(HOPS):
        key = [Exact(GROUP), Exact(member)]
        switch.table_add(f"{ROUTING}.next_hops", key, f"{ROUTING}.send", [0x02_99, port])
    ((port, sent),) = switch.process(1, bytes(Ether(dst="02:00:00:00:00:01") / packet), 0)
    # For a packet without ports, the program hashes 0: fields of an absent header are undefined.
    hashed = struct.pack(">HIIBHH", SALT, 0x0A000001, 0x0A010203, IP(bytes(packet)).proto, *ports)
    assert port == HOPS[zlib.crc32(hashed) % COUNT]
    assert Ether(sent).dst == "00:00:00:00:02:99"
    assert Ether(sent)[IP].ttl == 63


def routed(ip: Packet) -> list[tuple[int, bytes]]:
    """Send a packet to a router that has one next hop for it.

    Return the frames that the router sends.
    """
    switch = subject.switch(PROGRAM, ports=HOPS)
    switch.table_add(f"{ROUTING}.routes", ROUTE, f"{ROUTING}.send", [0x02_99, 2])
    frames: list[tuple[int, bytes]] = switch.process(1, bytes(Ether() / ip), 0)
    return frames


@pytest.mark.parametrize("options", [[], [IPOption_NOP()] * 4])
@pytest.mark.parametrize(("ttl", "number"), [(2, 0), (64, 1), (255, 0xFFFF)])
def test_the_header_checksum_is_right(ttl: int, number: int, options: list[Packet]) -> None:
    sent = IP(src="10.0.0.1", dst="10.1.2.3", ttl=ttl, id=number, options=options) / UDP()
    ((port, frame),) = routed(sent)
    assert port == 2
    expected = sent.copy()
    expected.ttl = ttl - 1
    assert frame[14:] == bytes(expected)  # scapy recomputes the checksum


def test_a_damaged_header_is_not_made_good() -> None:
    good = IP(bytes(IPV4 / UDP())).chksum
    ((_, frame),) = routed(IP(src=IPV4.src, dst=IPV4.dst, chksum=good ^ 0x400) / UDP())
    left = IP(frame[14:])
    assert left.chksum != IP(bytes(IP(src=IPV4.src, dst=IPV4.dst, ttl=63) / UDP())).chksum


@pytest.mark.parametrize("ip", [IP(dst="10.1.2.3", ttl=1), IP(dst="10.1.2.3", ttl=0),
                                IP(dst="10.2.0.1"), IPv6(dst="::1")])  # fmt: skip
def test_packets_without_route_or_ttl_are_dropped(ip: Packet) -> None:
    assert routed(ip / UDP()) == []
