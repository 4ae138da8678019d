"""Which packets are reported: changes of a flow, full queues up to a quota, drops with reasons."""

import pytest
from int_layers import INGRESS, LAST, LATENCY, LEVEL_1, LEVEL_2, NODE, QUEUE, Report
from int_path import (
    ALL,
    COLLECTOR,
    ETHER,
    IN,
    OUT,
    REPORT_PORT,
    TO_COLLECTOR,
    Switch,
    parse_int,
    parse_report,
    tcp,
    udp,
)
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from minip4.engine.keys import Exact, Lpm, Ternary

DROPPED = (1, 0, 1)  # the flags D, Q and F
EGRESS = "IntEgress.departure.packet"


def flags(report: Report) -> tuple[int, int, int]:
    return report.head.dropped, report.head.congested, report.head.flow


def exporter(latency_mask: int = 0, time_mask: int = 0) -> Switch:
    """Return an INT-XD switch that reports changes of all flows."""
    switch = Switch(1)
    switch.watch("export_data", [NODE | LATENCY, ALL])
    reports = f"{EGRESS}.flow_reports"
    switch.engine.table_set_default(
        f"{reports}.flow_reports", f"{reports}.report_changes", [latency_mask, time_mask]
    )
    return switch


def test_a_flow_is_reported_when_something_is_new() -> None:
    switch = exporter()
    switch.engine.table_add(
        "IntIngress.arrival.forward.forwarding", [Exact(0x020000000004)],
        "IntIngress.arrival.forward.forward", [IN],
    )  # fmt: skip
    elsewhere = b"\x02\0\0\0\0\x04" + udp()[6:]
    frames = [udp(), udp(), udp(dport=5001), udp(), elsewhere, elsewhere, udp(), tcp()]
    assert [len(switch.send(frame)) for frame in frames] == [2, 1, 2, 1, 2, 1, 2, 2]


def test_a_flow_is_reported_once_a_period() -> None:
    switch = exporter(time_mask=~((1 << 20) - 1) & ((1 << 48) - 1))
    times_us = [0, 1000, (1 << 20) - 1, 1 << 20, (1 << 20) + 5, 5 << 20]
    assert [len(switch.send(udp(), t)) for t in times_us] == [2, 1, 1, 2, 1, 2]


def test_an_int_flow_is_reported_when_another_number_of_switches_pushed() -> None:
    sink = Switch(3, outside=[OUT])
    reports = f"{EGRESS}.flow_reports"
    sink.engine.table_set_default(f"{reports}.flow_reports", f"{reports}.report_changes", [0, 0])
    source, transit = Switch(1, outside=[IN]), Switch(2)
    source.embed_data(NODE)
    short = source.pass_on(udp())
    long = transit.pass_on(short)
    assert [len(sink.send(f)) for f in (short, short, long, long, short)] == [2, 1, 2, 1, 2]


def queue_reports(full: int, calm: int, quota: int, wanted: int = LEVEL_1 | QUEUE) -> Switch:
    switch = Switch(1)
    switch.engine.table_add(
        f"{EGRESS}.queue_reports.queue_reports", [Exact(OUT)],
        f"{EGRESS}.queue_reports.report_queue", [full, calm, quota, wanted],
    )  # fmt: skip
    return switch


def test_an_empty_queue_is_not_reported() -> None:
    assert len(queue_reports(1, 1, 5).send(udp())) == 1


def test_a_full_queue_is_reported_up_to_the_quota() -> None:
    """Of five packets that find the queue full, only the first three are reported: the quota.

    With `full` 0, each packet finds the queue full. With `calm` 0, no packet finds the queue empty
    again.
    """
    switch = queue_reports(0, 0, 3)
    left = [switch.send(udp()) for _ in range(5)]
    assert [len(frames) for frames in left] == [2, 2, 2, 1, 1]
    report = parse_report(left[1][1][1])
    assert flags(report) == (0, 1, 0)
    assert report.metadata == {LEVEL_1: IN << 16 | OUT, QUEUE: 0}
    assert report.fragment == udp()[14:42]


