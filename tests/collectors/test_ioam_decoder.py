"""IOAM reports: the decoder in C agrees with the one in Python, and survives hostile input."""

import random
from dataclasses import replace
from typing import Any

import made_ioam
import numpy as np
import pytest
from decoding import decoded, hop, report
from scapy.layers.inet6 import IPv6
from test_int_hostile import FILLER, without_neighbours
from test_int_index import Taken

from collectors.int.decoder import Encoding
from collectors.int.native import Bit, IoamField, ParseStatus
from collectors.ioam.options import (
    DirectExport,
    EdgeToEdge,
    NodeData,
    OptionType,
    Report,
    Trace,
    TraceFlag,
    TraceType,
)

PATH_TYPE = (
    TraceType.HOP_NODE | TraceType.INTERFACES | TraceType.SECONDS | TraceType.FRACTION
    | TraceType.TRANSIT_DELAY
)  # fmt: skip


def expected_hop(node: NodeData) -> dict[str, Any]:
    """Return the hop that the decoder must find, from the fields in Python."""

    def value(*names: str) -> int | None:
        return next((getattr(node, name) for name in names if node.is_available(name)), None)

    found = {
        "node": value("node", "node_wide"), "occupancy": value("queue_depth"),
        "buffer_occupancy": value("buffer_occupancy"), "complement": value("checksum"),
        "hop_limit": value("hop_limit_wide", "hop_limit"),
    }  # fmt: skip
    if found["node"] is not None:
        found["node"] &= 0xFFFFFFFF
    for ingress, egress in (("ingress_wide", "egress_wide"), ("ingress", "egress")):
        pair = [getattr(node, name) for name in (ingress, egress)]
        if None not in pair and (node.is_available(ingress) or node.is_available(egress)) and (
            max(pair) < 1 << 16
        ):  # fmt: skip
            found["ingress"], found["egress"] = pair
    if node.transit_delay is not None and node.transit_delay < 1 << 31:
        found["latency_ns"] = node.transit_delay
    times = value("seconds"), value("fraction")
    if None not in times and times[1] < 10**6:
        found["ingress_ns"] = times[0] * 10**9 + times[1] * 1000
        if "latency_ns" in found:
            found["egress_ns"] = found["ingress_ns"] + found["latency_ns"]
    return {name: each for name, each in found.items() if each is not None}


def decoded_hop(part: Any, index: int) -> dict[str, Any]:
    found = hop(part, index)
    for name in ("ds", "queue", "buffer"):
        found.pop(name, None)
    if part.hops[index]["has"] & Bit.HOP_LIMIT:
        found["hop_limit"] = int(part.hops[index]["hop_limit"])
    return found


def test_the_decoder_agrees_with_the_options() -> None:
    rng = random.Random(1)
    hops = 0
    for number in range(400):
        made, option = made_ioam.report(rng, 7, number)
        part = decoded([made.encode()])
        assert not len(part.faults)
        said, _ = report(part, 0)
        assert said["ioam_type"] == made.option_type
        assert said["ioam_namespace"] == option.namespace
        assert (said["source_port"], said["destination_port"], said["ttl"]) == (1234, 80, 9)
        nodes = list(option.nodes) if isinstance(option, Trace) else []
        expected = [expected_hop(node) for node in nodes]
        if made.trace_type:
            expected.append({**expected_hop(made.data), "node": 7})
        assert [decoded_hop(part, index) for index in range(said["hops"])] == expected
        if isinstance(option, Trace):
            assert (said["trace_type"], said["ioam_flags"]) == (option.trace_type, option.flags)
        hops += len(expected)
    assert hops > 500


def test_times_in_other_formats() -> None:
    kind = TraceType.SECONDS | TraceType.FRACTION
    made = Report(7, trace_type=kind, data=NodeData(seconds=5, fraction=1 << 29),
                  packet=made_ioam.packet([DirectExport(kind)]))  # fmt: skip
    for unit, time_ns in ((0, 5_125_000_000), (1, 5_536_870_912)):
        part = decoded([made.encode()], encoding=Encoding(ioam_fraction_ns=unit))
        assert part.hops["ingress_ns"].tolist() == [time_ns]


