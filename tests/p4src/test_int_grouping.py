"""Several reports per packet: the packets contain all reports of a switch, unchanged."""

import os
import random
import struct
from collections.abc import Sequence

import pytest
from forwarder import check_ipv4_checksum
from int_layers import LATENCY, LEVEL_1, NODE, QUEUE, Group
from int_path import (
    CPU_PORT,
    HOST_MAC,
    IN,
    OUT,
    SESSION,
    TO_COLLECTOR,
    Switch,
    insides,
    parse_report,
    tcp,
    udp,
)
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

NODE_ID, EGRESS_PART, INGRESS_PART = 3, 0, 1
FOR_EVER = (1 << 48) - 1
OUTER_BYTES, GROUP_BYTES = 42, 8
FLUSH = 0xFFFF
IS_BMV2 = os.environ.get("P4_SWITCH") == "simple_switch"
# max words of reports per packet: packets can grow by 512 bytes on bmv2, by 1,024 on minip4
ROOM = 63 if IS_BMV2 else 240


class Grouping(Switch):
    """A switch that sends groups of reports. It is a sink, and reports all flows."""

    def __init__(
        self, reports: int, *, room: int = ROOM, wait_us: int = FOR_EVER,
        program: str = "grouped.p4",
    ) -> None:  # fmt: skip
        super().__init__(NODE_ID, outside=[OUT], program=program)
        self.report_all()
        self.watch("export_data", [LEVEL_1 | LATENCY, 0xFFFFFFFF])
        if program == "grouped.p4":
            gather = "GroupedIngress.gather"
            parameters = [NODE_ID, reports, room, wait_us, TO_COLLECTOR]
            self.engine.table_set_default(f"{gather}.grouping", f"{gather}.gather", parameters)
            self.engine.mirror_set(SESSION, [(CPU_PORT, 0)])

    def reported(self, frame: bytes, time_us: int = 0, port: int = IN) -> list[bytes]:
        """Return the packets that the collector gets when this frame arrives."""
        return [out for to, out in self.send(frame, time_us, port) if to == TO_COLLECTOR]

    def flush(self, part: int, time_us: int = 0) -> list[bytes]:
        """Return the packets that the switch sends for a flush request.

        After its header, this request has a number, like a readout request.
        """
        out = self.send(struct.pack("!HI", FLUSH, part) + b"number 7", time_us, CPU_PORT)
        assert {port for port, _ in out} <= {TO_COLLECTOR}
        return [frame for _, frame in out]


class Alone(Grouping):
    """A switch like Grouping that sends one report per packet."""

    def __init__(self) -> None:
        super().__init__(1, program="int.p4")


def split_reports(frame: bytes) -> tuple[Group, list[bytes]]:
    """Return the group header of a packet, and each of its reports.

    Assert that the outer headers are correct.
    """
    packet = Ether(frame)
    assert packet[IP].len == len(frame) - 14
    assert packet[UDP].len == len(frame) - 34
    check_ipv4_checksum(packet)
    rest = frame[OUTER_BYTES + GROUP_BYTES :]
    reports = []
    while rest:
        end = len(rest) if rest[1] == 255 else 4 + 4 * rest[1]
        reports.append(rest[:end])
        assert len(reports[-1]) == end
        rest = rest[end:]
    return Group(frame[OUTER_BYTES:][:GROUP_BYTES]), reports


def alone(frames: Sequence[bytes]) -> list[bytes]:
    """Return the reports about these frames by a switch without groups."""
    switch = Alone()
    found = [split_reports(each) for frame in frames for each in switch.reported(frame)]
    assert all(len(reports) == 1 for _, reports in found)
    return [reports[0] for _, reports in found]


def test_three_reports_a_packet() -> None:
    switch = Grouping(3)
    frames = [udp(ip_id=number) for number in range(1, 7)]
    sent = [switch.reported(frame) for frame in frames]
    assert [len(each) for each in sent] == [0, 0, 1, 0, 0, 1]
    for number, first in enumerate((0, 3)):
        group, reports = split_reports(sent[first + 2][0])
        assert (group.version, group.hw_id, group.sequence, group.node) == (2, 0, number, NODE_ID)
        assert reports == alone(frames[first : first + 3])


@pytest.mark.parametrize("most", [1, 2, 5, 8])
def test_grouped_reports_are_equal_to_single_reports(most: int) -> None:
    """Reports in groups equal the reports of a switch that sends one report per packet.

    Some frames carry INT-MD stacks. The others carry no INT and are reported by INT-XD; reports on
    UDP without IP identification also contain payload. Frames are TCP and UDP, over IPv4 and IPv6.
    """
    rng = random.Random(most)
    kinds = [*insides(), tcp(), udp(), udp(ip_id=0, payload=bytes(30)), tcp(options=[])]
    frames = [rng.choice(kinds) for _ in range(60)]
    switch = Grouping(most)
    packets = [each for frame in frames for each in switch.reported(frame)]
    packets += switch.flush(EGRESS_PART)
    groups = [split_reports(each) for each in packets]
    assert [group.sequence for group, _ in groups] == [*range(len(groups))]
    assert [report for _, reports in groups for report in reports] == alone(frames)
    counts = {len(reports) for _, reports in groups[:-1]}
    assert max(counts) == most or IS_BMV2
    assert len({len(report) for _, reports in groups for report in reports}) > 5


