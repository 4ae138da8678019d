"""Damaged or hostile frames are forwarded or dropped, and all reports are well formed."""

import random

import int_headers
import pytest
from forwarder import damaged
from int_layers import LEVEL_1, NODE, QUEUE
from int_path import (
    ALL,
    IN,
    OUT,
    TO_COLLECTOR,
    Switch,
    insides,
    parse_report,
    tcp,
    udp,
)

from minip4.engine.keys import Exact

ROUNDS = 60


def everything(outside: list[int]) -> Switch:
    """Return a switch that watches and reports all packets."""
    switch = Switch(3, outside=outside)
    switch.report_all()
    for version in (4, 6):
        switch.watch("export_data", [NODE | LEVEL_1, ALL], version=version)
    drops, queues = "IntIngress.arrival.arriving_drops", "IntEgress.departure.packet.queue_reports"
    switch.engine.table_set_default(f"{drops}.drop_reports", f"{drops}.report_drops", [LEVEL_1])
    switch.engine.table_add(f"{queues}.queue_reports", [Exact(OUT)], f"{queues}.report_queue",
                            [0, 0, 1 << 31, QUEUE])  # fmt: skip
    return switch


@pytest.mark.parametrize("outside", [[], [OUT], [IN, OUT]], ids=["transit", "sink", "both"])
def test_damaged_frames_do_no_harm(outside: list[int]) -> None:
    switch, rng, reports = everything(outside), random.Random(1), 0
    for frame in insides():
        for _ in range(ROUNDS):
            for port, out in switch.send(damaged(frame, rng)):
                if port == TO_COLLECTOR:
                    parse_report(out)
                    reports += 1
                else:
                    assert port == OUT
                    assert len(out) >= 14
    assert reports > 300


def test_hostile_headers_are_treated_as_specified_and_counted() -> None:
    transit, sink = int_headers.fuzz(seed=1, count=800)
    assert min(transit.values()) > 10, transit
    assert set(transit) == {"nothing", "malformed", "hops", "mtu", "not understood"}
    assert min(sink.values()) > 100, sink


@pytest.mark.parametrize(
    "came",
    [
        udp(ip_options=[b"\x07\x0b\x08" + bytes(8)])[: 14 + 24],
        tcp()[: 14 + 20 + 24],
        udp()[: 14 + 10],
        udp()[:14],
        b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\x06" + bytes(28),
    ],
    ids=["IP options cut", "TCP options cut", "IP header cut", "no IP header", "ARP"],
)
def test_packets_with_incomplete_headers_are_not_reported(came: bytes) -> None:
    assert everything([]).pass_on(came) == came