def test_a_fraction_of_all_ones_is_not_available() -> None:
    kind = TraceType.SECONDS | TraceType.FRACTION
    made = Report(7, trace_type=kind, data=NodeData(seconds=5, fraction=0xFFFFFFFF),
                  packet=made_ioam.packet([DirectExport(kind)]))  # fmt: skip
    [found] = decoded([made.encode()], encoding=Encoding(ioam_fraction_ns=0)).hops
    assert not found["has"] & Bit.INGRESS


def test_fields_of_edge_to_edge_and_direct_export() -> None:
    options = (
        EdgeToEdge(3, sequence64=1 << 40, sequence32=5, seconds=2, fraction=7),
        EdgeToEdge(3, sequence32=5), DirectExport(PATH_TYPE, 3, flow=9, sequence=8),
        DirectExport(PATH_TYPE, 3), DirectExport(PATH_TYPE, 3, flow=9),
        DirectExport(PATH_TYPE, 3, sequence=8),
    )  # fmt: skip
    payloads = [
        Report(7, namespace=3, option_type=made_ioam.kind_of(option),
               packet=made_ioam.packet([option])).encode()
        for option in options
    ]  # fmt: skip
    found = decoded(payloads).reports[["ioam_has", "ioam_sequence", "ioam_time_ns", "ioam_flow"]]
    has = IoamField.SEQUENCE
    assert found.tolist() == [
        (has | IoamField.TIME, 1 << 40, 2_000_007_000, 0), (has, 5, 0, 0),
        (has | IoamField.FLOW, 8, 0, 9), (0, 0, 0, 0),
        (IoamField.FLOW, 0, 0, 9), (has, 8, 0, 0),
    ]  # fmt: skip


def test_wide_interfaces_that_fit_are_those_of_the_hop() -> None:
    kind = TraceType.INTERFACES_WIDE
    made = Report(7, trace_type=kind, data=NodeData(ingress_wide=300, egress_wide=0xFFFE),
                  packet=made_ioam.packet([DirectExport(kind)]))  # fmt: skip
    assert decoded([made.encode()]).hops[["ingress", "egress"]].tolist() == [(300, 0xFFFE)]


def test_packets_of_two_ioam_flows_differ() -> None:
    options = [DirectExport(PATH_TYPE, flow=flow, sequence=8) for flow in (1, 2, 1)]
    found = decoded([Report(7, packet=made_ioam.packet([option])).encode() for option in options])
    one, other, again = found.reports["packet"].tolist()
    assert one == again != other


def test_a_routing_header_has_no_options() -> None:
    packet = bytearray(made_ioam.packet([trace(1)]))
    packet[6] = 43
    found = decoded([replace(traced(trace(1)), packet=bytes(packet)).encode()])
    assert found.reports["parse_status"].tolist() == [ParseStatus.IOAM_OPTION]


def test_an_option_after_a_routing_header_is_found() -> None:
    packet = made_ioam.packet([trace(2)])
    routing = bytes([60, 0, 4, 0]) + bytes(4)  # 60: destination options
    packet = packet[:6] + b"\x2b" + packet[7:40] + routing + packet[40:]
    found = decoded([replace(traced(trace(1)), packet=packet).encode()])
    assert found.hops["node"].tolist() == [1, 2]


def trace(nodes: int, flags: int = 0) -> Trace:
    """Return a trace of nodes 1, 2, ... They are 10 us apart, and each delays packets by 3 us."""
    return Trace(PATH_TYPE, flags=flags, remaining=2, nodes=tuple(
        NodeData(65 - node, node, 1, 2, 1, 10 * node, 3000) for node in range(1, nodes + 1)
    ))  # fmt: skip


def traced(option: Trace, sequence: int = 0, **settings: Any) -> Report:
    return Report(7, sequence, option_type=OptionType.PREALLOCATED,
                  packet=made_ioam.packet([option]), **settings)  # fmt: skip


def exported(node: int, number: int) -> Report:
    """Return a DEX report of a node for packet `number` of a flow."""
    data = NodeData(65 - node, node, 1, 2, 1, 10 * node, 3000)
    option = DirectExport(PATH_TYPE, flow=1, sequence=number)
    return Report(node, number, trace_type=PATH_TYPE, data=data,
                  packet=made_ioam.packet([option], hop_limit=65 - node))  # fmt: skip


