"""The decoder of Telemetry Reports: fields as in the specifications, and hostile input."""

import random
from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any

import made_reports
import numpy as np
import pytest
from decoding import ENCODING, datagrams, decoded, report
from scapy.layers.inet import IP, TCP, UDP

from collectors.int.decoder import ASIDE, Decoder, Encoding
from collectors.int.native import Bit, Flag, IntFlag, ParseStatus

UDP_PACKET = bytes(IP(src="10.0.0.1", dst="10.0.0.2", ttl=9) / UDP(sport=7, dport=8))
STACK = "14071388 20000206 90000000 00000000 00000002 00000007 00000001 00000003"
FLOW = bytes.fromhex("20400005 00000003 140e0220 50000000 00000000 00010002 00000009")
DROP = bytes.fromhex("20000001 00000002 140a0180 00010000 00000000 00500000")


def individual(body: bytes = UDP_PACKET, kind: str = "04", flags: str = "20") -> bytes:
    """Return a group of one report, whose only content is a packet."""
    return bytes.fromhex(f"20000000 00000001 {kind} {len(body) // 4:02x} 00 {flags}") + body


def through_udp(words: str, port: int = made_reports.INT_PORT, dscp: int = 0) -> bytes:
    return bytes(IP(src="10.0.0.1", dst="10.0.0.2", tos=dscp << 2) / UDP(sport=50007, dport=port)
                 / bytes.fromhex(words))  # fmt: skip


def only(payload: bytes, encoding: Encoding = ENCODING) -> tuple[dict[str, Any], list[Any]]:
    """Return the content of a datagram with one report."""
    part = decoded([payload], encoding=encoding)
    assert len(part.reports) == 1
    return report(part, 0)


def agrees(found: tuple[dict[str, Any], list[Any]], made: made_reports.Made) -> None:
    said, hops = found
    assert {name: said[name] for name in made.says} == made.says
    assert hops == [{"ds": b"", **each} for each in made.hops]
    assert said["parse_status"] == ParseStatus.NONE


