"""IOAM trace options: each byte at encapsulating, transit and decapsulating nodes."""

import dataclasses
import zlib

import pytest
from ioam_path import (
    CPU_PORT,
    DATA,
    DATA_WIDE,
    ETHER,
    IN,
    NAMESPACE,
    NODE_WIDE,
    OUT,
    SHORT,
    TIMES,
    Switch,
    trace_of,
    udp,
    with_options,
)
from scapy.layers.inet import TCP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6

from collectors.ioam.options import NodeData, OptionType, Trace, TraceFlag, TraceType

ONES = 0xFFFFFFFF
KNOWN = 0xFFF000
EVERYTHING = 0xFFFFFF
FRAMES = {
    "UDP": udp(),
    "no payload": udp(b""),
    "an odd number of bytes": udp(b"seven b"),
    "TCP": bytes(ETHER / IPv6(src="fd00::1", dst="fd00::2") / TCP(dport=80) / b"data"),
    "ICMPv6": bytes(ETHER / IPv6(src="fd00::1", dst="fd00::2") / ICMPv6EchoRequest()),
    "a header and no more": bytes(ETHER / IPv6(src="fd00::1", dst="fd00::2", nh=59)),
    "longer than it says": udp() + bytes(9),
}


def encapsulating(trace_type: int, **options: bool | int) -> Switch:
    switch = Switch(1, border="drop_foreign")
    switch.insert_trace(trace_type, **options)
    return switch


def expected_node(trace_type: int, node: int, time_us: int, hop_limit: int = 64) -> NodeData:
    """Return the data that a node must add to a packet that does not wait in the switch."""
    data = NodeData(
        hop_limit=hop_limit, node=node, ingress=IN, egress=OUT, seconds=time_us // 10**6,
        fraction=time_us % 10**6, transit_delay=0, namespace_data=DATA + node, queue_depth=0,
        checksum=ONES, hop_limit_wide=hop_limit, node_wide=NODE_WIDE + node, ingress_wide=IN,
        egress_wide=OUT, namespace_data_wide=DATA_WIDE + node, buffer_occupancy=ONES,
        schema=0xFFFFFF,
    )  # fmt: skip
    return NodeData.decode(trace_type, data.encode(trace_type))[0]


def test_the_packet_behind_an_encapsulating_node_byte_by_byte() -> None:
    expected = bytes.fromhex(
        "020000000002 020000000001 86dd"
        "6b812345 0044 00 40"
        "fd000000000000000000000000000001 fd000000000000000000000000000002"
        "11 04 0100"  # UDP follows; 40 bytes; PadN
        "31 22 00 00 007b 1004 c00000 00"  # NodeLen 2, four words left
        "00000000 00000000 00000000 00000000 40000001 00010002"
    )
    assert encapsulating(SHORT).pass_on(udp()) == expected + udp()[54:]


