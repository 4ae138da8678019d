"""An INT sink that writes records of paths: which packets have a record, and which a report.

Other tests use damaged packets.
"""

import random

import pytest
from forwarder import damaged
from int_path import (
    DSCP,
    NEW_UDP,
    OUT,
    PORT,
    PROBE,
    TO_COLLECTOR,
    Switch,
    insides,
    tcp,
    udp,
)
from int_path import parse_report as report_of
from path_sink import ALL, SLOTS, Sink, path, pushed
from roce_path import BASE, SWITCH_QPN, VERSIONS, Session, answer, nak, parse_request, slot_of

from collectors.roce.endpoint import gid
from collectors.roce.packets import BTH, RETH, ImmDt
from collectors.roce.region import ABSENT, PATH
from minip4.engine.keys import Exact

M, E, QUEUE_WAS_FULL = 1, 2, 4  # flags in a record


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize(
    ("make", "mark"),
    [(udp, DSCP), (udp, PORT), (udp, NEW_UDP), (udp, PROBE), (tcp, DSCP), (tcp, NEW_UDP),
     (tcp, PROBE)],
)  # fmt: skip
def test_a_record_of_a_packet_that_leaves_as_it_came(make: object, mark: int, version: int) -> None:
    frame = make(version=version)  # type: ignore[operator]
    out, record = Sink().record(pushed(frame, 3, 4, mark=mark), 9000)
    assert out == frame
    found = path(record)
    ends = ("10.0.0.1", "10.0.0.2") if version == 4 else ("fd00::1", "fd00::2")
    flow = found["flow"]
    assert (bytes(flow["source"]), bytes(flow["destination"])) == tuple(map(gid, ends))
    assert (flow["source_port"], flow["destination_port"]) == (4000, 5000)
    is_known = make is tcp and mark != NEW_UDP
    assert (flow["sequence"] != 0) == is_known
    assert (found["hops"], found["flags"]) == (2, 0)
    assert [*found["stack"]["node"]] == [4, 3, ABSENT, ABSENT, ABSENT]
    assert [*found["stack"]["ingress_us"][:2]] == [4000, 1000]
    assert (found["sink"]["node"], found["sink"]["ingress_us"]) == (9, 9000)


@pytest.mark.parametrize("version", VERSIONS)
def test_records_fill_the_ring_and_go_on_where_the_collector_says(version: str) -> None:
    sink = Sink(Session(**{**vars(ALL), "version": version, "immediate_mask": 1, "ack_mask": 3}))
    frame = pushed(udp(), 3)
    records = [sink.record(frame)[1] for _ in range(SLOTS + 2)]
    assert [slot_of(each, PATH.itemsize) for each in records] == [*range(SLOTS), 0, 1]
    assert [each[RETH].length for each in records] == [PATH.itemsize] * len(records)
    assert [ImmDt in each for each in records] == [False, True] * (len(records) // 2)
    assert sink.send(nak(3, version=version), port=TO_COLLECTOR) == []
    record = sink.record(frame)[1]
    assert (record[BTH].psn, slot_of(record, PATH.itemsize)) == (3, 3)


def test_a_probe_follows_unanswered_records() -> None:
    sink = Sink(Session(**{**vars(ALL), "patience": 2}))
    frame = pushed(udp(), 3)
    sink.record(frame)
    probe, record = sorted((out for port, out in sink.send(frame) if port != OUT), key=len)
    assert path(parse_request(record))["hops"] == 1
    assert (parse_request(probe)[RETH].length, len(parse_request(probe)[RETH].payload)) == (0, 0)


def test_congestion_is_flagged_in_the_record() -> None:
    sink = Sink()
    sink.report_queue()
    frame = pushed(udp(), 3)
    assert [path(sink.record(frame)[1])["flags"] for _ in range(2)] == [QUEUE_WAS_FULL, 0]


def test_packets_in_transit_are_reported() -> None:
    switch = Sink(outside=())
    switch.report_queue()
    assert switch.report(pushed(udp(), 3))[1].group.node == 9


def test_missing_hops_are_reported() -> None:
    found = path(Sink().record(pushed(udp(), 3, 4, 5, hops=2))[1])
    assert (found["hops"], found["flags"]) == (2, E)
    assert [*found["stack"]["node"][:3]] == [4, 3, ABSENT]
    small = Switch(4, mtu=100)
    found = path(Sink().record(small.pass_on(pushed(udp(), 3)))[1])
    assert (found["hops"], found["flags"]) == (1, M)


def test_of_a_long_path_there_are_the_newest_hops() -> None:
    found = path(Sink().record(pushed(udp(), *range(1, 9)))[1])
    assert found["hops"] == 8
    assert [*found["stack"]["node"]] == [8, 7, 6, 5, 4]


@pytest.mark.parametrize("instructions", [0xF800, 0xFD00, 0xFC01, 0x8000])
def test_packets_that_do_not_fit_a_record_are_reported(instructions: int) -> None:
    """The sink sends an INT report for a packet whose INT data do not fit a record.

    Records leave no gap in the sequence numbers of reports.
    """
    sink, known = Sink(), pushed(udp(), 3)
    other = pushed(udp(), 3, instructions=instructions)
    sink.record(known)
    for number in range(2):
        out, report = sink.report(other)
        assert out == udp()
        assert report.group.sequence == number
        sink.record(known)


@pytest.mark.parametrize(
    ("at", "value"),
    [(42, 0x30), (43, 3 + 9), (48, 7), (55, 1)],
    ids=["INT-MX", "words left over", "Hop ML of others", "instructions of a domain"],
)
def test_a_stack_of_another_kind_is_reported(at: int, value: int) -> None:
    frame = bytearray(pushed(udp(payload=bytes(40)), 3))
    frame[at] = value
    sent = [out for port, out in Sink().send(bytes(frame)) if port == TO_COLLECTOR]
    assert [report_of(out).group.node for out in sent] == [9]


def test_unrecorded_flows_are_reported() -> None:
    """A packet of a flow without a record has an INT report, for all marks of INT.

    The sink compares the packet's original port with its list of flows.
    """
    for mark in (DSCP, PORT, NEW_UDP):
        sink = Sink(dst_port=5001)
        assert sink.report(pushed(udp(), 3, mark=mark))[1].group.sequence == 0
        assert path(sink.record(pushed(udp(dport=5001), 3, mark=mark))[1])["hops"] == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_responses_to_other_requesters_are_forwarded(version: str) -> None:
    sink, other = Sink(), answer(1, qpn=SWITCH_QPN + 1, version=version)
    forward = "SinkIngress.arrival.forward"
    sink.engine.table_add(f"{forward}.forwarding", [Exact(0x0200000000FF)], f"{forward}.forward",
                          [OUT])  # fmt: skip
    assert sink.send(other, port=TO_COLLECTOR) == [(OUT, other)]


def test_damaged_frames_do_no_harm() -> None:
    """For damaged frames, all reports are well formed, and all records are within the region."""
    sink, rng, records, reports = Sink(), random.Random(1), 0, 0
    for frame in [*insides(), *(pushed(udp(), *range(1, n)) for n in range(2, 8))]:
        for _ in range(40):
            for port, out in sink.send(damaged(frame, rng)):
                if port != TO_COLLECTOR:
                    assert port == OUT
                elif out[36:38] == (4791).to_bytes(2, "big"):
                    packet = parse_request(out)
                    records += 1
                    assert packet[RETH].length == PATH.itemsize
                    assert 0 <= packet[RETH].va - BASE <= (SLOTS - 1) * PATH.itemsize
                else:
                    report_of(out)
                    reports += 1
    assert records > 50
    assert reports > 100
