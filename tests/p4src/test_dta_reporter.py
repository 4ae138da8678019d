"""Reports that a DTA reporter sends about packets of users: changes, samples, counts, events."""

from zlib import crc32

import pytest
from reporter_path import (
    ALL,
    APPEND,
    COUNT,
    DATA,
    DROPPED,
    HOST_MAC,
    IN,
    KEY_INCREMENT,
    KEY_WRITE,
    NACK_PORT,
    OUT,
    PORT,
    POSTCARDING,
    PROTOTYPE_PORT,
    RESENT,
    START,
    STARTED,
    TO_TRANSLATOR,
    WAS_DROPPED,
    WAS_RESENT,
    Reporter,
    key,
    parse_report,
    tcp,
    udp,
)
from scapy.layers.inet import IP
from scapy.layers.l2 import Ether

from minip4.engine.keys import Exact, Lpm

PORTS_WORD, LATENCY_WORD = 0, 3
TIME_MASK = 0xFFF00000  # bits of the time (the last word of the data) that change every 1.05 s


def masked(word: int, mask: int = 0xFFFFFFFF) -> int:
    """Return a mask for all words of the data: `mask` for this word, and 0 for the others."""
    return mask << 32 * (6 - word)


def test_a_report_has_the_data_of_its_flow() -> None:
    reporter = Reporter()
    reporter.write_data(immediate=1)
    reporter.follow(share=ALL)
    first, second = (reporter.reports(udp(size), time_us=1000 + size) for size in (8, 58))
    (one,), (two,) = first, second
    assert (one.opcode, one.immediate, one.retransmittable) == (KEY_WRITE, True, False)
    assert one.detail == bytes([2, 7, 0, 0])
    assert one.key == key()
    assert one.words == (IN << 16 | OUT, 1, 50, 0, 0, 7, 1008)
    assert two.words == (IN << 16 | OUT, 2, 150, 0, 0, 7, 1058)
    assert (one.sequence, two.sequence) == (0, 1)
    assert reporter.events() == {"sent": 2}


@pytest.mark.parametrize(("words", "first"), [(1, 0), (1, 2), (3, 1)])
def test_a_report_has_some_words_of_the_record(words: int, first: int) -> None:
    reporter = Reporter()
    reporter.write_data(words)
    reporter.follow(first_word=first)
    (report,) = reporter.reports(udp())
    assert report.words == (IN << 16 | OUT, 1, 50, 0)[first : first + words]
    assert report.detail == bytes([2, words, 0, 0])


def test_a_flow_is_reported_when_something_is_new_under_the_mask() -> None:
    reporter = Reporter()
    reporter.write_data(1)
    reporter.follow(mask=masked(PORTS_WORD))
    reporter.add("ReporterIngress.forwarding", [Exact(4)], "ReporterIngress.forward", [IN])
    elsewhere = bytes(5) + b"\x04" + udp()[6:]
    frames = [udp(), udp(), udp(dport=5001), udp(), elsewhere, elsewhere, udp()]
    assert [len(reporter.send(frame)) - 1 for frame in frames] == [1, 0, 1, 0, 1, 0, 1]


def test_a_flow_is_reported_once_a_period() -> None:
    reporter = Reporter()
    reporter.write_data(1)
    reporter.follow(mask=masked(6, TIME_MASK))
    times_us = [0, 1000, (1 << 20) - 1, 1 << 20, (1 << 20) + 5, 5 << 20]
    assert [len(reporter.reports(udp(), t)) for t in times_us] == [1, 0, 0, 1, 0, 1]


def test_samples_have_the_share_that_was_asked_for() -> None:
    reporter = Reporter()
    reporter.write_data(1)
    reporter.follow(share=1 << 30)
    count = sum(len(reporter.reports(udp())) for _ in range(400))
    assert 60 <= count <= 140  # mean 100, plus or minus 4 standard deviations


def test_an_unchanged_flow_without_sampling_is_not_reported_again() -> None:
    reporter = Reporter()
    reporter.write_data(1)
    assert [len(reporter.reports(udp(), t)) for t in range(50)] == [1] + 49 * [0]


def test_packets_and_bytes_are_counted() -> None:
    reporter = Reporter()
    reporter.watch(COUNT)
    reporter.count("packets")
    (report,) = reporter.reports(udp(1000))
    assert (report.opcode, report.detail) == (KEY_INCREMENT, bytes([4, 0, 0, 0]))
    assert (report.key, report.words) == (key(), (0, 1))
    reporter.count("bytes")
    (report,) = reporter.reports(udp(1000))
    assert report.words == (0, 1042)


