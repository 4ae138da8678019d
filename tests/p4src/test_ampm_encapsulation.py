"""The first switch encapsulates IPv6 packets without AltMark option. Outer packets have the option.

RFC 9343 permits only the source of a packet to insert the option. RFC 2473 defines the
encapsulation.
"""

import pytest
from ampm_path import (
    BLOCK,
    DECAPSULATE,
    FIRST,
    IPV6_ADDRESSES,
    LAST,
    MIDDLE,
    PULSE,
    SAMPLE,
    TUNNEL,
    L,
    Record,
    Switch,
)
from scapy.layers.inet import TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from controllers.ampm.watch import Method

FLOW_MON_ID = 0xABCDE
ETHER = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")
METHODS = [
    Method.STEP,
    Method.PULSE,
    Method.DOUBLE,
    Method.MULTIPLEXED,
    Method.DOUBLE | Method.HASHED,
]


def plain(number: int = 0, **ipv6: int) -> bytes:
    """Return an IPv6 UDP packet without AltMark option, as a host sends it."""
    src, dst = IPV6_ADDRESSES
    segment = UDP(sport=4000, dport=5000, chksum=number) / Raw(bytes(20))
    return bytes(ETHER / IPv6(src=src, dst=dst, **ipv6) / segment)


def edge(role: str, method: Method) -> Switch:
    """Return a switch with this role, on the path of a flow that the first switch encapsulates."""
    switch = Switch(role, method, flows=0)
    if role == FIRST:
        switch.encapsulate(method, flow_mon_id=FLOW_MON_ID)
    else:
        switch.watch_ipv6(role, method, flow_mon_id=FLOW_MON_ID, addresses=TUNNEL)
    return switch


def test_the_outer_packet_byte_by_byte() -> None:
    data = plain(tc=0xB9, fl=0x12345, hlim=7)
    expected = bytes.fromhex(
        "020000000002 020000000001 86dd"
        # Traffic class and flow label are those of the inner header. 28 + 40 + 8 bytes follow.
        "6b912345 004c 00 40"
        "fd00ed9e000000000000000000000001 fd00ed9e000000000000000000000002"
        "29 00 1204 abcde800"  # hop-by-hop, then IPv6; FlowMonID 0xABCDE, L = 1, D = 0
        "6b912345 001c 11 07"
        "fd000000000000000000000000000001 fd000000000000000000000000000002"
    )
    assert data[14:54] == expected[62:]
    out = edge(FIRST, Method.DOUBLE).pass_on(data, 5 * L)
    assert out == expected + data[54:]
    assert out[56:62] == bytes.fromhex("12 04 AB CD E8 00")


