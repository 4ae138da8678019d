"""An INT sink that reports paths by DTA. Some packets have a DTA report, and some an INT report."""

import random
from collections.abc import Sequence
from functools import partial
from ipaddress import IPv4Address
from zlib import crc32

import int_path
import numpy as np
import pytest
from forwarder import damaged
from int_path import (
    ALL,
    DSCP,
    IN,
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
from reporter_path import (
    APPEND,
    DATA,
    KEY_WRITE,
    MOVED,
    NEVER,
    POSTCARD,
    POSTCARDING,
    REPORTER,
    REPORTER_ADDR,
    REPORTER_MAC,
    SESSIONS,
    START,
    TRANSLATOR_ADDR,
    TRANSLATOR_MAC,
    Report,
    nack,
    parse_report,
)

from collectors.dta.int_paths import Flag, decode, encode
from minip4.engine.keys import Exact, Ternary

NODE_ID, LATENCY = 0x8000, 0x2000
NODE = 9
LISTS = {0: 17, 3: 18}  # event -> its list; the events are new flows and changed paths
M, E = Flag.MTU_EXCEEDED, Flag.HOPS_EXCEEDED
pushed = partial(int_path.pushed, instructions=NODE_ID)


class Sink(Switch):
    """Node 9, an INT sink. Packets with INT from port 1 leave by port 2, without INT.

    Reports leave by port 3.
    """

    def __init__(
        self, wanted: int = DATA, *, period_us: int = NEVER, kept: int = 0,
        outside: Sequence[int] = (OUT,), dst_port: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(NODE, outside=outside, program="../dta/int_sink.p4")
        self.report_all()
        add, set_default = self.engine.table_add, self.engine.table_set_default
        watch = "SinkIngress.watch_path.watch_flow"
        port = Ternary(0, 0) if dst_port is None else Ternary(dst_port, 0xFFFF)
        add(f"{watch}.watch_list", [*[Ternary(0, 0)] * 4, port], f"{watch}.watch", [wanted], 1)
        set_default(f"{watch}.flow_keys", f"{watch}.set_flow_key", [0, 1])
        set_default("SinkEgress.track_path.paths", "SinkEgress.track_path.follow", [period_us])
        ends = [int(IPv4Address(address)) for address in (REPORTER_ADDR, TRANSLATOR_ADDR)]
        add("SinkEgress.reports.write_report.translators", [Exact(1)],
            "SinkEgress.reports.write_report.address_report",
            [REPORTER_MAC, TRANSLATOR_MAC, *ends, REPORTER])  # fmt: skip
        add("SinkIngress.process_nack.nack_sources", [*map(Exact, ends[::-1])],
            "SinkIngress.process_nack.process", [1, TO_COLLECTOR])  # fmt: skip
        plan = "SinkEgress.reports.plan"
        set_default(f"{plan}.data_reports", f"{plan}.write_data", [2, 7, 0, kept])
        set_default(f"{plan}.postcards", f"{plan}.write_postcard", [2, 0, kept])
        for event, number in LISTS.items():
            add(f"{plan}.event_lists", [Exact(event)], f"{plan}.append", [1, number, 0, kept])
        self.engine.mirror_set(SESSIONS + 1, [(TO_COLLECTOR, 0)])

    def path_reports(
        self, frame: bytes, time_us: int = 0, *, leaves: bytes | None = None
    ) -> list[Report]:
        """Return the DTA reports about a packet.

        Assert that the forwarded frame is `leaves`, by default udp().
        """
        (port, out), *others = self.send(frame, time_us)
        assert (port, out) == (OUT, udp() if leaves is None else leaves)
        assert all(port == TO_COLLECTOR for port, _ in others)
        return [parse_report(frame) for _, frame in others]


def key(protocol: int = 17) -> bytes:
    """Return the key of the only flow of this protocol in this file."""
    return bytes.fromhex("0a000001 0a000002 0fa0 1388") + bytes([protocol, 0, 0, 0])


@pytest.mark.parametrize(
    ("make", "mark", "protocol"),
    [(udp, DSCP, 17), (udp, PORT, 17), (udp, NEW_UDP, 17), (udp, PROBE, 17), (tcp, DSCP, 6),
     (tcp, NEW_UDP, 6), (tcp, PROBE, 6)],
)  # fmt: skip
def test_a_path_is_reported_for_a_packet_that_leaves_as_it_came(
    make: object, mark: int, protocol: int
) -> None:
    frame = make()  # type: ignore[operator]
    (report,) = Sink().path_reports(pushed(frame, 3, 4, mark=mark), 9000, leaves=frame)
    assert (report.opcode, report.sequence, report.detail) == (KEY_WRITE, 0, bytes([2, 7, 0, 0]))
    assert report.key == key(protocol)
    assert report.words == tuple(encode([3, 4, NODE]))


@pytest.mark.parametrize("count", range(1, 9))
def test_the_last_six_switches_of_a_path_are_reported(count: int) -> None:
    nodes = [*range(11, 11 + count)]
    (report,) = Sink().path_reports(pushed(udp(), *nodes))
    assert report.words == tuple(encode([*nodes, NODE]))
    path = decode(np.array([report.words]))
    assert path.hops.tolist() == [count + 1]
    last = [*nodes, NODE][-6:]
    assert path.nodes.tolist() == [last + (6 - len(last)) * [-1]]


def test_a_packet_through_one_switch_has_a_path_of_one_hop() -> None:
    sink = Sink(DATA | POSTCARD, outside=(IN, OUT))
    sink.embed_data(NODE_ID)
    data, postcard = sink.path_reports(udp())
    assert data.words == tuple(encode([NODE]))
    assert (postcard.detail, postcard.words) == (bytes([2, 0, 1, 0]), (NODE,))


def test_a_host_cannot_make_up_where_its_packets_were() -> None:
    """For a packet that a host sends with INT, the sink reports no path.

    INT from outside the domain counts as payload. So a host can neither invent hops nor remove
    some.
    """
    sink = Sink(outside=(IN, OUT))
    sink.embed_data(NODE_ID)
    ((port, _),) = sink.send(pushed(udp(), 3, 4, hops=1))
    assert port == OUT


def test_a_path_is_reported_again_when_it_changes_or_after_a_period() -> None:
    sink = Sink(START | MOVED | DATA, period_us=50_000)
    one, other, longer = pushed(udp(), 3, 4), pushed(udp(), 3, 5), pushed(udp(), 3, 4, 6)
    steps = [(one, 0), (one, 49_999), (one, 50_000), (other, 50_001), (other, 50_002),
             (longer, 60_000), (longer, 109_999), (longer, 110_000)]  # fmt: skip
    found = [sink.path_reports(frame, time_us) for frame, time_us in steps]
    new, path, moved = (APPEND, 17), (KEY_WRITE, 2 << 24 | 7 << 16), (APPEND, 18)
    assert [[(r.opcode, int.from_bytes(r.detail, "big")) for r in each] for each in found] == [
        [new, path], [], [path], [moved, path], [], [moved, path], [], [path]
    ]  # fmt: skip
    assert found[3][0].words == (crc32(key()),)
    assert [each[-1].words[0] >> 24 for each in found if each] == [3, 3, 3, 4, 4]


@pytest.mark.parametrize("count", [1, 4])
def test_postcards_of_all_hops_have_the_path_length(count: int) -> None:
    nodes = [*range(11, 11 + count), NODE]
    found = Sink(POSTCARD).path_reports(pushed(udp(), *nodes[:-1]))
    assert {(r.opcode, r.key) for r in found} == {(POSTCARDING, key())}
    cards = {report.detail[1]: report.words for report in found}
    assert cards == {hop: (node,) for hop, node in enumerate(nodes)}
    assert {(r.detail[0], r.detail[2], r.detail[3]) for r in found} == {(2, len(nodes), 0)}
    assert [report.sequence for report in found] == [*range(len(nodes))]


def test_postcards_are_of_whole_paths_that_have_room() -> None:
    sink = Sink(POSTCARD | DATA)
    assert [r.opcode for r in sink.path_reports(pushed(udp(), *range(11, 16)))] == [KEY_WRITE]
    (report,) = sink.path_reports(pushed(udp(), 3, 4, hops=1))
    assert report.words == tuple(encode([3, NODE], E))


def test_missing_hops_are_reported() -> None:
    small = Switch(4, mtu=52)
    (report,) = Sink(POSTCARD | DATA).path_reports(small.pass_on(pushed(udp(), 3)))
    assert report.words == tuple(encode([3, NODE], M))


def test_a_full_queue_is_reported_immediately_and_is_no_change_of_the_path() -> None:
    sink = Sink(DATA | MOVED)
    sink.report_queue()
    frame = pushed(udp(), 3)
    found = [sink.path_reports(frame, time_us) for time_us in range(3)]
    assert [[r.words[0] >> 16 & 7 for r in each] for each in found] == [[Flag.CONGESTED], [], []]
    assert [r.opcode for r in found[0]] == [KEY_WRITE]


def test_reports_come_again_after_a_nack() -> None:
    sink = Sink(DATA | POSTCARD, period_us=0, kept=1)
    frame = pushed(udp(), 3, 4)
    sent = [out for n in range(3) for port, out in sink.send(frame, n) if port == TO_COLLECTOR]
    assert [parse_report(out).sequence for out in sent] == [*range(12)]
    again = sink.send(nack(5, 3), port=TO_COLLECTOR)
    assert again == [(TO_COLLECTOR, out) for out in sent[5:8]]
    assert sink.send(nack(12, 1), port=TO_COLLECTOR) == []


def test_nacks_to_others_pass() -> None:
    other = nack(0, 1, src="10.0.9.8")
    sink, forward = Sink(), "SinkIngress.arrival.forward"
    sink.engine.table_add(f"{forward}.forwarding", [Exact(REPORTER_MAC)], f"{forward}.forward",
                          [OUT])  # fmt: skip
    assert sink.send(other, port=TO_COLLECTOR) == [(OUT, other)]


@pytest.mark.parametrize("given", [{"instructions": NODE_ID | LATENCY}, {"version": 6}])
def test_packets_that_do_not_fit_a_dta_report_have_an_int_report(given: dict[str, int]) -> None:
    """If the INT data of a packet do not fit a DTA report, the packet has an INT report.

    Packets of flows that are not watched have an INT report, too. DTA reports leave no gap in the
    sequence numbers of INT reports.
    """
    sink, known = Sink(period_us=0), pushed(udp(), 3)
    frame = udp(version=given.pop("version", 4))
    other = pushed(frame, 3, **given)
    for number in range(2):
        sink.path_reports(known)
        out, report = sink.report(other)
        assert (out, report.group.sequence) == (frame, number)
    for mark in (DSCP, PORT, NEW_UDP):
        sink = Sink(dst_port=5001)
        assert sink.report(pushed(udp(), 3, mark=mark))[1].group.node == NODE
        (report,) = sink.path_reports(pushed(udp(dport=5001), 3, mark=mark), leaves=udp(dport=5001))
        assert report.words == tuple(encode([3, NODE]))


def test_packets_that_int_would_not_report_are_not_reported() -> None:
    sink = Sink()
    reports = f"{sink.egress}.packet.flow_reports.flow_reports"
    sink.engine.table_set_default(reports, "NoAction", [])
    assert sink.path_reports(pushed(udp(), 3)) == []


def test_of_packets_that_never_had_int_md_there_is_no_path() -> None:
    """A packet that never had INT-MD has an INT report, but no path.

    It enters and leaves the domain at the same switch. This switch uses INT-XD, or does not sample
    the packet.
    """
    exported = Sink(outside=(IN, OUT))
    exported.watch("export_data", [NODE_ID, ALL])
    assert exported.report(udp())[1].group.node == NODE
    left_out = Sink(outside=(IN, OUT))
    left_out.embed_data(NODE_ID, sampling=0)
    left_out.report_queue()
    assert left_out.report(udp())[1].group.node == NODE


def test_packets_in_transit_are_reported_by_int() -> None:
    switch = Sink(outside=())
    switch.report_queue()
    assert switch.report(pushed(udp(), 3))[1].group.node == NODE


def test_damaged_frames_do_no_harm() -> None:
    """For damaged frames, all DTA reports and INT reports of the sink are well formed."""
    sink, rng, path_reports, reports = Sink(127, period_us=0, kept=1), random.Random(1), 0, 0
    frames = [*insides(), *(pushed(udp(), *range(1, n)) for n in range(2, 8)), nack(3, 9)]
    for frame in frames:
        for _ in range(40):
            for port, out in sink.send(damaged(frame, rng)):
                if port != TO_COLLECTOR:
                    assert port == OUT
                elif out[36:38] == (40042).to_bytes(2, "big"):
                    report = parse_report(out)
                    path_reports += 1
                    assert report.opcode in (KEY_WRITE, APPEND, POSTCARDING)
                    assert len(report.words) == (7 if report.opcode == KEY_WRITE else 1)
                else:
                    report_of(out)
                    reports += 1
    assert path_reports > 400
    assert reports > 50