@pytest.mark.parametrize("incremental", [False, True])
@pytest.mark.parametrize("trace_type", [
    TraceType.HOP_NODE, SHORT, SHORT | TIMES, KNOWN, 0x00F000, 0x000FFC, EVERYTHING, KNOWN | 2,
    *(1 << bit for bit in range(1, 24)),
])  # fmt: skip
def test_each_node_adds_its_data(trace_type: int, incremental: bool) -> None:
    words = len(NodeData().encode(trace_type)) // 4
    nodes = min(3, 61 // words)
    frame = udp()
    expected: list[NodeData] = []
    first = encapsulating(trace_type, words=nodes * words, incremental=incremental)
    for number, switch in enumerate([first, Switch(2), Switch(3)][:nodes], start=1):
        at_us = 1_999_990 + 7 * number
        frame = switch.pass_on(frame, at_us)
        expected.append(expected_node(trace_type, number, at_us))
        trace = trace_of(frame)
        assert trace.nodes == tuple(expected)
        assert (trace.namespace, trace.flags) == (NAMESPACE, 0)
        assert (trace.trace_type, trace.remaining) == (trace_type, (nodes - number) * words)
        assert trace.is_incremental == incremental
        assert len(frame[54:]) % 8 == len(udp()[54:]) % 8
    overflowed = trace_of(Switch(4).pass_on(frame))
    assert overflowed == dataclasses.replace(trace, flags=TraceFlag.OVERFLOW)


@pytest.mark.parametrize("incremental", [False, True])
@pytest.mark.parametrize("trace_type", [TraceType.HOP_NODE, SHORT, KNOWN])
@pytest.mark.parametrize("data", FRAMES.values(), ids=FRAMES.keys())
def test_the_packet_leaves_as_it_came(data: bytes, trace_type: int, incremental: bool) -> None:
    inside = encapsulating(trace_type, incremental=incremental).pass_on(data, 10)
    inside = Switch(2).pass_on(inside, 20)
    out, report = Switch(3, leaving=True).report(inside, 30)
    assert out == data
    length = 40 + int.from_bytes(inside[18:20], "big")
    assert inside[14 : 14 + length].startswith(report.packet)
    assert len(report.packet) == min(40 + (inside[55] + 1) * 8 + 24, length) // 4 * 4
    assert (report.node, report.option_type) == (3, OptionType(incremental))
    assert (report.namespace, report.trace_type) == (NAMESPACE, trace_type)
    assert report.data == expected_node(trace_type, 3, 30)


@pytest.mark.parametrize("offset_us", [0, 5, 1_790_000_000_000_000, 4_100_000_000_999_999])
def test_timestamps_are_unix_time(offset_us: int) -> None:
    switch = Switch(1, border="drop_foreign", offset_us=offset_us)
    switch.insert_trace(TraceType.SECONDS | TraceType.FRACTION, nodes=1)
    for at_us in (0, 1, 999_999, 1_000_000, (1 << 20) - 1, 1 << 20, 123_456_789_012, (1 << 47) - 1):
        (node,) = trace_of(switch.pass_on(udp(), at_us)).nodes
        assert (node.seconds, node.fraction) == divmod(at_us + offset_us, 1_000_000)


def test_a_router_tells_the_hop_limit_after_its_own_step() -> None:
    first = Switch(1, border="drop_foreign", routed=True)
    first.insert_trace(SHORT)
    inside = Switch(2, routed=True).pass_on(first.pass_on(udp(hlim=9)))
    assert [node.hop_limit for node in trace_of(inside).nodes] == [8, 7]
    assert inside[21] == 7
    assert Switch(3, routed=True).send(udp(hlim=1)) == []


def test_nodes_of_another_namespace_pass_the_option_on() -> None:
    inside = encapsulating(SHORT).pass_on(udp())
    other = Switch(2, namespaces=[0, 5])
    assert other.pass_on(inside) == inside
    assert other.events() == {"unknown namespace": 1}


def test_an_encapsulating_node_without_the_namespace_adds_no_data() -> None:
    switch = Switch(1, border="drop_foreign", namespaces=[0])
    switch.insert_trace(SHORT)
    assert trace_of(switch.pass_on(udp())) == Trace(SHORT, NAMESPACE, remaining=6)


def test_a_packet_with_the_overflow_flag_gets_no_more_data() -> None:
    inside = with_options(Trace(SHORT, NAMESPACE, TraceFlag.OVERFLOW, remaining=6))
    assert Switch(2).pass_on(inside) == inside


@pytest.mark.parametrize("flags", [TraceFlag.LOOPBACK, TraceFlag.ACTIVE, 1])
def test_other_flags_stay_as_they_are(flags: int) -> None:
    inside = with_options(Trace(SHORT, NAMESPACE, flags, remaining=2))
    trace = trace_of(Switch(2).pass_on(inside))
    assert (trace.flags, len(trace.nodes)) == (flags, 1)


def test_opaque_snapshots_of_other_nodes_stay() -> None:
    """A node adds its data in front of those of earlier nodes, whatever these contain."""
    trace_type = TraceType.HOP_NODE | TraceType.OPAQUE
    first = NodeData(hop_limit=64, node=9, schema=77, opaque=bytes(range(12)))
    inside = with_options(Trace(trace_type, NAMESPACE, remaining=5, nodes=(first,)))
    trace = trace_of(Switch(2).pass_on(inside))
    assert trace.nodes == (first, expected_node(trace_type, 2, 0))
    assert trace.remaining == 3


def test_active_packets_end_at_the_border_and_are_reported() -> None:
    inside = encapsulating(SHORT, active=True).pass_on(udp())
    assert trace_of(inside).flags == TraceFlag.ACTIVE
    last = Switch(3, leaving=True)
    assert [port for port, _ in last.send(inside)] == [3]
    assert last.events() == {"terminated": 1}


def test_a_packet_that_would_exceed_the_mtu_gets_no_option() -> None:
    for mtu, event in ((40 + 68, {}), (40 + 67, {"no room": 1})):
        switch = Switch(1, border="drop_foreign", mtu=mtu)
        switch.insert_trace(SHORT)
        out = switch.pass_on(udp())
        assert (out == udp(), switch.events()) == (bool(event), event)


def test_an_incremental_option_grows_only_up_to_the_mtu() -> None:
    inside = encapsulating(SHORT, incremental=True).pass_on(udp())
    length = len(inside) - 14 + 8
    assert len(trace_of(Switch(2, mtu=length).pass_on(inside)).nodes) == 2
    switch = Switch(2, mtu=length - 1)
    assert trace_of(switch.pass_on(inside)).flags == TraceFlag.OVERFLOW
    assert switch.events() == {"overflowed": 1}


def test_a_packet_with_hop_by_hop_options_is_not_changed() -> None:
    data = udp(header=bytes.fromhex("11 00 12 04 abcde000"))
    for has_tunnel in (False, True):
        switch = encapsulating(SHORT)
        if has_tunnel:
            switch.begin_tunnel()
        assert switch.pass_on(data) == data
        assert switch.events() == {"not possible": 1}


def test_samples_are_a_share_of_the_packets() -> None:
    switch = encapsulating(SHORT, sampling=(1 << 30) - 1)
    count = 400
    found = sum(switch.pass_on(udp(chksum=n + 1))[20] == 0 for n in range(count))
    assert 70 < found < 130


@pytest.mark.parametrize("kind", ["UDP", "ICMPv6"])
def test_samples_are_chosen_by_a_hash_in_which_missing_ports_are_0(kind: str) -> None:
    data = FRAMES[kind]
    ports = data[54:62] if kind == "UDP" else bytes(8)
    number = zlib.crc32(data[22:54] + data[20:21] + ports)
    for sampling, next_header in ((number, 0), (number - 1, data[20])):
        assert encapsulating(SHORT, sampling=sampling).pass_on(data)[20] == next_header


def test_a_switch_that_is_both_edges_changes_nothing() -> None:
    switch = Switch(1, border="drop_foreign", leaving=True)
    switch.insert_trace(SHORT)
    assert switch.pass_on(udp()) == udp()


def test_reports_are_numbered() -> None:
    inside = encapsulating(SHORT).pass_on(udp())
    last = Switch(3, leaving=True)
    assert [last.report(inside)[1].sequence for _ in range(3)] == [0, 1, 2]


def test_a_readout_brings_the_clock() -> None:
    ((port, answer),) = Switch(1).send(bytes(6) + b"number 7", 1234, CPU_PORT)
    assert (port, answer[6:12], answer[-8:]) == (CPU_PORT, (1234).to_bytes(6, "big"), b"number 7")
