"""Packets that a full queue drops: those of a watched flow are reported, and no others."""

import os

import pytest
from int_layers import INGRESS, LAST, LEVEL_1, LEVEL_2, NODE, QUEUE, Report
from int_path import ALL, IN, OUT, TO_COLLECTOR, Switch, parse_int, parse_report, tcp, udp
from int_queue import DEPTH, crowded, inject

from minip4.engine.engine import Engine

pytestmark = pytest.mark.skipif("P4_SWITCH" in os.environ, reason="bmv2 deflects nothing")

QUEUES = 2  # hw_id of reports on drops by queues
EGRESS = "IntEgress.departure"


def reports(left: list[tuple[int, bytes]]) -> list[Report]:
    return [parse_report(frame) for port, frame in left if port == TO_COLLECTOR]


def flows(*, watched: int, others: int) -> list[bytes]:
    """Return packets of the watched flow (to port 5000), interleaved with those of another flow."""
    frames = []
    for number in range(max(watched, others)):
        frames += [udp(ip_id=1 + number)] * (number < watched)
        frames += [udp(ip_id=1 + number, dport=5001)] * (number < others)
    return frames


@pytest.mark.parametrize("data", [udp(), tcp(), udp(version=6)], ids=["UDP", "TCP", "IPv6"])
def test_a_drop_report_has_the_queue_and_the_ports(data: bytes) -> None:
    switch = crowded(Switch(7))
    switch.watch("watch_drops", [], version=data[14] >> 4)
    left = inject(switch, [data] * 4)
    [report] = reports(left)
    assert (report.group.hw_id, report.group.sequence, report.group.node) == (QUEUES, 0, 7)
    assert (report.head.dropped, report.head.congested, report.head.flow) == (1, 0, 1)
    assert report.metadata == {
        LEVEL_1: IN << 16 | OUT, QUEUE: DEPTH, INGRESS: 5000, LAST: 71 << 16,
    }  # fmt: skip
    assert data[14:].startswith(report.fragment)
    assert [frame for port, frame in left if port == OUT] == [data] * 3


def test_each_drop_of_a_watched_flow_is_reported_once() -> None:
    switch = crowded(Switch(1))
    switch.watch("export_data", [NODE, ALL], dst_port=5000)
    sent = flows(watched=30, others=30)
    left = inject(switch, sent)
    passed = [frame for port, frame in left if port == OUT]
    watched = [frame for frame in sent if frame[37] == 5000 & 255]
    told = reports(left)
    assert sorted(r.fragment[4:6] for r in told) == sorted(
        frame[18:20] for frame in watched if frame not in passed
    )
    assert [r.group.sequence for r in told] == list(range(len(told)))
    assert len(told) > 20
    assert switch.engine.drops()[str(OUT)]["queue"] == len(sent) - len(passed)


def test_a_report_that_is_lost_itself_leaves_a_gap() -> None:
    switch = crowded(Switch(1))
    switch.watch("watch_drops", [])
    assert isinstance(switch.engine, Engine)
    switch.engine.set_queue(TO_COLLECTOR, 0, depth_packets=1, rate_pps=1)
    left = inject(switch, flows(watched=10, others=0))
    numbers = [report.group.sequence for report in reports(left)]
    assert numbers == [0, 1]
    register = f"{EGRESS}.deflected.queue_drops.number.numbers"
    assert switch.engine.register_read(register, 0) == 10 - 3


def test_a_packet_with_int_is_reported_as_it_came() -> None:
    source = Switch(9, outside=[IN])
    source.embed_data(NODE | QUEUE)
    inside = source.pass_on(udp())
    sink = crowded(Switch(1, outside=[OUT]))
    [report] = reports(inject(sink, [inside] * 4))
    assert report.fragment == inside[14 : -len("payload!")]
    assert parse_int(inside).stack == (9, 0)


@pytest.mark.parametrize("wanted", [0, 0xFFFF])
def test_a_report_has_the_known_metadata(wanted: int) -> None:
    switch = crowded(Switch(1), wanted=wanted)
    switch.watch("watch_drops", [])
    [report] = reports(inject(switch, [udp()] * 4))
    assert report.head.bits == LAST | wanted & (LEVEL_1 | QUEUE | INGRESS | LEVEL_2)
