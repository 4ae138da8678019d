"""Switches set and remove alternate marks, and do not change the packets of other flows."""

import pytest
from ampm_path import FIRST, LAST, MIDDLE, L, Switch, checked, frame, marks
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption, fragment
from scapy.layers.l2 import ARP, Ether

from controllers.ampm.watch import Method

WRAP = 1 << 48
ALL_METHODS = [
    Method.STEP,
    Method.PULSE,
    Method.DOUBLE,
    Method.MULTIPLEXED,
    Method.STEP | Method.HASHED,
    Method.DOUBLE | Method.HASHED,
    Method.MULTIPLEXED | Method.HASHED,
]
ETHER = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")
ADDRESSES = {"src": "10.0.0.1", "dst": "10.0.0.2"}


@pytest.mark.parametrize(
    ("time_us", "colour"),
    [
        (4 * L, 0),
        (5 * L - 1, 0),  # last microsecond of a block
        (5 * L, 1),  # first microsecond of the next block
        (6 * L - 1, 1),
        (WRAP - 1, 1),  # the last block before the clock wraps has an odd number
        (WRAP, 0),
        (WRAP + L - 1, 0),
        (WRAP + L, 1),
    ],
)
@pytest.mark.parametrize("method", [Method.STEP, Method.DOUBLE, Method.MULTIPLEXED])
def test_colours_change_at_the_edge_of_a_block(method: Method, time_us: int, colour: int) -> None:
    assert marks(Switch(FIRST, method).pass_on(frame(), time_us)) == (colour, 0)


@pytest.mark.parametrize("ahead_us", [-1, 1])
def test_the_clock_s_offset_moves_the_edge(ahead_us: int) -> None:
    switch = Switch(FIRST, Method.STEP, ahead_us=ahead_us)
    switch.engine.table_set_default(
        "AmpmIngress.watch.clock", "AmpmIngress.watch.set_clock", [-ahead_us % WRAP, 20]
    )
    assert marks(switch.pass_on(frame(), 5 * L - 1)) == (0, 0)
    assert marks(switch.pass_on(frame(), 5 * L)) == (1, 0)


WATCHED = {
    "plain": frame(),
    "DSCP and ECN of its own": frame(tos=0xF3 & ~0x0C),
    "options": frame(options=[IPOption(b"\x94\x04\x00\x00")]),
    "as many options as fit": frame(options=[IPOption(b"\x01")] * 40),
    "TCP": bytes(ETHER / IP(**ADDRESSES) / TCP(dport=80) / b"some data"),
    "neither TCP nor UDP": bytes(ETHER / IP(**ADDRESSES) / ICMP()),
    "first fragment": bytes(ETHER / fragment(IP(**ADDRESSES) / UDP() / bytes(99), 64)[0]),
    "last fragment": bytes(ETHER / fragment(IP(**ADDRESSES) / UDP() / bytes(99), 64)[1]),
    "shorter than it says": frame()[:36],
    "wrong checksum": frame(chksum=0x1234),
    "longer than its IP packet": frame() + bytes(10),
}