def drop_reports(*, watched: bool = True, wanted: int = LEVEL_1 | INGRESS) -> Switch:
    """Return a switch that reports drops.

    The switch drops UDP to port 5009, and routes only to 10.0.0.0/8.
    """
    switch = Switch(1)
    if watched:
        switch.watch("watch_drops", [])
    drops = "IntIngress.arrival.arriving_drops"
    switch.engine.table_set_default(f"{drops}.drop_reports", f"{drops}.report_drops", [wanted])
    switch.engine.table_add(
        "IntIngress.arrival.forward.access_list",
        [*[Ternary(0, 0)] * 4, Ternary(5009, 0xFFFF)], "IntIngress.arrival.forward.deny", [], 1,
    )  # fmt: skip
    switch.engine.table_add(
        "IntIngress.arrival.forward.routing.routes", [Lpm(0x0A000000, 8)],
        "IntIngress.arrival.forward.routing.send", [0x020000000077, OUT],
    )  # fmt: skip
    return switch


def test_only_ipv4_is_denied() -> None:
    switch = drop_reports()
    for data in (udp(version=6, dport=5009), udp(version=4, dport=5010)):
        assert switch.send(data) == [(OUT, data)]


ROUTED = Ether(dst="02:00:00:00:00:99", src="02:00:00:00:00:01")
DROPS = {
    "denied": (udp(dport=5009), 80),
    "no time left": (bytes(ROUTED / IP(src="10.0.0.1", dst="10.0.0.2", ttl=1) / UDP() / b"x"), 26),
    "no route": (bytes(ROUTED / IP(src="10.0.0.1", dst="192.0.2.1") / UDP() / b"x"), 29),
    "no such MAC address": (bytes(ROUTED / IPv6(src="fd00::1", dst="fd00::2") / UDP() / b"x"), 89),
}


@pytest.mark.parametrize(("data", "reason"), DROPS.values(), ids=DROPS.keys())
def test_a_drop_is_reported_with_its_reason(data: bytes, reason: int) -> None:
    switch = drop_reports()
    switch.watch("watch_drops", [], version=6)
    ((port, frame),) = switch.send(data, 5000)
    report = parse_report(frame)
    assert port == TO_COLLECTOR
    assert (report.group.hw_id, report.group.sequence) == (1, 0)
    assert flags(report) == DROPPED
    assert report.metadata == {LEVEL_1: IN << 16, INGRESS: 5000, LAST: reason << 16}
    assert data[14:].startswith(report.fragment)


@pytest.mark.parametrize("wanted", [0, *(1 << n for n in range(16)), 0xFFFF])
def test_a_report_has_the_requested_metadata_that_are_known(wanted: int) -> None:
    """A report has all requested metadata that are known, and no others.

    Buffers and utilization are unknown in reports on queues. Egress metadata are unknown in reports
    on drops.
    """
    for switch, data, known in (
        (queue_reports(0, 0, 1, wanted), udp(), 0x7E00),
        (drop_reports(wanted=wanted), udp(dport=5009), LEVEL_1 | INGRESS | LEVEL_2 | LAST),
    ):
        *_, (_, frame) = switch.send(data)
        always = LAST & known
        assert parse_report(frame).head.bits == always | wanted & known


def test_a_routed_packet_is_not_dropped() -> None:
    data = bytes(ROUTED / IP(src="10.0.0.1", dst="10.0.0.2", ttl=2) / UDP() / b"x")
    out = drop_reports().pass_on(data)
    assert (Ether(out).dst, Ether(out)[IP].ttl) == ("02:00:00:00:00:77", 1)


def test_a_drop_of_an_int_packet_brings_its_stack() -> None:
    source = Switch(9, outside=[IN])
    source.embed_data(NODE | QUEUE)
    inside = source.pass_on(udp(dport=5009))
    ((_, frame),) = drop_reports(watched=False).send(inside)
    report = parse_report(frame)
    assert flags(report) == DROPPED
    assert report.fragment == inside[14 : -len("payload!")]
    assert parse_int(inside).stack == (9, 0)


def test_drops_of_others_are_not_reported() -> None:
    assert drop_reports(watched=False).send(udp(dport=5009)) == []


def test_reports_are_not_reported() -> None:
    switch = Switch(1)
    switch.report_all()
    switch.watch("export_data", [NODE, ALL])
    about = bytes(ETHER / IP(src="10.0.0.1", dst=COLLECTOR) / UDP(dport=REPORT_PORT) / b"report")
    assert len(switch.send(about)) == 1
    assert len(switch.send(about.replace(b"\x7f\xfe", b"\x7f\xfd"))) == 2