def test_datagrams_of_other_bytes_are_distinguished() -> None:
    whole = individual(UDP_PACKET + bytes(range(100)))
    others = [whole + b"\0"]
    for place in range(len(whole)):
        others.append(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    first, again, *contents = decoded([whole, whole, *others]).groups["content"].tolist()
    assert first == again
    assert len(contents) == len(others)
    assert first not in contents


@pytest.mark.parametrize("seed", range(10))
def test_random_reports_say_what_they_were_made_to_say(seed: int) -> None:
    rng = random.Random(seed)
    made = [made_reports.datagram(rng, rng.getrandbits(32), number, rng.randrange(1, 12))
            for number in range(40)]  # fmt: skip
    part = decoded([payload for payload, _, _ in made])
    assert len(part.faults) == 0
    assert [{name: int(group[name]) for name in says} for group, (_, says, _) in
            zip(part.groups, made, strict=True)] == [says for _, says, _ in made]  # fmt: skip
    reports = [(number, each) for number, (*_, those) in enumerate(made) for each in those]
    assert part.reports["group"].tolist() == [number for number, _ in reports]
    for index, (_, each) in enumerate(reports):
        agrees(report(part, index), each)


@pytest.mark.parametrize("seed", range(3))
def test_random_reports_of_version_1(seed: int) -> None:
    rng = random.Random(seed)
    made = [made_reports.old_datagram(rng, rng.getrandbits(32), number) for number in range(40)]
    part = decoded([payload for payload, _ in made])
    assert part.groups["version"].tolist() == [1] * 40
    assert part.groups["sequence"].tolist() == [*range(40)]
    for index, (_, each) in enumerate(made):
        agrees(report(part, index), each)


def test_a_stack_after_udp_by_port() -> None:
    said, hops = only(individual(through_udp(STACK)))
    assert said["destination_port"] == 5000
    assert (said["hop_words"], said["remaining_hops"], said["int_bits"]) == (2, 6, 0x9000)
    assert [(each["node"], each["queue"], each["occupancy"]) for each in hops] == [
        (1, 0, 3), (2, 0, 7),
    ]  # fmt: skip


def test_shims() -> None:
    header = "20000000 00000000 00000000 00000000"
    said, _ = only(individual(through_udp(f"100300b8 {header[9:]} {header[:8]}", 9, 0x20)))
    assert said["parse_status"] == ParseStatus.INT_VERSION
    said, _ = only(individual(through_udp("100300b8 20000000 00000000 00000000", 9, 0x20)))
    assert (said["original_dscp"], said["dscp"], said["int_type"]) == (0x2E, 0x20, 1)
    said, _ = only(individual(through_udp("34031388 20000000 90000000 00000000")))
    assert (said["destination_port"], said["int_type"]) == (5000, 3)
    tcp = bytes(TCP(sport=1234, dport=80)).hex()
    said, hops = only(individual(through_udp(f"18070006 {STACK[9:]} {tcp}")))
    assert (said["protocol"], said["source_port"], said["destination_port"]) == (6, 1234, 80)
    assert [each["node"] for each in hops] == [1, 2]


def test_a_flow_report() -> None:
    said, hops = only(FLOW + bytes(IP() / TCP()))
    assert said["flags"] == Flag.TRACKED
    assert hops == [{"node": 3, "ingress": 1, "egress": 2, "queue": 0, "occupancy": 9, "ds": b""}]
    group = decoded([FLOW + bytes(IP() / TCP())]).groups[0]
    assert (group["hw_id"], group["sequence"], group["node"]) == (1, 5, 3)
    assert IPv4Address(int(group["reporter"])) == IPv4Address("10.0.0.9")


def test_a_drop_report() -> None:
    said, hops = only(DROP + UDP_PACKET)
    assert said["flags"] == Flag.DROPPED
    assert (said["queue"], said["reason"], said["node"]) == (0, 80, 2)
    assert (said["source_port"], said["destination_port"], said["ttl"]) == (7, 8, 9)
    assert hops == [{"node": 2, "ds": b""}]


def test_reports_of_version_1() -> None:
    flow = bytes.fromhex("14000041 00000007 ffffffff 00000064")
    drop = bytes.fromhex("16110101 00000007 00000001 00000064 00010002 03500000")
    frame = bytes(12) + b"\x08\x00" + UDP_PACKET
    part = decoded([flow + frame, drop + frame])
    assert part.groups["hw_id"].tolist() == [1, 1]
    assert part.groups["sequence"].tolist() == [0xFFFFFFFF, 1]
    said, hops = report(part, 0)
    assert (said["flags"], said["destination_port"]) == (Flag.TRACKED, 8)
    assert hops == [{"node": 7, "ingress_ns": 100, "ds": b""}]
    said, hops = report(part, 1)
    assert (said["flags"], said["queue"], said["reason"]) == (Flag.DROPPED, 3, 80)
    assert hops == [{"node": 7, "ingress": 1, "egress": 2, "ingress_ns": 100, "ds": b""}]


def test_a_stack_of_int_1_0_in_a_report_of_version_1() -> None:
    """A stack of INT 1.0 is decoded in a report of version 1.

    In INT 1.0, the length in the shim header includes the shim header. The INT header has two
    words, and timestamps have 32 bits.
    """
    packet = through_udp("01000700 14800207 88000000 00000002 00000064 00000001 ffffffff", 9, 0x20)
    flow = bytes.fromhex("14200041 00000007 00000001 00000064")
    said, hops = only(flow + packet)
    assert (said["int_version"], said["remaining_hops"]) == (1, 7)
    assert said["int_flags"] == IntFlag.MTU_EXCEEDED
    assert hops[:2] == [{"node": 1, "ds": b""}, {"node": 2, "ingress_ns": 100, "ds": b""}]
    assert said["parse_status"] == ParseStatus.NONE


def test_the_hop_of_a_sink_that_pushes_is_not_there_twice() -> None:
    """If a sink pushes metadata and reports, its hop occurs once in the result.

    A report of version 1 contains the node id and the ingress time of the sink, even if the stack
    contains them, too.
    """
    packet = through_udp("01000700 10000207 88000000 00000002 00000064 00000001 00000050", 9, 0x20)
    said, hops = only(bytes.fromhex("14200041 00000002 00000001 00000063") + packet)
    assert hops == [{"node": 1, "ingress_ns": 80, "ds": b""},
                    {"node": 2, "ingress_ns": 100, "ds": b""}]  # fmt: skip
    assert not said["is_local"]
    without_times = through_udp("01000500 10000107 80000000 00000002 00000001", 9, 0x20)
    _, hops = only(bytes.fromhex("14200041 00000002 00000001 00000063") + without_times)
    assert hops == [{"node": 1, "ds": b""}, {"node": 2, "ingress_ns": 99, "ds": b""}]


def test_a_stack_of_int_1_0_as_geants_switches_write_it() -> None:
    """A stack of INT 1.0 is decoded as GEANT's switches write it, if the decoder has this option.

    These switches use timestamps of 64 bits and level 2 interfaces of 16 bits. They also write a
    number into the reserved bits.
    """
    words = ("00000002 00010003 00000007 00000009 0000000100000002 0000000100000005 00040005 "
             "00000000")  # fmt: skip
    packet = through_udp(f"01000d80 10000a03 ff000011 {words}", 9, 0x20)
    flow = bytes.fromhex("14200041 00000002 00000001 00000000")
    said, hops = only(flow + packet, replace(ENCODING, int1_long_times=True))
    assert (said["int_version"], said["parse_status"]) == (1, ParseStatus.NONE)
    assert hops == [{
        "node": 2, "ingress": 1, "egress": 3, "latency_ns": 7, "queue": 0, "occupancy": 9,
        "ingress_ns": (1 << 32) + 2, "egress_ns": (1 << 32) + 5, "ingress2": 4, "egress2": 5,
        "utilisation": 0, "ds": b"",
    }]  # fmt: skip
    said, _ = only(flow + packet)
    assert said["parse_status"] == ParseStatus.HOP_LENGTH


def test_units_are_parameters_and_all_ones_are_no_value() -> None:
    encoding = Encoding(timestamp_unit_ns=1000, latency_unit_ns=10)
    ones = "f" * 16
    head = bytes.fromhex("20000000 00000001 10070520 2c000000 00000000")
    for latency, ingress, egress, expected in (
        ("00000005", f"{2**47:016x}", ones, {"latency_ns": 50, "ingress_ns": 1000 << 47}),
        ("ffffffff", ones, f"{2**60:016x}", {}),  # more ns than fit in 64 bits
    ):
        _, hops = only(head + bytes.fromhex(latency + ingress + egress), encoding)
        assert hops == [{"node": 1, "ds": b"", **expected}]


def test_a_length_of_255_runs_to_the_end() -> None:
    long = UDP_PACKET + bytes(1400)
    said, _ = only(individual()[:9] + b"\xff\0\x20" + long)
    assert said["destination_port"] == 8
    part = decoded([individual()[:9] + b"\xff\0\x20" + UDP_PACKET + bytes(900)])
    assert part.faults["parse_status"].tolist() == [ParseStatus.REPORT_LENGTH]


def test_no_stack_is_looked_for_where_the_flow_is_not_tracked() -> None:
    said, hops = only(individual(through_udp(STACK), flags="80"))
    assert (said["destination_port"], said["int_type"], hops) == (made_reports.INT_PORT, 0, [])


def test_a_packet_may_end_before_int() -> None:
    """A report whose packet ends before INT is valid.

    The headers of the packet indicate INT, but the report ends after these headers.
    """
    said, _ = only(individual(through_udp("", 9, 0x20)))
    assert (said["int_type"], said["parse_status"]) == (0, ParseStatus.NONE)


def test_probe_markers() -> None:
    marker = 0x1122334455667788
    packet = through_udp(f"{marker:016x} 100300b8 20000000 00000000 00000000", 9)
    assert only(individual(packet), Encoding(marker=marker))[0]["int_type"] == 1
    assert only(individual(packet), Encoding(marker=marker + 1))[0]["int_type"] == 0


def test_dscp_where_a_probe_marker_is_looked_for_too() -> None:
    """INT is found by its DSCP even if the decoder also searches for a probe marker.

    On the command line, the decoder does not know which mark of INT the domain uses.
    """
    both = Encoding(dscp=0x20, dscp_mask=0x20, marker=0x1122334455667788)
    packet = through_udp("100300b8 20000000 00000000 00000000", 9, 0x20)
    assert only(individual(packet), both)[0]["int_type"] == 1


MALFORMED = {
    "empty": (b"", ParseStatus.GROUP_HEADER),
    "a cut group header": (FLOW[:7], ParseStatus.GROUP_HEADER),
    "a cut header of 1.0": (bytes.fromhex("14000041") + bytes(11), ParseStatus.GROUP_HEADER),
    "version 3": (b"\x30" + FLOW[1:], ParseStatus.VERSION),
    "no report": (FLOW[:8], ParseStatus.NO_REPORT),
    "a report too long": (FLOW + bytes(39), ParseStatus.REPORT_LENGTH),
    "a length of 1.0 past the end": (bytes.fromhex("15200041") + bytes(12),
        ParseStatus.REPORT_LENGTH),
    "a length of 1.0 that its bits contradict": (
        bytes.fromhex("15000041") + bytes(16), ParseStatus.METADATA_LENGTH),
    "a reserved type": (bytes.fromhex("20000000 00000001 34000000"), ParseStatus.REPORT_TYPE),
    "no room for the fixed part": (
        bytes.fromhex("20000000 00000001 10010000 00000000"), ParseStatus.METADATA_LENGTH),
    "fewer metadata than bits": (
        bytes.fromhex("20000000 00000001 10030100 60000000 00000000 00000000"),
        ParseStatus.METADATA_LENGTH),
    "more metadata than bits": (
        bytes.fromhex("20000000 00000001 10030100 00000000 00000000 00000000"),
        ParseStatus.METADATA_LENGTH),
}  # fmt: skip
WITHIN = {
    "an inner type that is reserved": (individual(kind="06"), ParseStatus.INNER_TYPE),
    "a TLV too long": (individual(bytes.fromhex("20020000 00000000"), "01"),
        ParseStatus.TLV_LENGTH),
    "no room for Ethernet": (individual(bytes(12), "03"), ParseStatus.PACKET_CUT),
    "no room for a VLAN tag": (
        individual(bytes(12) + b"\x81\0\0\0", "03"), ParseStatus.PACKET_CUT),
    "no room for IPv4": (individual(UDP_PACKET[:16]), ParseStatus.PACKET_CUT),
    "no room for IPv6": (individual(b"\x60" + bytes(35), "05"), ParseStatus.PACKET_CUT),
    "no room for ports": (individual(UDP_PACKET[:20]), ParseStatus.PACKET_CUT),
    "IPv6 in IPv4's place": (individual(b"\x60" + UDP_PACKET[1:]), ParseStatus.IP_HEADER),
    "a header length of 16": (individual(b"\x44" + UDP_PACKET[1:]), ParseStatus.IP_HEADER),
    "IPv6 with more options than there are": (
        individual(b"\x60" + bytes(5) + b"\x3c" + bytes(33), "05"), ParseStatus.PACKET_CUT),
    "a shim of type 2": (individual(through_udp(f"24{STACK[2:]}")), ParseStatus.SHIM),
    "a shim with NPT 3": (individual(through_udp(f"1c{STACK[2:]}")), ParseStatus.SHIM),
    "a port without NPT": (individual(through_udp(f"10{STACK[2:]}")), ParseStatus.SHIM),
    "an NPT without the port": (individual(through_udp(STACK, 9, 0x20)), ParseStatus.SHIM),
    "a shim too short": (individual(through_udp(f"1402{STACK[4:]}")), ParseStatus.INT_LENGTH),
    "INT 1.0 before TCP's options": (
        individual(bytes(IP(tos=ENCODING.dscp << 2) / TCP(dataofs=6)
                         / bytes.fromhex("01000400 10000102 80000000 00000001 01010101"))),
        ParseStatus.INT_LENGTH),
    "an INT version 3": (individual(through_udp(STACK.replace(" 2", " 3", 1))),
                         ParseStatus.INT_VERSION),
    "a Hop ML of 3": (individual(through_udp(STACK.replace("0206", "0306"))),
        ParseStatus.HOP_LENGTH),
    "a Hop ML of 1": (individual(through_udp(STACK.replace("0206", "0106"))),
        ParseStatus.HOP_LENGTH),
    "half a hop": (individual(through_udp(f"1406{STACK[4:]}")), ParseStatus.STACK),
    "metadata in INT-MX": (
        individual(through_udp("34041388 20000000 90000000 00000000 00000001")), ParseStatus.STACK),
    "no shim": (individual(through_udp("0000") + bytes(2)), ParseStatus.INT_CUT),
    "no INT header": (individual(through_udp(STACK)[:40]), ParseStatus.INT_CUT),
    "half of a stack": (individual(through_udp(STACK)[:56]), ParseStatus.INT_CUT),
}  # fmt: skip


@pytest.mark.parametrize("what", MALFORMED)
def test_what_is_malformed_is_counted_and_kept(what: str) -> None:
    payload, status = MALFORMED[what]
    decoder = Decoder(ENCODING)
    part = decoded([FLOW + bytes(40), payload, DROP + UDP_PACKET], decoder)
    assert part.reports["node"].tolist() == [3, 2]
    assert part.faults[["datagram", "parse_status"]].tolist()[-1] == (1, status)
    assert decoder.parse_errors[status] == 1
    assert decoder.aside[-1].payload == payload
    assert decoder.aside[-1].time_ns == 1


@pytest.mark.parametrize("what", WITHIN)
def test_a_report_stands_whatever_is_wrong_with_its_packet(what: str) -> None:
    payload, status = WITHIN[what]
    decoder = Decoder(ENCODING)
    part = decoded([payload], decoder)
    assert part.reports["parse_status"].tolist() == [status]
    assert decoder.parse_errors == {status: 1}
    assert decoder.aside[0][1:3] == (status, 8)


def test_reports_before_and_after_a_malformed_one_are_taken() -> None:
    good, reserved = individual()[8:], bytes.fromhex("30010000 00000000")
    part = decoded([individual()[:8] + good + reserved + good + bytes(3)])
    assert len(part.reports) == 2
    offsets = part.faults[["offset", "parse_status"]].tolist()
    assert offsets == [(8 + len(good), ParseStatus.REPORT_TYPE),
                       (16 + 2 * len(good), ParseStatus.TRAILING)]  # fmt: skip


def test_a_cut_stack_keeps_its_newest_hops() -> None:
    said, hops = only(individual(through_udp(STACK)[:52]))
    assert [each["node"] for each in hops] == [2]
    assert said["destination_port"] == 5000


def test_what_is_kept_aside_is_bounded() -> None:
    decoder = Decoder(ENCODING)
    decoded([number.to_bytes(2, "big") for number in range(300)], decoder)
    assert decoder.parse_errors == {ParseStatus.GROUP_HEADER: 300}
    assert [fault.payload for fault in decoder.aside] == [
        number.to_bytes(2, "big") for number in range(300 - ASIDE, 300)
    ]


def test_more_than_there_is_room_for_comes_in_parts() -> None:
    payload = FLOW[:8] + 5000 * bytes.fromhex("10020000 00000000 00000000")
    decoder = Decoder(ENCODING)
    parts = list(decoder.decode(datagrams([payload] * 20, step_ns=7)))
    assert len(parts) > 1
    assert sum(len(part.reports) for part in parts) == 100_000
    times = np.concatenate([part.groups["time_ns"] for part in parts])
    assert times.tolist() == [7 * number for number in range(20)]
    assert all((part.hops["has"] == Bit.NODE).all() for part in parts)


def test_packets_of_a_flow_are_distinguished_equally_at_all_nodes() -> None:
    """Packets of a flow have the same identifiers at all nodes, and different packets differ.

    The identifiers come from fields that neither routers nor INT change.
    """

    def seen(ttl: int, words: str, payload: bytes) -> tuple[int, int]:
        packet = IP(src="10.0.0.1", dst="10.0.0.2", ttl=ttl, id=0)
        udp = UDP(sport=7, dport=made_reports.INT_PORT if words else 5000)
        said, _ = only(individual(bytes(packet / udp / (bytes.fromhex(words) + payload))))
        return said["flow"], said["packet"]

    one, other = bytes(range(16)), bytes(range(1, 17))
    assert seen(9, "", one) == seen(8, STACK, one) != seen(8, STACK, other)
    assert seen(9, "", one)[1] != 0
    assert seen(9, "", one[:12])[1] == 0
    headers = [bytes(IP(src="10.0.0.1", dst="10.0.0.2", id=number) / UDP()) for number in (5, 5, 6)]
    by_id = [only(individual(each))[0]["packet"] for each in headers]
    assert by_id[0] == by_id[1] != by_id[2]
    by_sequence = [only(individual(bytes(IP(id=0) / TCP(seq=seq, window=window))[:28]))[0]["packet"]
                   for seq, window in ((1, 1), (1, 2), (2, 1))]  # fmt: skip
    assert by_sequence[0] == by_sequence[1] != by_sequence[2]
