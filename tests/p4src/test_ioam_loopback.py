"""IOAM loopback flag (RFC 9322): transit nodes send copies back to the encapsulating node."""

from dataclasses import replace
from ipaddress import IPv6Address
from typing import Any

import pytest
from ioam_path import (
    DROP_FOREIGN,
    HOST_MAC,
    IN,
    NAMESPACE,
    OUT,
    SHORT,
    TO_COLLECTOR,
    TUNNEL,
    Switch,
    options_of,
    parse_report,
    trace_of,
    udp,
    with_options,
)
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from collectors.ioam.options import Trace, TraceFlag, TraceType, options_header
from minip4.engine.keys import Exact

FIRST = TUNNEL[0]
SECOND = "fd00:e::9"  # address of the transit node
FLAG = TraceFlag.LOOPBACK
HOST_1 = 0x020000000001


def first(nodes: int = 4, *, incremental: bool = False, **options: Any) -> Switch:
    """Return the encapsulating node, at which copies arrive at port 2."""
    switch = Switch(1, border=DROP_FOREIGN, **options)
    switch.insert_trace(TraceType.HOP_NODE, nodes, loopback=True, incremental=incremental)
    switch.begin_tunnel()
    own = f"{switch.watch}.tunnel_ends", f"{switch.watch}.end_tunnel"
    switch.engine.table_add(own[0], [Exact(int(IPv6Address(FIRST)))],
                            own[1], [0])  # fmt: skip
    return switch


def tunnelled(option: Trace) -> bytes:
    """Return a packet in a tunnel that begins at FIRST."""
    inner = udp()[14:]
    header = options_header([option], 41)
    outer = IPv6(src=FIRST, dst=TUNNEL[1], nh=0, plen=len(header) + len(inner))
    return udp()[:14] + bytes(outer) + header + inner


def transit(node: int = 2, gap_us: int = 0, **options: bool) -> Switch:
    switch = Switch(node, **options)
    switch.loop_back(SECOND, gap_us)
    return switch


def copies(sent: list[tuple[int, bytes]]) -> list[bytes]:
    """Return the frames that leave through the port of arrival."""
    return [frame for port, frame in sent if port == IN]


def forwarded(sent: list[tuple[int, bytes]]) -> bytes:
    (frame,) = (frame for port, frame in sent if port == OUT)
    return frame


@pytest.mark.parametrize("incremental", [False, True])
@pytest.mark.parametrize("data", [udp(), udp(bytes(900))], ids=["short", "long"])
def test_a_transit_node_sends_a_copy_that_ends_after_the_options(
    data: bytes, incremental: bool
) -> None:
    inside = first(incremental=incremental).pass_on(data, 100)
    assert trace_of(inside).flags == FLAG
    switch = transit()
    sent = switch.send(inside, 200)
    out = forwarded(sent)
    assert (trace_of(out).flags, [node.node for node in trace_of(out).nodes]) == (FLAG, [1, 2])
    (copy,) = copies(sent)
    packet = Ether(copy)
    assert (packet.src, packet.dst) == ("02:00:00:00:00:02", "02:00:00:00:00:01")
    assert (packet[IPv6].src, packet[IPv6].dst, packet[IPv6].hlim) == (SECOND, FIRST, 64)
    assert len(copy) == 14 + 40 + 8 * (copy[55] + 1)
    assert copy[54] == 59  # no next header
    assert trace_of(copy) == replace(trace_of(out), flags=0)
    assert switch.events() == {"looped back": 1}


def test_a_router_sends_the_copy_to_the_previous_hop() -> None:
    (copy,) = copies(transit(routed=True).send(first().pass_on(udp())))
    assert Ether(copy).dst == "02:00:00:00:00:01"
    assert Ether(copy).src == "02:00:00:00:00:02"


def test_nodes_on_the_way_back_add_data_but_send_no_copies() -> None:
    (copy,) = copies(transit(3).send(first().pass_on(udp())))
    back = transit(2)
    back.engine.table_add(
        f"{back.watch.replace('watch', 'forward')}.ioam_forwarding", [Exact(HOST_1)],
        f"{back.watch.replace('watch', 'forward')}.ioam_forward", [OUT],
    )  # fmt: skip
    ((port, out),) = back.send(copy)
    assert port == OUT
    assert [node.node for node in trace_of(out).nodes] == [1, 3, 2]


