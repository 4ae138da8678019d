"""IPv6: hosts insert the AltMark option of RFC 9343, and the first switch marks it."""

import pytest
from ampm_path import (
    BLOCK,
    FIRST,
    LAST,
    MIDDLE,
    PULSE,
    SAMPLE,
    L,
    Record,
    Switch,
    frame_ipv6,
)
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from controllers.ampm.watch import Method

FLOW_MON_ID = 0xABCDE
UNMARKED = bytes.fromhex("1204ABCDE000")
COLOURED = bytes.fromhex("1204ABCDE800")  # L = 1, D = 0
PULSED = bytes.fromhex("1204ABCDE400")  # L = 0, D = 1
BOTH = bytes.fromhex("1204ABCDEC00")
OPTION = slice(56, 62)
WRAP = 1 << 48


def switch(role: str, method: Method) -> Switch:
    made = Switch(role, method, flows=0)
    made.watch_ipv6(role, method, flow_mon_id=FLOW_MON_ID)
    return made


@pytest.mark.parametrize(
    ("method", "time_us", "option"),
    [
        (Method.STEP, 4 * L, UNMARKED),
        (Method.STEP, 5 * L - 1, UNMARKED),
        (Method.STEP, 5 * L, COLOURED),
        (Method.STEP, WRAP - 1, COLOURED),
        (Method.STEP, WRAP, UNMARKED),
        (Method.PULSE, 4 * L + L // 2, PULSED),
        (Method.DOUBLE, 4 * L + L // 2, PULSED),
        (Method.DOUBLE, 5 * L + L // 2, BOTH),
        (Method.MULTIPLEXED, 4 * L + L // 2, COLOURED),
        (Method.MULTIPLEXED, 5 * L + L // 2, UNMARKED),
    ],
)
@pytest.mark.parametrize("sent", [UNMARKED, BOTH], ids=["unmarked", "marked by its host"])
def test_marks_are_made_in_place_and_taken_off(
    method: Method, time_us: int, option: bytes, sent: bytes
) -> None:
    data = frame_ipv6(sent)
    assert data[OPTION] == sent
    marked = switch(FIRST, method).pass_on(data, time_us)
    assert marked[OPTION] == option
    assert switch(MIDDLE, method).pass_on(marked, time_us) == marked
    assert switch(LAST, method).pass_on(marked, time_us) == frame_ipv6(UNMARKED)


def test_points_record_an_ipv6_flow_like_any_other() -> None:
    middle = switch(MIDDLE, Method.DOUBLE)
    start_us = 4 * L
    for at, option in ((5, UNMARKED), (L // 2, PULSED), (L // 2 + 9, UNMARKED), (L + 2, UNMARKED)):
        middle.pass_on(frame_ipv6(option), start_us + at)
    middle.pass_on(frame_ipv6(COLOURED), start_us + L + 3)
    arrival, departure = middle.read(BLOCK, 0)
    assert arrival == departure == Record(start_us, (4, 2 * L + 16, start_us + 5))
    assert middle.read(BLOCK, 1)[0] == Record(5 * L, (1, 3, 5 * L + 3))
    assert middle.read(PULSE, 0)[0] == Record(start_us, (1, start_us + L // 2, 2))
    assert (middle.packets(0, 0), middle.packets(0, 1)) == ((4, 4), (1, 1))


def test_hashed_samples_do_not_depend_on_mutable_fields() -> None:
    method = Method.STEP | Method.HASHED
    found = []
    for role, hop_limit, option in ((FIRST, 64, UNMARKED), (LAST, 63, COLOURED)):
        point = switch(role, method)
        for number in range(1, 50):
            point.pass_on(frame_ipv6(option, number, hop_limit=hop_limit), 5 * L + number)
        found.append([point.read(SAMPLE, 8 + place)[0] for place in range(8)])
    assert found[0] == found[1]
    assert len({record.values[2] for record in found[0]}) > 4


OTHERS = {
    "another FlowMonID": frame_ipv6(bytes.fromhex("1204ABCDF000")),
    "another destination": frame_ipv6(UNMARKED, dst="fd00::3"),
    "another option": frame_ipv6(bytes.fromhex("05020000 0100")),
    "an option of another length": frame_ipv6(bytes.fromhex("1203ABCDE000")),
    "no option header": frame_ipv6(UNMARKED)[:20] + b"\x11" + frame_ipv6(UNMARKED)[21:],
    "cut in the option": frame_ipv6(UNMARKED)[:59],
    "cut in the addresses": frame_ipv6(UNMARKED)[:40],
}


@pytest.mark.parametrize("data", OTHERS.values(), ids=OTHERS.keys())
@pytest.mark.parametrize("role", [FIRST, MIDDLE, LAST])
def test_other_ipv6_packets_pass_untouched_and_uncounted(role: str, data: bytes) -> None:
    watching = switch(role, Method.DOUBLE)
    assert watching.pass_on(data, 5 * L + L // 2) == data
    assert watching.packets(0, 1) == (0, 0)


EF, CE = 46, 3


@pytest.mark.parametrize(
    ("method", "dscps"),
    [
        # at the start and in the middle of an even and of an odd block
        (Method.STEP, (EF, EF, EF + 1, EF + 1)),
        (Method.PULSE, (EF - 2, EF, EF - 2, EF)),
        (Method.DOUBLE, (EF - 2, EF, EF - 1, EF + 1)),
        (Method.MULTIPLEXED, (EF, EF + 1, EF + 1, EF)),
    ],
)
def test_packets_without_the_option_are_marked_in_their_dscp(
    method: Method, dscps: tuple[int, ...]
) -> None:
    path = [Switch(role, method, flows=0) for role in (FIRST, MIDDLE, LAST)]
    for role, point in zip((FIRST, MIDDLE, LAST), path, strict=True):
        point.watch_plain_ipv6(role, method, dscp=EF)
    ether = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")
    header = IPv6(src="fd00::1", dst="fd00::2", tc=EF << 2 | CE, fl=0xABCDE)
    data = bytes(ether / header / UDP(sport=1, dport=2) / b"data")
    seen = []
    for time_us in (4 * L, 4 * L + L // 2, 5 * L, 5 * L + L // 2):
        marked = path[0].pass_on(data, time_us)
        found = Ether(marked)[IPv6]
        seen.append(found.tc >> 2)
        found.tc = EF << 2 | CE
        assert bytes(found) == data[14:]
        assert path[1].pass_on(marked, time_us) == marked
        assert path[2].pass_on(marked, time_us) == data
    assert tuple(seen) == dscps
    assert [point.packets(0, colour) for point in path for colour in (0, 1)] == [(2, 2)] * 6


def test_other_protocols_of_ipv6_are_not_marked() -> None:
    first = Switch(FIRST, Method.STEP, flows=0)
    first.watch_plain_ipv6(FIRST, Method.STEP)
    data = bytes(Ether(dst="02:00:00:00:00:02") / IPv6(src="fd00::1", dst="fd00::2", nh=59))
    assert first.pass_on(data, 5 * L) == data