def test_a_flow_starts_once_and_after_it_was_idle() -> None:
    reporter = Reporter()
    reporter.watch(START)
    reporter.append(STARTED, 17)
    reporter.follow(idle_us=5000)
    (report,) = reporter.reports(udp(), 0)
    assert (report.opcode, report.detail) == (APPEND, bytes([0, 0, 0, 17]))
    assert (report.key, report.words) == (b"", (crc32(key()),))
    assert report.retransmittable
    times_us = [1, 5000, 9000, 13_999, 18_999]
    assert [len(reporter.reports(udp(), t)) for t in times_us] == [0, 0, 0, 0, 1]
    assert len(reporter.reports(udp(dport=5001), 18_999)) == 1


def test_segments_that_are_sent_again_are_losses() -> None:
    reporter = Reporter()
    reporter.watch(RESENT)
    reporter.append(WAS_RESENT, 18)
    options = [("Timestamp", (7, 8)), ("NOP", None), ("NOP", None)]
    segments = [
        (tcp(0xFFFFFF9C - 1, 0, "S"), 0), (tcp(0xFFFFFF9C, 100, options=options), 0),
        (tcp(0, 50), 0), (tcp(50, 0), 0), (tcp(0xFFFFFF9C, 100, options=options), 1),
        (tcp(50, 0), 0), (tcp(100, 10), 0), (tcp(50, 50), 1), (tcp(110, 0, "FA"), 0),
        (tcp(111, 0), 0), (tcp(110, 0, "FA"), 1), (tcp(60, 0), 0),
    ]  # fmt: skip
    assert [len(reporter.reports(frame)) for frame, _ in segments] == [n for _, n in segments]


def test_drops_of_the_switch_are_reported() -> None:
    reporter = Reporter()
    reporter.watch(DROPPED | START)
    reporter.append(STARTED, 17)
    reporter.append(WAS_DROPPED, 19)
    (report,) = reporter.reports(udp())
    assert report.detail == bytes([0, 0, 0, 17])
    ((port, frame),) = reporter.send(bytes(6) + udp()[6:])
    assert port == TO_TRANSLATOR
    assert parse_report(frame).detail == bytes([0, 0, 0, 19])
    assert parse_report(frame).words == (crc32(key()),)


def test_a_packet_may_be_worth_several_reports_events_first() -> None:
    reporter = Reporter()
    reporter.write_data(3, wanted=START | COUNT | DATA)
    reporter.append(STARTED, 17)
    reporter.count()
    found = reporter.reports(udp(dport=5001))
    assert [each.opcode for each in found] == [APPEND, KEY_INCREMENT, KEY_WRITE]
    assert [each.sequence for each in found] == [0, 1, 2]
    assert [len(each.words) for each in found] == [1, 2, 3]
    assert [each.key for each in found] == [b"", *[key(dport=5001)] * 2]


def test_a_postcard_has_the_hop_number() -> None:
    reporter = Reporter()
    reporter.write_postcards()
    ttls = {64: 0, 63: 1, 60: 4, 128: 0, 125: 3, 255: 0, 253: 2}
    for port, (ttl, hop) in enumerate(ttls.items()):
        (report,) = reporter.reports(udp(dport=port, ttl=ttl))
        assert (report.opcode, report.detail) == (POSTCARDING, bytes([2, hop, 0, 0]))
        assert (report.key, report.words) == (key(dport=port), (7,))
        assert reporter.reports(udp(dport=port, ttl=ttl)) == []
    assert reporter.reports(udp(dport=99, ttl=59)) == []  # the sixth hop: a path has five at most


def test_a_router_reports_routed_packets() -> None:
    reporter = Reporter()
    reporter.write_postcards()
    reporter.add("ReporterIngress.routing.routes", [Lpm(0x0A000000, 8)],
                 "ReporterIngress.routing.send", [HOST_MAC, OUT])  # fmt: skip
    frame = udp(ttl=62)
    (port, out), (to, report) = reporter.send(bytes(5) + b"\x77" + frame[6:])
    assert (port, to) == (OUT, TO_TRANSLATOR)
    assert (Ether(out).dst, Ether(out)[IP].ttl) == ("02:00:00:00:00:02", 61)
    assert parse_report(report).detail == bytes([2, 2, 0, 0])  # hop 2


def test_flows_keep_to_a_translator_whose_numbers_are_its_own() -> None:
    reporter = Reporter(translators=3)
    reporter.write_data(1)
    reporter.follow(share=ALL)
    sequences: dict[bytes, list[int]] = {}
    homes = set()
    for _ in range(2):
        for dport in range(5000, 5020):
            _, (_, frame) = reporter.send(udp(dport=dport))
            sequences.setdefault(frame[30:34], []).append(parse_report(frame).sequence)
            homes.add((dport, frame[30:34]))
    assert len(homes) == 20
    assert len(sequences) == 3
    assert all(numbers == [*range(len(numbers))] for numbers in sequences.values())


@pytest.mark.parametrize("port", [PORT, PROTOTYPE_PORT, NACK_PORT])
def test_reports_of_others_are_not_watched(port: int) -> None:
    reporter = Reporter()
    reporter.write_data(1)
    assert reporter.reports(udp(dport=port)) == []