def test_a_trace_and_direct_export_give_the_same_path_and_statistics() -> None:
    by_trace = Taken([traced(trace(3), number).encode() for number in range(4)])
    by_export = Taken([exported(node, number).encode() for number in range(4)
                       for node in (3, 1, 2)])  # fmt: skip
    assert by_trace.path() == by_export.path() == [1, 2, 3]
    one, other = (taken.flow()["path"][:3] for taken in (by_trace, by_export))
    for name in ("latency_ns", "link_ns", "ingress", "egress"):
        assert one[name].tolist() == other[name].tolist()
    assert one["link_ns"]["min"].tolist() == [0, 7000, 7000]


def test_a_trace_that_overflowed_is_not_a_path_change() -> None:
    taken = Taken([traced(trace(3)).encode(), traced(trace(2, TraceFlag.OVERFLOW), 1).encode()])
    assert taken.path() == [1, 2, 3]
    assert (taken.flow()["changes"], taken.flow()["partial"]) == (0, 1)


def test_a_shorter_trace_without_overflow_is_a_path_change() -> None:
    taken = Taken([traced(trace(3)).encode(), traced(trace(2), 1).encode()])
    assert taken.flow()["changes"] == 1


def test_the_flow_in_a_tunnel_of_the_domain_is_that_of_the_inner_packet() -> None:
    inner = bytes(IPv6(src="fd00::a", dst="fd00::b", nh=59, hlim=40))
    header = made_ioam.options_header([trace(2)], 41)
    outer = bytes(IPv6(nh=0, plen=len(header) + len(inner), hlim=61)) + header + inner
    said, hops = report(decoded([replace(traced(trace(2)), packet=outer).encode()]), 0)
    assert (str(said["source"]), str(said["destination"])) == ("fd00::a", "fd00::b")
    assert (said["ttl"], [each["node"] for each in hops]) == (61, [1, 2])


def test_the_option_of_another_namespace_is_not_the_one_of_the_report() -> None:
    packet = made_ioam.packet([replace(trace(2), namespace=5), trace(1)])
    said, hops = report(decoded([replace(traced(trace(1)), packet=packet).encode()]), 0)
    assert [each["node"] for each in hops] == [1]
    assert not said["parse_status"]


def test_a_truncated_trace_keeps_its_newest_nodes() -> None:
    whole = traced(trace(3))
    # IPv6 header, options header, option header, free space, two nodes of 20 bytes, and 8 bytes
    cut = whole.packet[: 40 + 4 + 12 + 8 + 2 * 20 + 8]
    said, hops = report(decoded([replace(whole, packet=cut).encode()]), 0)
    assert [each["node"] for each in hops] == [2, 3]
    assert said["parse_status"] == ParseStatus.INT_CUT


def changed(at: int, value: int) -> Report:
    """Return the report of a trace of two nodes, with a byte of the IPv6 packet changed."""
    made = traced(trace(2))
    packet = bytearray(made.packet)
    packet[at] = value
    return replace(made, packet=bytes(packet))


WITHIN = {  # offsets: option at 44, its IOAM-Option-Type at 47, trace header at 48
    "no option": (replace(traced(trace(1)), packet=made_ioam.packet([])), "IOAM_OPTION"),
    "another IOAM type": (changed(47, OptionType.INCREMENTAL), "IOAM_OPTION"),
    "another namespace": (changed(49, 1), "IOAM_OPTION"),
    "NodeLen of another type": (changed(50, 6 << 3), "NODE_LENGTH"),
    "RemainingLen of all": (changed(51, 0x7F), "REMAINING_LENGTH"),
    "a part of a node after the last": (changed(51, 1), "STACK"),
    "an opaque snapshot past the option": (changed(54, TraceType.OPAQUE), "STACK"),
    "no IPv6": (replace(traced(trace(1)), packet=b"\x45" + bytes(47)), "IOAM_OPTION"),
    "nothing": (replace(traced(trace(1)), packet=b""), "IOAM_OPTION"),
    "proof of transit": (replace(traced(trace(1)), option_type=OptionType.POT), "IOAM_OPTION"),
}


