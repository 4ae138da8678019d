"""p4src/ampm/multicast.p4: the copies of a packet, and packets that are not replicated."""

from pathlib import Path

import pytest
import subject
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from minip4.engine.keys import Exact, Lpm

PROGRAM = Path(__file__).parents[2] / "p4src" / "ampm" / "routed.p4"
GROUP, NUMBER = "239.1.2.3", 1
ETHER = Ether(src="02:00:00:00:00:01", dst="01:00:5e:01:02:03")


def replicated(ip: IP, *, routes: bool = False) -> list[tuple[int, bytes]]:
    """Send a packet to a switch with a group of two ports; return the frames that it sends."""
    switch = subject.switch(PROGRAM, ports=(1, 2, 3))
    control = "AmpmIngress.multicast"
    key = [Exact(0xEF010203)]
    switch.table_add(f"{control}.multicast_groups", key, f"{control}.replicate", [NUMBER])
    switch.multicast_set(NUMBER, [(2, 0), (3, 0)])
    if routes:
        control = "AmpmIngress.routing"
        switch.table_add(f"{control}.routes", [Lpm(0, 0)], f"{control}.send", [0x02_99, 1])
    frames: list[tuple[int, bytes]] = switch.process(1, bytes(ETHER / ip / UDP()), 0)
    return frames


@pytest.mark.parametrize("routes", [False, True])
@pytest.mark.parametrize("ttl", [2, 64])
def test_each_copy_has_made_one_hop(ttl: int, routes: bool) -> None:
    """The default route must not change a packet that has a group."""
    frames = replicated(IP(src="10.0.0.1", dst=GROUP, ttl=ttl), routes=routes)
    expected = ETHER / IP(src="10.0.0.1", dst=GROUP, ttl=ttl - 1) / UDP()
    assert sorted(frames) == [(port, bytes(expected)) for port in (2, 3)]


@pytest.mark.parametrize("ip", [IP(dst=GROUP, ttl=1), IP(dst=GROUP, ttl=0), IP(dst=GROUP, ihl=4),
                                IP(dst="239.1.2.4")])  # fmt: skip
def test_other_packets_are_dropped(ip: IP) -> None:
    assert replicated(ip) == []