def test_the_encapsulating_node_reports_its_copies_and_drops_them() -> None:
    switch = first()
    (copy,) = copies(transit().send(switch.pass_on(udp(), 10), 20))
    ((port, report),) = switch.send(copy, 30, port=OUT)
    assert port == TO_COLLECTOR
    found = parse_report(report)
    assert found.copied_by == SECOND
    assert (found.node, found.data.node, found.packet) == (1, 1, copy[14:])
    (trace,) = found.options
    assert isinstance(trace, Trace)
    assert [node.node for node in trace.nodes] == [1, 2]
    assert switch.events() == {"terminated": 1}


@pytest.mark.parametrize("namespace", [NAMESPACE, 9])
def test_packets_without_data_of_the_encapsulating_node_are_no_copies(namespace: int) -> None:
    data = bytearray(with_options(Trace(TraceType.HOP_NODE, namespace)))
    data[38:54] = bytes(IPv6(dst=FIRST))[24:40]
    assert [port for port, _ in first().send(bytes(data), port=TO_COLLECTOR)] == [OUT]


def test_copies_of_other_nodes_are_forwarded() -> None:
    (copy,) = copies(transit().send(first().pass_on(udp())))
    changed = bytearray(copy)
    at = copy.rindex(bytes.fromhex("40000001"))  # hop limit and id of the first node
    changed[at + 3] = 7
    switch = first()
    forward = switch.watch.replace("watch", "forward")
    switch.engine.table_add(f"{forward}.ioam_forwarding", [Exact(HOST_1)],
                            f"{forward}.ioam_forward", [OUT])  # fmt: skip
    ((_, out),) = switch.send(bytes(changed), port=TO_COLLECTOR)
    assert [node.node for node in trace_of(out).nodes] == [7, 2, 1]


def test_a_copy_does_not_leave_the_domain() -> None:
    (copy,) = copies(transit().send(first().pass_on(udp())))
    there = HOST_MAC.to_bytes(6, "big") + copy[6:]
    edge = Switch(4, leaving=True)
    edge.keep_inside(FIRST)
    assert [port for port, _ in edge.send(there)] == [TO_COLLECTOR]
    assert edge.events() == {"leak dropped": 1}


@pytest.mark.parametrize(
    "option",
    [
        Trace(TraceType.HOP_NODE, NAMESPACE, 0, remaining=4),  # no flag
        Trace(SHORT, NAMESPACE, FLAG, remaining=8),  # has more fields than HOP_NODE
        Trace(TraceType.HOP_NODE, 9, FLAG, remaining=4),  # unknown namespace
    ],
    ids=["no flag", "other fields", "unknown namespace"],
)
def test_packets_of_which_no_copies_are_sent(option: Trace) -> None:
    assert copies(transit().send(tunnelled(option))) == []


def test_a_packet_without_a_tunnel_is_not_copied_because_its_source_may_be_outside() -> None:
    option = Trace(TraceType.HOP_NODE, NAMESPACE, FLAG, remaining=4)
    assert copies(transit().send(tunnelled(option)))
    assert copies(transit().send(with_options(option))) == []


def test_a_copy_without_data_of_the_encapsulating_node_does_not_leave_the_domain() -> None:
    """The encapsulating node does not know the namespace, so it did not add its data."""
    (copy,) = copies(transit().send(first(namespaces=()).pass_on(udp())))
    to_host = HOST_MAC.to_bytes(6, "big") + copy[6:]
    edge = first(leaving=True)
    assert [port for port, _ in edge.send(to_host, port=TO_COLLECTOR)] == [TO_COLLECTOR]
    assert edge.events() == {"leak dropped": 1}


def test_a_node_without_an_address_sends_no_copies() -> None:
    assert copies(Switch(2).send(first().pass_on(udp()))) == []


def test_the_rate_of_copies_is_limited() -> None:
    inside = first().pass_on(udp())
    switch = transit(gap_us=1000)
    times = [n * 250 + 77 for n in range(13)]
    sent = [time_us for time_us in times if copies(switch.send(inside, time_us))]
    assert sent == [77, 1077, 2077, 3077]
    assert switch.events() == {"looped back": 4}


def test_the_last_node_sends_no_copy() -> None:
    last = transit(3, leaving=True)
    last.end_tunnel()
    out, report = last.report(first().pass_on(udp()))
    assert out == udp()
    assert report.copied_by is None


def test_a_full_option_is_copied_with_its_overflow_flag() -> None:
    inside = tunnelled(Trace(TraceType.HOP_NODE, NAMESPACE, FLAG))
    (copy,) = copies(transit().send(inside))
    assert [trace.flags for trace in options_of(copy) if isinstance(trace, Trace)] == [
        TraceFlag.OVERFLOW
    ]