@pytest.mark.parametrize(
    ("method", "time_us", "flags"),
    [
        (Method.STEP, 4 * L, 0x00),
        (Method.STEP, 5 * L - 1, 0x00),
        (Method.STEP, 5 * L, 0x08),
        (Method.PULSE, 4 * L + L // 2, 0x04),
        (Method.DOUBLE, 5 * L + L // 2, 0x0C),
        (Method.MULTIPLEXED, 4 * L + L // 2, 0x08),
        (Method.MULTIPLEXED, 5 * L + L // 2, 0x00),
    ],
)
def test_the_marks_are_in_the_outer_packet(method: Method, time_us: int, flags: int) -> None:
    out = edge(FIRST, method).pass_on(plain(), time_us)
    assert out[54:62] == bytes.fromhex("2900 1204 ABCD") + bytes((0xE0 | flags, 0))


INSIDE = {
    "UDP": plain(),
    "TCP": bytes(ETHER / IPv6(src="fd00::1", dst="fd00::2") / TCP(dport=80) / b"data"),
    "ICMPv6": bytes(ETHER / IPv6(src="fd00::1", dst="fd00::2") / ICMPv6EchoRequest()),
    "a fragment": bytes(
        ETHER / IPv6(src="fd00::1", dst="fd00::2") / IPv6ExtHdrFragment(offset=3) / Raw(bytes(24))
    ),
    "destination options": bytes(
        ETHER / IPv6(src="fd00::1", dst="fd00::2") / IPv6ExtHdrDestOpt() / UDP() / b"data"
    ),
    "another option first": plain()[:20]
    + b"\0"
    + plain()[21:54]
    + bytes.fromhex("1100050200000100"),
    "a header and no more": bytes(ETHER / IPv6(src="fd00::1", dst="fd00::2", nh=59)),
    "cut in the ports": plain()[:58],
    "longer than it says": plain() + bytes(9),
    "traffic class and flow label": plain(tc=0xB9, fl=0xFEDCB, hlim=1),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("data", INSIDE.values(), ids=INSIDE.keys())
def test_a_packet_leaves_the_domain_as_it_came(method: Method, data: bytes) -> None:
    switches = [edge(role, method) for role in (FIRST, MIDDLE, DECAPSULATE)]
    for time_us in (3 * L, 3 * L + L // 2, 4 * L, 4 * L + L // 2):
        inside = switches[0].pass_on(data, time_us)
        assert inside[:12] == data[:12]
        assert inside[62:] == data[14:]
        outer = Ether(inside)[IPv6]
        assert (outer.src, outer.dst, outer.nh, outer.hlim) == (*TUNNEL, 0, 64)
        assert outer.plen == Ether(data)[IPv6].plen + 48
        assert switches[1].pass_on(inside, time_us) == inside
        assert switches[2].pass_on(inside, time_us) == data
    counts = [switch.packets(0, colour) for switch in switches for colour in (0, 1)]
    assert counts == [(2, 2)] * 6


def test_all_points_record_an_encapsulated_flow_alike() -> None:
    method = Method.DOUBLE | Method.HASHED
    points = [edge(role, method) for role in (FIRST, MIDDLE, DECAPSULATE)]
    start_us = 4 * L
    for number in range(40):
        at_us = start_us + number * L // 40
        data = plain(number + 1)
        for point in points:
            data = point.pass_on(data, at_us)
    found = [
        [point.read(BLOCK, 0), point.read(PULSE, 0), *(point.read(SAMPLE, i) for i in range(8))]
        for point in points
    ]
    sum_us = sum(number * L // 40 for number in range(40))
    assert found[0] == found[1] == found[2]
    assert found[0][0] == (Record(start_us, (40, sum_us, start_us)),) * 2
    assert found[0][1] == (Record(start_us, (1, start_us + L // 4, 11)),) * 2
    assert len({arrival.values[2] for arrival, _ in found[0][2:]}) > 4


def with_ecn(data: bytes, at: int, ecn: int) -> bytes:
    """Return the frame with other ECN bits in the IPv6 header that is at this offset."""
    return data[: at + 1] + bytes((data[at + 1] & 0xCF | ecn << 4,)) + data[at + 2 :]


@pytest.mark.parametrize("sent", [0, 1, 2, 3])
@pytest.mark.parametrize("met", range(4))
def test_congestion_marks_are_copied_to_the_inner_packet(sent: int, met: int) -> None:
    """If the inner packet is ECN-capable, congestion marks of the outer packet are copied to it.

    RFC 6040, section 4.2: these marks are CE, and ECT(1) on a packet with ECT(0). Inner packets
    that are not ECN-capable are forwarded unchanged, not dropped.
    """
    data = with_ecn(plain(), 14, sent)
    inside = edge(FIRST, Method.STEP).pass_on(data, L)
    assert inside == with_ecn(inside, 14, sent)
    inside = with_ecn(inside, 14, met)
    expected = with_ecn(data, 14, met) if (sent and met == 3) or (sent, met) == (2, 1) else data
    assert edge(DECAPSULATE, Method.STEP).pass_on(inside, L) == expected


INSIDE_PACKET = edge(FIRST, Method.STEP).pass_on(plain(), 5 * L)
OTHERS = {
    "another FlowMonID": INSIDE_PACKET[:58] + b"\0" + INSIDE_PACKET[59:],
    "another tunnel": INSIDE_PACKET[:37] + b"\x99" + INSIDE_PACKET[38:],
    "another version": INSIDE_PACKET[:14] + b"\x45" + INSIDE_PACKET[15:],
    "cut in the option": INSIDE_PACKET[:60],
}


@pytest.mark.parametrize("role", [FIRST, MIDDLE, DECAPSULATE])
@pytest.mark.parametrize("data", OTHERS.values(), ids=OTHERS.keys())
def test_other_packets_with_the_option_pass_untouched_and_uncounted(role: str, data: bytes) -> None:
    switch = Switch(role, Method.STEP, flows=0)
    switch.watch_ipv6(role, Method.STEP, flow_mon_id=FLOW_MON_ID, addresses=TUNNEL)
    assert switch.pass_on(data, 5 * L) == data
    assert switch.packets(0, 1) == (0, 0)


@pytest.mark.parametrize(("ports", "is_watched"), [
    ((4000, 5000), True), ((4001, 5000), False), ((4000, 5001), False), ((0, 0), False),
])  # fmt: skip
def test_the_ports_of_ipv6_select_the_packets(ports: tuple[int, int], is_watched: bool) -> None:
    first = Switch(FIRST, Method.STEP, flows=0)
    first.encapsulate(Method.STEP, flow_mon_id=FLOW_MON_ID, ports=ports)
    data = plain()
    assert (first.pass_on(data, L) != data) == is_watched


@pytest.mark.parametrize("options", ["05020000 1204abcde800 0000", "1204abcde800 05020000 0000"])
def test_other_options_of_the_outer_packet_are_removed_with_it(options: str) -> None:
    data = plain()
    outer = IPv6(src=TUNNEL[0], dst=TUNNEL[1], nh=0)
    header = bytes.fromhex("2901" + options) + bytes(2)
    inside = bytes(ETHER / outer / Raw(header + data[14:]))
    assert edge(DECAPSULATE, Method.STEP).pass_on(inside, 5 * L) == data


def test_an_inner_packet_that_is_cut_goes_on_without_marks() -> None:
    last = edge(DECAPSULATE, Method.STEP)
    assert (
        last.pass_on(INSIDE_PACKET[:80], 5 * L)
        == INSIDE_PACKET[:60] + b"\xe0\0" + INSIDE_PACKET[62:80]
    )
    assert last.packets(0, 1) == (1, 1)


def test_a_tunnel_of_the_hosts_own_is_not_taken_apart() -> None:
    """In a packet that a host has encapsulated itself, switches only set and remove marks."""
    near, far = (Switch(role, Method.STEP, flows=0) for role in (FIRST, LAST))
    for switch, role in ((near, FIRST), (far, LAST)):
        switch.watch_ipv6(role, Method.STEP, flow_mon_id=FLOW_MON_ID, addresses=TUNNEL)
    sent = edge(FIRST, Method.STEP).pass_on(plain(), 4 * L)  # colour 0
    marked = near.pass_on(sent, 5 * L)
    assert marked[60] == 0xE8
    assert far.pass_on(marked, 5 * L) == sent


IPV4 = bytes(ETHER)[:12] + bytes.fromhex("080045") + bytes(40)


@pytest.mark.parametrize("data", [INSIDE_PACKET, IPV4, OTHERS["another version"]])
def test_only_ipv6_without_the_option_is_encapsulated(data: bytes) -> None:
    first = edge(FIRST, Method.STEP)
    assert first.pass_on(data, 5 * L) == data
    assert first.packets(0, 1) == (0, 0)
