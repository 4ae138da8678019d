"""Fragments (RFC 9341): the first switch marks all of them, and each counts as a packet."""

import pytest
from ampm_path import (
    BLOCK,
    DECAPSULATE,
    FIRST,
    LAST,
    MIDDLE,
    TUNNEL,
    L,
    Record,
    Switch,
)
from scapy.layers.inet import IP, UDP, defragment, fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment, defragment6, fragment6
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from controllers.ampm.watch import Method

ETHER = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")
# 128 bytes; at each multiple of eight bytes, they look like a UDP header to port 5000
DATAGRAM = UDP(sport=4000, dport=5000) / Raw(bytes.fromhex("0fa01388 00080000") * 15)
IPV4 = IP(src="10.0.0.1", dst="10.0.0.2", id=77, tos=0xA0) / DATAGRAM
IPV6 = IPv6(src="fd00::1", dst="fd00::2") / IPv6ExtHdrFragment(id=77) / DATAGRAM
FRAGMENTS = [bytes(ETHER / part) for part in fragment(IPV4, 48)]
FRAGMENTS_6 = [bytes(ETHER / part) for part in fragment6(IPV6, 104)]
PATH = (FIRST, MIDDLE, LAST)


def test_the_fragments_of_this_test() -> None:
    assert [Ether(data)[IP].frag for data in FRAGMENTS] == [0, 6, 12]
    assert [data[34:38].hex() for data in FRAGMENTS] == ["0fa01388"] * 3
    assert len(FRAGMENTS_6) == 3


@pytest.mark.parametrize("method", [Method.STEP, Method.DOUBLE, Method.MULTIPLEXED])
def test_all_fragments_of_a_flow_without_ports_are_marked_and_counted(method: Method) -> None:
    switches = [Switch(role, method, flows=0) for role in PATH]
    for switch, role in zip(switches, PATH, strict=True):
        switch.watch_all(role, method)
    inside, out = [], []
    for at_us, data in enumerate(FRAGMENTS):
        passing = switches[0].pass_on(data, 5 * L + at_us)
        inside.append(passing)
        for switch in switches[1:]:
            passing = switch.pass_on(passing, 5 * L + at_us)
        out.append(passing)
    coloured = IPV4.copy()
    coloured.tos |= 0x04
    assert inside == [bytes(ETHER / part) for part in fragment(coloured, 48)]
    assert out == FRAGMENTS
    (whole,) = defragment([Ether(data)[IP] for data in out])
    assert bytes(whole) == bytes(IPV4)
    for switch in switches:
        assert switch.packets(0, 1) == (3, 3)
        assert switch.read(BLOCK, 1)[0] == Record(5 * L, (3, 0 + 1 + 2, 5 * L))


def test_fragments_on_either_side_of_an_edge_count_where_they_came() -> None:
    first, last = Switch(FIRST, Method.STEP, flows=0), Switch(LAST, Method.STEP, flows=0)
    first.watch_all(FIRST, Method.STEP)
    last.watch_all(LAST, Method.STEP)
    times_us = (5 * L - 1, 5 * L, 5 * L + 1)
    for time_us, data in zip(times_us, FRAGMENTS, strict=True):
        last.pass_on(first.pass_on(data, time_us), time_us + 2)
    for switch in (first, last):
        assert (switch.packets(0, 0), switch.packets(0, 1)) == ((1, 1), (2, 2))


def test_a_flow_with_ports_sees_first_fragments_only() -> None:
    """If the entry of a flow has ports, only first fragments are marked and counted.

    Later fragments have no ports, even if their data look like ports.
    """
    for role in PATH:
        switch = Switch(role, Method.STEP)
        out = [switch.pass_on(data, 5 * L) for data in FRAGMENTS]
        assert out[1:] == FRAGMENTS[1:]
        assert switch.packets(0, 1) == (int(role == FIRST),) * 2
        # after the first switch, unmarked packets belong to the nearest block of colour 0, block 4
        assert switch.packets(0, 0) == (int(role != FIRST),) * 2


def test_packets_without_ports_have_port_0_in_the_key() -> None:
    middle = Switch(MIDDLE, Method.STEP, flows=0)
    middle.watch_all(MIDDLE, Method.STEP, port_mask=0xFFFF)
    for data in FRAGMENTS:
        middle.pass_on(data, 4 * L)
    assert middle.packets(0, 0) == (2, 2)  # all but the first


def test_fragments_of_ipv6_are_encapsulated_one_by_one() -> None:
    method = Method.STEP
    first, last = Switch(FIRST, method, flows=0), Switch(DECAPSULATE, method, flows=0)
    first.encapsulate(method, flow_mon_id=0xABCDE)
    last.watch_ipv6(DECAPSULATE, method, flow_mon_id=0xABCDE, addresses=TUNNEL)
    inside = [first.pass_on(data, 5 * L) for data in FRAGMENTS_6]
    for data, sent in zip(inside, FRAGMENTS_6, strict=True):
        assert data[54:62].hex() == "29001204abcde800"
        assert data[62:] == sent[14:]
    out = [last.pass_on(data, 5 * L) for data in inside]
    assert out == FRAGMENTS_6
    assert bytes(defragment6([Ether(data)[IPv6] for data in out]))[40:] == bytes(IPV6[UDP])
    for switch in (first, last):
        assert switch.packets(0, 1) == (3, 3)
