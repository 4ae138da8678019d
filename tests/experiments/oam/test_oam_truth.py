"""Ground truth in captures: packets with telemetry, times of packets, blocks and probes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrHopByHop, PadN
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from controllers.ampm.records import Point
from controllers.ampm.schedule import Schedule
from experiments.shared.oam import truth
from experiments.shared.oam.incidents import CROSS_SENDER, SENDER
from experiments.shared.oam.truth import (
    ARRIVAL,
    DEPARTURE,
    IPV4,
    IPV6,
    NEVER,
    PROBE_SENT,
    PROBE_TAKEN,
    REPLY_TAKEN,
    HostTraffic,
    MeasuredDelay,
    PointTimes,
)
from telemark.accounting.pcap import Frames
from telemark.apps.icmp import ECHO, PingRecord
from telemark.apps.stamp.sender import SessionRecord
from telemark.traffic.flows import Flow

SIZE = 200
FLOW = Flow(1, SENDER, "h4", 100, 10, SIZE)
CROSS = Flow(2, CROSS_SENDER, "h5", 100, 10, 1000)
IN, OUT = Point("s1", ARRIVAL), Point("s1", DEPARTURE)
INT_BYTES = 40
SCHEDULE = Schedule(2**18)


def frames(*packets: tuple[int, Packet]) -> Frames:
    """Return a capture of packets: time, packet."""
    data = [bytes(packet) for _, packet in packets]
    rows = np.zeros((len(data), 128), np.uint8)
    for row, frame in zip(rows, data, strict=True):
        row[: min(len(frame), 128)] = [*frame[:128]]
    return Frames(
        np.array([at_ns for at_ns, _ in packets], np.uint64),
        np.array([len(frame) for frame in data], np.uint32), rows,
    )  # fmt: skip


def ipv4(
    flow: Flow, number: int, *, source: str = "10.0.0.1", added: int = 0, tos: int = 0
) -> Packet:
    """Return a packet of a flow, with `added` bytes of INT after the UDP header."""
    payload = bytes(added) + flow.id.to_bytes(2, "big") + number.to_bytes(8, "big")
    head = Ether() / IP(src=source, tos=tos) / UDP(sport=9, dport=flow.port)
    return head / Raw(payload.ljust(flow.size - 42 + added, b"\0"))


@pytest.fixture
def captures(monkeypatch: pytest.MonkeyPatch) -> dict[str, Frames]:
    """Captures by name; a missing one is empty."""
    found: dict[str, Frames] = {}
    monkeypatch.setattr(truth.pcap, "read", lambda path: found.get(str(path), frames()))
    return found


class Net:
    """Network with captures SWITCH-NEIGHBOUR-WHAT. The names of inner captures end with `+`."""

    has_panels = False

    @staticmethod
    def capture(switch: str, neighbour: str, what: str, *, inner: bool = False) -> str:
        return f"{switch}-{neighbour}-{what}{'+' * inner}"


def ipv4_traffic() -> HostTraffic:
    addresses = {SENDER: bytes([10, 0, 0, 1]), CROSS_SENDER: bytes([10, 0, 0, 2])}
    return HostTraffic(IPV4, addresses, [FLOW, CROSS])


def test_packets_with_int_headers_keep_port_and_number(captures: dict[str, Frames]) -> None:
    captures["x"] = frames(
        (5, ipv4(FLOW, 7, added=INT_BYTES, tos=4)),
        (6, ipv4(FLOW, 8)),
        (7, ipv4(FLOW, 9, source="10.0.0.3")),
        (8, Ether() / IP(src="10.0.0.1") / UDP(dport=862) / Raw(bytes(44))),
        (9, Ether() / IP(src="10.0.0.1") / ICMP()),
    )
    found = ipv4_traffic().read(Path("x"))
    assert found.key.tolist() == [FLOW.port << 32 | 7, FLOW.port << 32 | 8]
    assert (found.time_ns.tolist(), found.dscp.tolist()) == ([5, 6], [1, 0])
    assert found.bytes == 2 * SIZE
    assert found.total_bytes == 3 * SIZE + INT_BYTES + 86 + 42


def test_packets_with_ioam_options_keep_port_and_number(captures: dict[str, Frames]) -> None:
    head = Ether() / IPv6(src="fd00:1::1")
    options = IPv6ExtHdrHopByHop(options=[PadN(optdata=bytes(20))])
    datagram = UDP(dport=FLOW.port) / Raw((7).to_bytes(4, "big").ljust(SIZE - 62, b"\0"))
    captures["x"] = frames((5, head / options / datagram), (6, head / datagram))
    addresses = {SENDER: bytes.fromhex("fd00 0001") + bytes(11) + b"\1"}
    found = HostTraffic(IPV6, addresses, [FLOW]).read(Path("x"))
    assert found.key.tolist() == [FLOW.port << 32 | 7] * 2


@pytest.fixture
def fabric(captures: dict[str, Frames]) -> dict[str, Frames]:
    """Captures of three packets: over s3, over s4, and lost on the link to s4.

    The first packet belongs to block 0, the others to block 1, and their marks show this.
    """
    schedule_ns = SCHEDULE.block_us * 1000
    at = [schedule_ns - 5000, schedule_ns, schedule_ns + 9000]

    def seen(added_ns: int, *numbers: int) -> Frames:
        return frames(*((at[n] + added_ns, ipv4(FLOW, n, tos=4 * (n > 0))) for n in numbers))

    captures |= {
        "s1-h1-in": seen(0, 0, 1, 2), "s1-s3-out": seen(1000, 0), "s1-s4-out": seen(1000, 1, 2),
        "s3-s1-in": seen(2000, 0), "s4-s1-in": seen(2000, 1), "s3-s2-out": seen(3000, 0),
        "s4-s2-out": seen(3000, 1), "s2-s3-in": seen(4000, 0), "s2-s4-in": seen(4000, 1),
        "s2-h4-out": seen(7000, 0, 1),
    }  # fmt: skip
    return captures


def test_data_packets_have_delays_spines_and_blocks(fabric: dict[str, Frames]) -> None:
    net: Any = Net()
    found, point_times = truth.read_truth(net, ipv4_traffic(), {}, SCHEDULE)
    assert found.delay_ns.tolist() == [7000, 7000, NEVER]
    assert found.lost.tolist() == [False, False, True]
    low, high = point_times.bounds([Point("s3", ARRIVAL), Point("s4", ARRIVAL)])
    assert (low - found.sent_ns)[:2].tolist() == [2000, 2000]
    assert low[2] == high[2] == NEVER
    assert point_times.block is not None
    assert point_times.block.tolist() == [0, 1, 1]
    assert truth.read_spines(point_times) == {FLOW.port: "s3"}


@pytest.fixture
def bmv2_fabric(fabric: dict[str, Frames]) -> dict[str, Frames]:
    """Captures as in fabric(), and the same captures between panels and bmv2."""
    for name in [*fabric]:
        switch, neighbour, what = name.split("-")
        other = {"in": "out", "out": "in"}[what]
        fabric[f"{switch}-{neighbour}-{other}+"] = fabric[name]
    return fabric


def read_bmv2_truth() -> tuple[truth.Truth, PointTimes]:
    """Return ground truth of switches whose clocks have an error of 8 us."""
    net: Any = Net()
    net.has_panels = True
    errors_us = dict.fromkeys(("s1", "s2", "s3", "s4"), 8.0)
    return truth.read_truth(net, ipv4_traffic(), errors_us, SCHEDULE)


@pytest.mark.usefixtures("bmv2_fabric")
def test_on_bmv2_times_are_between_the_captures_around_bmv2() -> None:
    found, point_times = read_bmv2_truth()
    low, high = point_times.times[IN]
    assert (low - found.sent_ns).tolist() == [-8000] * 3
    assert (high - found.sent_ns).tolist() == [9000] * 3
    assert point_times.block is not None
    assert point_times.block.tolist() == [0, 1, 1], "the mark decides"


def test_on_bmv2_a_packet_that_one_capture_lacks_matches_nothing(
    bmv2_fabric: dict[str, Frames],
) -> None:
    before, spine = read_bmv2_truth()[1], Point("s3", ARRIVAL)
    start_ns, end_ns = (int(before.times[point][0][0]) for point in (OUT, spine))
    seen = MeasuredDelay(FLOW.port, (OUT,), start_ns, (spine,), end_ns)
    assert before.match(seen).tolist() == [0]
    del bmv2_fabric["s1-h1-out+"]
    assert not len(read_bmv2_truth()[1].match(seen))


def point_times(*, low: tuple[int, int] = (100_000, 105_000), wide: int = 0) -> PointTimes:
    """Return one packet at two points, and one that reached only the first point."""
    starts, ends = np.array([low[0], low[0]]), np.array([low[1], NEVER])
    return PointTimes(
        np.array([5001, 5001]), {IN: (starts, starts + wide), OUT: (ends, ends + wide)},
        np.array([4, 5]),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("times", "wide", "matched"),
    [
        ((100_000, 105_000), 0, [0]),
        ((99_000, 106_000), 0, [0]),
        ((98_999, 105_000), 0, []),
        ((100_000, 106_001), 0, []),
        ((100_000, 106_001), 2000, [0]),
    ],
)
def test_a_packet_matches_within_the_bounds_and_the_resolution(
    times: tuple[int, int], wide: int, matched: list[int]
) -> None:
    seen = MeasuredDelay(5001, (IN,), times[0], (OUT,), times[1])
    assert point_times(wide=wide).match(seen).tolist() == matched


def test_a_mean_matches_the_mean_of_its_block() -> None:
    starts, ends = np.array([0, 10_000, 90_000]), np.array([30_000, 60_000, 91_000])
    known = PointTimes(
        np.array([1, 2, 2]), {IN: (starts, starts), OUT: (ends, ends)}, np.array([4, 4, 5])
    )
    seen = MeasuredDelay(None, (IN,), 5000, (OUT,), 45_000, block=4)
    assert known.match(seen).tolist() == [0, 1]
    assert not len(known.match(seen._replace(end_ns=47_000)))
    assert not len(known.match(seen._replace(block=5)))
    assert known.match(seen._replace(flow=2, start_ns=10_000, end_ns=60_000)).tolist() == [1]
    assert not len(known.match(seen._replace(block=6)))


def test_probes_are_matched_from_the_record_of_the_sender_to_the_send_call(
    captures: dict[str, Frames],
) -> None:
    def test_packet(number: int) -> Packet:
        return (Ether() / IP() / UDP(sport=40_000, dport=862)
                / Raw(number.to_bytes(4, "big") + bytes(40)))  # fmt: skip

    captures |= {
        "s1-h1-in": frames((2000, test_packet(0)), (9000, test_packet(1))),
        "s1-s3-out": frames((3000, test_packet(0))),
        "s2-h4-out": frames((50_000, test_packet(0))),
        "s2-h4-sent": frames((52_000, test_packet(0))),
    }
    unused: Any = None
    record = SessionRecord(np.array([1000, 8000]), unused, (), 44, True, 0, {})
    net: Any = Net()
    found = truth.read_probes(net, {40_000: record}, stamped=True)
    seen = MeasuredDelay(40_000, (PROBE_SENT,), 1000, (PROBE_TAKEN,), 51_500)
    assert found.match(seen).tolist() == [0]
    assert (found.crossed(seen, "s3"), found.crossed(seen, "s4")) == (True, False)
    assert not len(found.match(seen._replace(end_ns=61_000)))
    assert not len(truth.read_probes(net, {40_000: record}, stamped=False).match(seen))


def test_pings_are_matched_until_the_reply_is_back(captures: dict[str, Frames]) -> None:
    request = Ether() / IP() / ICMP(type=8, id=1, seq=0)
    reply = Ether() / IP() / ICMP(type=0, id=1, seq=0)
    captures |= {
        "s1-h1-in": frames((2000, request)), "s1-h1-out": frames((70_000, reply)),
        "s1-s4-out": frames((3000, request)),
    }  # fmt: skip
    net: Any = Net()
    record = PingRecord(np.array([1000]), np.zeros(0, ECHO), 84)
    found = truth.read_probes(net, {1: record}, stamped=False)
    seen = MeasuredDelay(1, (PROBE_SENT,), 1000, (REPLY_TAKEN,), 70_000)
    assert found.crossed(seen, "s4")
    assert not len(found.match(seen._replace(end_ns=80_000)))