@pytest.mark.parametrize("method", ALL_METHODS)
@pytest.mark.parametrize("data", WATCHED.values(), ids=WATCHED.keys())
def test_a_packet_leaves_the_domain_as_it_came(method: Method, data: bytes) -> None:
    switches = [Switch(role, method, flows=0) for role in (FIRST, MIDDLE, LAST)]
    for switch, role in zip(switches, (FIRST, MIDDLE, LAST), strict=True):
        switch.watch_all(role, method)
    seen = set()
    for time_us in (3 * L, 3 * L + L // 2, 4 * L, 4 * L + L // 2, 4 * L + L // 2 + 1):
        passing = data
        for switch in switches:
            passing = switch.pass_on(passing, time_us)
            if switch is not switches[-1]:
                seen.add(marks(passing))
                assert passing[16:24] == data[16:24]
                assert passing[26:] == data[26:]
                # the other bits of DSCP and ECN are unchanged
                assert (passing[15] ^ data[15]) & 0xF3 == 0
                if data is not WATCHED["wrong checksum"]:
                    checked(passing)
        assert passing == data
    expected = {
        Method.STEP: {(0, 0), (1, 0)},
        Method.PULSE: {(0, 0), (0, 1)},
        Method.DOUBLE: {(0, 0), (0, 1), (1, 0), (1, 1)},
        Method.MULTIPLEXED: {(0, 0), (1, 0)},
    }
    assert seen == expected[Method(method & ~Method.HASHED)]


def test_a_wrong_checksum_is_not_made_good() -> None:
    switch = Switch(FIRST, Method.STEP)
    with pytest.raises(AssertionError):
        checked(switch.pass_on(frame(chksum=0x1234), L))


def test_checksums_are_right_at_both_ends_of_their_range() -> None:
    """The IPv4 checksum is right after marking, also for checksums near 0 and near 0xFFFF.

    Near these values, the sum of an update carries into the 17th bit, once or twice.
    """
    near, far = (Switch(role, Method.DOUBLE) for role in (FIRST, LAST))
    for time_us in (5 * L, 5 * L + L // 2):
        for checksum in [*range(17), *range(0xFFEF, 0xFFFF)]:
            other = Ether(frame())[IP].chksum
            data = frame(id=(other - checksum) % 0xFFFF)
            assert Ether(data)[IP].chksum == checksum
            marked = near.pass_on(data, time_us)
            checked(marked)
            assert far.pass_on(marked, time_us) == data


OTHERS = {
    "another flow": frame(flow=77),
    "another flow, with bits like marks": frame(flow=77, tos=0x0C),
    "another flow, wrong checksum": frame(flow=77, chksum=1),
    "ARP": bytes(ETHER / ARP()),
    "IPv6 type, not IPv6": bytes(ETHER.copy())[:12] + b"\x86\xdd" + bytes(40),
    "IPv4 header of four words": frame()[:14] + b"\x44" + frame()[15:],
    "cut in the IPv4 header": frame()[:30],
    "cut in the ports": frame()[:40],
    "fragment, whose ports are not known": bytes(
        ETHER / fragment(IP(**ADDRESSES) / UDP(dport=5000) / bytes(99), 64)[1]
    ),
    "no payload": bytes(ETHER)[:12] + b"\x12\x34",
}


@pytest.mark.parametrize("method", ALL_METHODS)
@pytest.mark.parametrize("data", OTHERS.values(), ids=OTHERS.keys())
def test_packets_of_no_watched_flow_pass_untouched_and_uncounted(
    method: Method, data: bytes
) -> None:
    for role in (FIRST, MIDDLE, LAST):
        switch = Switch(role, method)
        for time_us in (3 * L, 3 * L + L // 2):
            assert switch.pass_on(data, time_us) == data
        assert switch.packets(0, 1) == (0, 0)


TAKEN = {  # method -> DSCP bits that it uses
    method: bool(method & (Method.STEP | Method.MULTIPLEXED)) * 1 | bool(method & Method.PULSE) * 2
    for method in ALL_METHODS
}


@pytest.mark.parametrize("version_and_length", [0x40, 0x44])
def test_packets_too_short_for_ipv4_are_not_watched(version_and_length: int) -> None:
    data = frame()[:14] + bytes((version_and_length,)) + frame()[15:]
    for role in (FIRST, MIDDLE, LAST):
        switch = Switch(role, Method.DOUBLE, flows=0)
        switch.watch_all(role, Method.DOUBLE)
        assert switch.pass_on(data, 3 * L) == data
        assert switch.packets(0, 1) == (0, 0)


def test_a_host_cannot_send_marks_of_its_own() -> None:
    """The first switch overwrites the bits that the method uses, whatever a host put there."""
    for method in ALL_METHODS:
        switch = Switch(FIRST, method)
        left = 3 & ~TAKEN[method]
        assert marks(switch.pass_on(frame(tos=0x0C), 4 * L)) == (left & 1, left >> 1)
        assert switch.packets(0, 0) == (1, 1)


@pytest.mark.parametrize("method", ALL_METHODS)
def test_each_dscp_is_restored_at_the_end_of_the_domain(method: Method) -> None:
    """Each of the 64 values of the DSCP leaves the domain as it came.

    The last switch writes the configured value into the bits that the method uses. No switch
    changes other bits.
    """
    near, middle = (Switch(role, method, flows=64) for role in (FIRST, MIDDLE))
    far = Switch(LAST, method, flows=0)
    for dscp in range(64):
        far.watch(LAST, method, dst_port=5000 + dscp, flow=dscp, dscp=dscp)
    for time_us in (4 * L, 4 * L + L // 2, 5 * L, 5 * L + L // 2):
        for dscp in range(64):
            data = frame(flow=dscp, tos=dscp << 2 | 3)
            inside = near.pass_on(data, time_us)
            assert (inside[15] ^ data[15]) & ~(TAKEN[method] << 2) == 0
            assert far.pass_on(middle.pass_on(inside, time_us), time_us) == data


def test_all_packets_of_a_flow_leave_with_the_dscp_of_its_entry() -> None:
    """Packets of a flow leave with the DSCP of its entry (here EF), whatever they had before."""
    near, far = Switch(FIRST, Method.DOUBLE), Switch(LAST, Method.DOUBLE, flows=0)
    far.watch(LAST, Method.DOUBLE, dst_port=5000, dscp=46)
    for dscp in (44, 45, 46, 47):
        out = far.pass_on(near.pass_on(frame(tos=dscp << 2), 5 * L), 5 * L)
        assert out == frame(tos=46 << 2)


def test_packets_of_no_known_destination_are_dropped_after_their_arrival_was_counted() -> None:
    switch = Switch(FIRST, Method.STEP)
    lost = b"\x02\0\0\0\0\x99" + frame()[6:]
    assert switch.send(lost, 4 * L) == []
    assert switch.packets(0, 0) == (1, 0)
