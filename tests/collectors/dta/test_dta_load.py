"""The generator's reports, as parsed by scapy, compared with their description."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import wrpcap

from collectors.dta.captures import read_reports, reports_of_packets
from collectors.dta.hashes import key_words
from collectors.dta.load import Format, Load, ReportFields, Reports
from collectors.dta.packets import (
    DTA,
    PORT,
    PROTOTYPE_PORT,
    Append,
    KeyIncrement,
    KeyWrite,
    Op,
    PlainDTA,
    Postcard,
    ShortKeyIncrement,
    ShortKeyWrite,
    ShortPostcard,
    SketchMerge,
    TrackedDTA,
    decode,
)
from controllers.dta.watch import flow_key
from telemark.errors import TestbedError

ALL_OURS: dict[Op, float] = {op: 1.0 for op in Op if op is not Op.NACK}
BASES = {Format.OURS: DTA, Format.TRACKED: TrackedDTA, Format.PLAIN: PlainDTA}


def said(reports: Reports) -> ReportFields:
    assert reports.fields is not None
    return reports.fields


def keys_of(reports: Reports) -> list[int]:
    return [int.from_bytes(row.astype(">u4").tobytes(), "big") for row in said(reports).key]


@pytest.mark.parametrize("words", [1, 3, 7])
def test_reports_have_the_described_fields(words: int) -> None:
    load = Load(400, ALL_OURS, redundancy=3, words=words, lists=range(5, 9), addend=1 << 40,
                immediate=True, retransmittable=True, reporter=77, first_sequence=(1 << 32) - 2,
                hops=4, values=50, sketch=3, columns=100)  # fmt: skip
    reports = load.reports()
    told = said(reports)
    assert reports.ports == [PORT] * 400
    for number, payload in enumerate(reports.payloads):
        packet = decode(payload)
        assert packet.opcode == told.opcode[number]
        assert (packet.immediate, packet.retransmittable, packet.reporter) == (1, 1, 77)
        assert packet.sequence == (number - 2) % (1 << 32)
        expected = keys_of(reports)[number] if number < 20 else None
        values = [int(word) for word in told.words[number]]
        match packet.opcode:
            case Op.KEY_WRITE:
                report = packet[KeyWrite]
                assert (report.redundancy, report.words, report.data) == (3, words, values[:words])
                assert values[0] == number
            case Op.APPEND:
                list_number = 5 + number % 4
                assert (packet[Append].list, packet[Append].data) == (list_number, number)
                assert told.list[number] == list_number
            case Op.KEY_INCREMENT:
                assert packet[KeyIncrement].addend == 1 << 40
            case Op.POSTCARDING:
                report = packet[Postcard]
                assert (report.redundancy, report.hop, report.hops) == (3, told.hop[number], 4)
                assert report.value == values[1] % 50
            case Op.SKETCH_MERGE:
                report = packet[SketchMerge]
                assert (report.sketch, report.column) == (3, number % 100)
                assert report.counters == values[1:5]
        if expected is not None and packet.opcode in (1, 3, 4):
            assert packet.lastlayer().key == expected
    assert {*told.opcode} == {*map(int, ALL_OURS)}


@pytest.mark.parametrize("format_", [Format.TRACKED, Format.PLAIN])
def test_reports_of_the_prototype(format_: Format) -> None:
    mix = dict.fromkeys((Op.KEY_WRITE, Op.APPEND, Op.KEY_INCREMENT, Op.POSTCARDING), 1.0)
    reports = Load(600, mix, format=format_, retransmittable=True, immediate=True).reports()
    assert reports.ports == [PROTOTYPE_PORT] * 600
    keys = keys_of(reports)
    for number, payload in enumerate(reports.payloads):
        packet = decode(payload, BASES[format_])
        assert packet.opcode == said(reports).opcode[number]
        assert packet.immediate == 1
        if format_ is Format.TRACKED:
            assert (packet.seqnum, packet.retransmittable) == (number % 256, 1)
        report = packet.lastlayer()
        if isinstance(report, ShortKeyWrite | ShortKeyIncrement | ShortPostcard):
            assert report.key == keys[number] < 1 << 32
        if isinstance(report, ShortPostcard):
            assert report.hop == said(reports).hop[number] + 1


def test_as_many_values_and_lists_as_there_are_numbers() -> None:
    load = Load(40, {Op.POSTCARDING: 1}, values=1 << 32, lists=range(1 << 32))
    cards = [decode(payload)[Postcard] for payload in load.reports().payloads]
    assert max(card.value for card in cards) >= 1 << 31
    assert said(load.reports()).list.tolist() == [*range(40)]


def test_a_path_s_postcards_follow_each_other() -> None:
    reports = Load(52, {Op.POSTCARDING: 1}, hops=5).reports()
    assert said(reports).hop.tolist() == 10 * [0, 1, 2, 3, 4] + [0, 1]
    keys = keys_of(reports)
    assert [len({*keys[i : i + 5]}) for i in range(0, 50, 5)] == 10 * [1]
    assert len({*keys}) == 11


def test_the_mix_has_the_proportions_asked_for() -> None:
    reports = Load(20_000, {Op.KEY_WRITE: 3, Op.APPEND: 1}).reports()
    count = Counter(said(reports).opcode.tolist())
    assert abs(count[Op.APPEND] - 5000) < 5 * 61.3  # within 5 standard deviations


def test_keys_are_random_by_default() -> None:
    assert len({*keys_of(Load(1000).reports())}) == 1000
    assert keys_of(Load(1000).reports()) == keys_of(Load(1000).reports())
    assert keys_of(Load(1000, seed=2).reports()) != keys_of(Load(1000).reports())
    again = Counter(keys_of(Load(4000, distinct=10).reports()))
    assert len(again) == 10
    assert len({*again.values()}) > 1  # not equal: keys are drawn at random
    assert all(abs(count - 400) < 5 * 19 for count in again.values())
    given = key_words([5, 1 << 127])
    assert keys_of(Load(2, keys=given).reports()) == [5, 1 << 127]


@pytest.mark.parametrize(
    ("fields", "said_"),
    [
        ({"count": 0}, "count 0: expected 1"), ({"words": 2}, "words 2: expected one of"),
        ({"redundancy": 9}, "redundancy 9: expected 1 to 8"), ({"mix": {}}, "mix {}: expected"),
        ({"mix": {Op.APPEND: -1}}, "expected shares of at least 0"),
        ({"mix": {Op.NACK: 1}}, "NACK: ours reports have no such opcode"),
        ({"mix": {Op.SKETCH_MERGE: 1}, "format": Format.PLAIN}, "SKETCH_MERGE: plain reports"),
        ({"lists": range(0)}, "lists range"), ({"lists": range(1, -2, -1)}, "lists range"),
        ({"hops": 6}, "hops 6: expected 1 to 5"),
        ({"keys": np.zeros((3, 4), np.uint32)}, r"keys of shape \(3, 4\): expected \(10, 4\)"),
    ],
)  # fmt: skip
def test_what_cannot_be_sent_is_refused(fields: dict[str, Any], said_: str) -> None:
    with pytest.raises(ValueError, match=said_):
        Load(**{"count": 10, **fields})


def test_the_reports_of_a_capture_are_sent_as_they_were(tmp_path: Path) -> None:
    ends = Ether() / IP(src="10.0.0.1", dst="10.0.0.2")
    packets = [ends / UDP() / DTA(sequence=n) / Append(data=n) for n in range(3)]
    packets += [ends / UDP(dport=PROTOTYPE_PORT) / Raw(b"any"), ends / UDP(dport=9) / Raw(b"no")]
    for packet, time_s in zip(packets, (1.5, 1.501, 1.75, 2.5, 3), strict=True):
        packet.time = time_s
    path = tmp_path / "reports.pcap"
    wrpcap(str(path), packets)
    reports = read_reports(path, speed=2.0)
    assert reports.payloads == [*(bytes(p[DTA]) for p in packets[:3]), b"any"]
    assert reports.ports == [PORT, PORT, PORT, PROTOTYPE_PORT]
    assert reports.offsets_ns is not None
    assert np.abs(reports.offsets_ns - [0, 500_000, 125_000_000, 500_000_000]).max() < 1000


def test_of_each_packet_of_a_capture_a_report(tmp_path: Path) -> None:
    ip = IP(src="10.0.0.1", dst="10.0.0.2")
    same = ip / UDP(sport=7, dport=8)
    packets = [same, ip / TCP(sport=9, dport=10), IP(src="10.0.0.3") / Raw(b"x"), same]
    path = tmp_path / "packets.pcap"
    wrpcap(str(path), [Ether() / packet for packet in packets])
    load = Load(1000, {Op.KEY_INCREMENT: 1})
    flow = flow_key("10.0.0.1", "10.0.0.2", (7, 8))
    other = flow_key("10.0.0.1", "10.0.0.2", (9, 10), 6)
    third = flow_key("10.0.0.3", "127.0.0.1", (0, 0), 0)
    assert keys_of(reports_of_packets(path, load)) == [flow, other, third, flow]
    short = reports_of_packets(path, Load(2, {Op.KEY_INCREMENT: 1}, format=Format.PLAIN))
    assert keys_of(short) == [0x0A000001, 0x0A000001]


def test_unreadable_captures_are_reported(tmp_path: Path) -> None:
    (tmp_path / "text.pcap").write_text("no capture at all, but long enough to be one")
    wrpcap(str(tmp_path / "else.pcap"), [Ether() / Raw(b"nothing")])
    wrong = {"text": "expected a pcap file", "none": "expected a pcap file",
             "else": "no DTA reports in this file; expected UDP packets to port 40042"}  # fmt: skip
    for name, said_ in wrong.items():
        with pytest.raises(TestbedError, match=said_):
            read_reports(tmp_path / f"{name}.pcap")
    with pytest.raises(TestbedError, match="no IPv4 packets in this file; use a capture"):
        reports_of_packets(tmp_path / "else.pcap", Load(1))