def test_a_group_ends_where_one_more_has_no_room() -> None:
    """A group has two reports of 12 words, because a third one does not fit into its 35 words."""
    switch = Grouping(8, room=24 + 11)
    frames = [udp(ip_id=number) for number in range(1, 6)]
    assert {len(each) for each in alone(frames)} == {4 * 12}
    assert [len(switch.reported(frame)) for frame in frames] == [0, 0, 1, 0, 0]


def test_the_first_one_waits_for_so_long() -> None:
    """A group is sent when a report arrives at least 1,000 us after the first report of the group.

    No report is sent earlier, because a switch has no timer.
    """
    switch = Grouping(8, wait_us=1000)
    times_us = (100, 900, 1099, 1100, 1101, 2100, 2101)
    assert [len(switch.reported(udp(), at_us)) for at_us in times_us] == [0, 0, 0, 1, 0, 0, 1]


def test_a_packet_out_flushes_waiting_reports() -> None:
    switch = Grouping(8)
    assert switch.flush(EGRESS_PART) == []
    frames = [udp(ip_id=1), udp(ip_id=2)]
    assert [switch.reported(frame) for frame in frames] == [[], []]
    assert switch.flush(INGRESS_PART) == []
    group, reports = split_reports(switch.flush(EGRESS_PART)[0])
    assert (group.sequence, group.hw_id, group.node) == (0, 0, NODE_ID)
    assert reports == alone(frames)
    assert switch.flush(EGRESS_PART) == []
    assert switch.reported(udp()) == []


def test_drops_are_groups_of_their_own() -> None:
    switch = Grouping(2)
    drops = f"{switch.ingress}.arriving_drops"
    switch.engine.table_set_default(f"{drops}.drop_reports", f"{drops}.report_drops", [LEVEL_1])
    nowhere = udp(ip_id=9).replace(HOST_MAC.to_bytes(6, "big"), bytes.fromhex("020000000077"))
    assert switch.reported(udp()) == switch.reported(nowhere) == []
    group, reports = split_reports(switch.reported(nowhere)[0])
    assert (group.hw_id, group.sequence, len(reports)) == (1, 0, 2)
    assert {report[3] for report in reports} == {0xA0}  # flags: dropped, and of a watched flow
    group, reports = split_reports(switch.reported(udp())[0])
    assert (group.hw_id, group.sequence, len(reports)) == (0, 0, 2)
    assert {report[3] for report in reports} == {0x20}


def test_a_report_that_is_too_long_to_wait_goes_by_itself() -> None:
    """A report that is too long to wait is sent alone, immediately. Other reports continue to wait.

    In this test, it has INT data of 5 hops with 12 words each.
    """
    source = Switch(1, outside=[IN], mtu=9000)
    source.embed_data(0xFF80, 8)
    inside = source.pass_on(udp())
    for node in range(2, 6):
        inside = Switch(node, mtu=9000).pass_on(inside)
    switch = Grouping(3)
    assert switch.reported(udp()) == []
    group, reports = split_reports(switch.reported(inside)[0])
    assert (group.sequence, reports) == (0, alone([inside]))
    assert len(reports[0]) > 4 * 63
    assert switch.reported(udp()) == []
    group, reports = split_reports(switch.reported(udp())[0])
    assert (group.sequence, reports) == (1, alone(3 * [udp()]))


def test_a_report_that_never_came_back_leaves_a_gap() -> None:
    """If 5 numbered reports get lost in the switch, the sequence numbers of groups have a gap.

    The gap is as large as if the same reports were lost without grouping.
    """
    switch = Grouping(2)
    switch.reported(udp())
    switch.engine.register_write(f"{switch.egress}.packet.number.numbers", 0, 6)
    group, reports = split_reports(switch.reported(udp())[0])
    assert (group.sequence, len(reports)) == (5, 2)
    switch.reported(udp())
    assert split_reports(switch.reported(udp())[0])[0].sequence == 6


def test_reports_go_by_themselves_where_their_session_leads_to_the_collector() -> None:
    switch, other = Grouping(3), Alone()
    switch.engine.mirror_set(SESSION, [(TO_COLLECTOR, 0)])
    for frame in (*insides(), udp(), tcp()):
        assert switch.send(frame) == other.send(frame)


def test_readouts_are_answered_as_before() -> None:
    switch = Grouping(3)
    ((port, answer),) = switch.send(bytes(6) + b"number 7", 1234, CPU_PORT)
    assert (port, answer[:12]) == (CPU_PORT, bytes(6) + (1234).to_bytes(6, "big"))


@pytest.mark.skipif(IS_BMV2, reason="bmv2 has no room for so many")
def test_more_reports_than_there_are_cells_are_not_waited_for() -> None:
    switch = Grouping(255)
    counts = [len(switch.reported(udp())) for _ in range(16)]
    assert counts == 2 * [*7 * [0], 1]


def test_one_report_a_group_has_the_same_headers() -> None:
    """A group with only one report has the headers of a report that is not in a group.

    parse_report() asserts that its headers are correct.
    """
    report = parse_report(Grouping(1).reported(udp())[0])
    assert (report.group.node, report.metadata[LEVEL_1]) == (NODE_ID, IN << 16 | OUT)
    assert report.head.bits & (NODE | QUEUE) == 0
