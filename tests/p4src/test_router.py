"""p4src/routing: which of several next hops a packet takes, by the hash as the program says it."""

import struct
import zlib
from pathlib import Path

import pytest
import subject
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from minip4.engine.keys import Exact, Lpm

PROGRAM = Path(__file__).parents[2] / "p4src" / "routing" / "router.p4"
GROUP, COUNT, SALT = 3, 4, 77
HOPS = range(1, COUNT + 1)  # ports
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
    ingress = "RouterIngress"
    route = [Lpm(0x0A010000, 16)]
    switch.table_add(f"{ingress}.routes", route, f"{ingress}.spread", [GROUP, COUNT, SALT])
    for member, port in enumerate(HOPS):
        key = [Exact(GROUP), Exact(member)]
        switch.table_add(f"{ingress}.next_hops", key, f"{ingress}.send", [0x02_99, port])
    ((port, sent),) = switch.process(1, bytes(Ether(dst="02:00:00:00:00:01") / packet), 0)
    # Without ports, 0 is hashed: fields of a header that is not there mean nothing.
    hashed = struct.pack(">HIIBHH", SALT, 0x0A000001, 0x0A010203, IP(bytes(packet)).proto, *ports)
    assert port == HOPS[zlib.crc32(hashed) % COUNT]
    assert Ether(sent).dst == "00:00:00:00:02:99"
    assert Ether(sent)[IP].ttl == 63