@pytest.mark.parametrize("name", WITHIN)
def test_the_node_data_of_a_report_survive_a_malformed_option(name: str) -> None:
    made, status = WITHIN[name]
    made = replace(made, trace_type=TraceType.HOP_NODE, data=NodeData(5, 7))
    part = decoded([made.encode()])
    assert part.reports["parse_status"].tolist() == [ParseStatus[status]]
    assert part.faults["parse_status"].tolist() == [ParseStatus[status]]
    assert part.hops[-1]["node"] == 7


MALFORMED = {
    "no room for the fixed part": "20000000 00000007 25010020 00000004",
    "more metadata than the trace type": "20000000 00000007 25030120 00000004 00000000 00000000",
    "less metadata than the trace type": "20000000 00000007 25020020 00000004 80000000",
    "an opaque snapshot past the metadata":
        "20000000 00000007 25030120 00000004 00000200 01000000",
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_a_report_whose_length_contradicts_its_type_is_skipped(name: str) -> None:
    part = decoded([bytes.fromhex(MALFORMED[name])])
    assert len(part.reports) == len(part.hops) == 0
    assert part.faults["parse_status"].tolist() == [ParseStatus.METADATA_LENGTH]


def test_the_length_of_an_opaque_snapshot_is_not_read_after_the_datagram() -> None:
    """The test fails only with AddressSanitizer: see test_sanitized.py."""
    payload = bytes.fromhex("20000000 00000007 25030120 00000004 E0000200 00000001")
    part = decoded([FILLER, payload])
    assert part.faults["parse_status"][-1] == ParseStatus.METADATA_LENGTH


def test_only_ipv6_has_ioam_options() -> None:
    data = bytearray(traced(trace(1)).encode())
    data[8] = 0x24
    assert decoded([bytes(data)]).reports["parse_status"].tolist() == [ParseStatus.INNER_TYPE]


def mutated(rng: random.Random) -> bytes:
    """Return a report with some bytes changed, most of them in the option, or a part removed."""
    data = bytearray(made_ioam.report(rng, 7)[0].encode())
    for _ in range(rng.randrange(1, 5)):
        at = min(int(rng.expovariate(1 / 60)), len(data) - 1)
        data[at] = rng.choice((0, 1, 0x31, 0x7F, 0x80, 0xFF, rng.getrandbits(8)))
    if rng.random() < 0.3:
        del data[rng.randrange(len(data)) :]
    return bytes(data)


@pytest.mark.parametrize("seed", range(3))
def test_hostile_reports_depend_only_on_their_own_bytes(seed: int) -> None:
    rng = random.Random(20 + seed)
    payloads = [mutated(rng) for _ in range(1000)]
    good = traced(trace(3)).encode()
    found = []
    for neighbour in (b"\xff" * len(good), bytes(len(good)), good):
        part = decoded([each for payload in payloads for each in (payload, neighbour)])
        found.append(without_neighbours(part, [*range(0, 2 * len(payloads), 2)]))
    assert found[0] == found[1] == found[2]


def test_hostile_reports_leave_the_index_and_its_bounds_intact() -> None:
    rng = random.Random(30)
    taken = Taken([mutated(rng) for _ in range(2000)])
    part = decoded([mutated(rng) for _ in range(1000)])
    ends = part.reports["first_hop"] + part.reports["hops"].astype(np.uint32)
    assert (part.reports["first_hop"][1:] == ends[:-1]).all()
    assert ends[-1] == len(part.hops)
    assert len(taken.index.flows()) > 1


def test_the_path_of_a_copy_begins_at_the_reporter_and_comes_back() -> None:
    """The source address of the copy is the node that sent it back (RFC 9322)."""
    nodes = tuple(NodeData(hop_limit=64, node=node) for node in (1, 3, 2))
    header = made_ioam.options_header([Trace(TraceType.HOP_NODE, nodes=nodes)], 59)
    ip = IPv6(src="fd00:e::3", dst="fd00:e::1", nh=0, plen=len(header))
    made = Report(1, option_type=OptionType.PREALLOCATED, trace_type=TraceType.HOP_NODE,
                  data=NodeData(hop_limit=63, node=1), packet=bytes(ip) + header)  # fmt: skip
    assert made.copied_by == "fd00:e::3"
    part = decoded([made.encode()])
    assert not len(part.faults)
    assert part.hops["node"].tolist() == [1, 3, 2, 1]
    assert part.reports["key"]["source"].tobytes() == bytes(ip)[8:24]
