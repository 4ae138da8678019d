"""Edge-to-edge options, direct export, and tunnels (RFC 2473) around traced packets."""

import pytest
from ioam_path import (
    DATA,
    DROP_FOREIGN,
    IN,
    NAMESPACE,
    OUT,
    SHORT,
    STRIP_FOREIGN,
    TIMES,
    TO_COLLECTOR,
    TUNNEL,
    Switch,
    options_of,
    trace_of,
    udp,
    with_options,
)
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from collectors.ioam.options import (
    DexFlag,
    DirectExport,
    E2EType,
    EdgeToEdge,
    NodeData,
    OptionType,
    Trace,
    TraceType,
    options_header,
)

ALL_E2E = E2EType.SEQUENCE64 | E2EType.SEQUENCE32 | E2EType.SECONDS | E2EType.FRACTION
FLOW = 7


def encapsulating() -> Switch:
    return Switch(1, border=DROP_FOREIGN)


@pytest.mark.parametrize("e2e_type", [each << 12 for each in range(1, 16)])
def test_edge_to_edge_options_count_packets_and_have_the_time(e2e_type: int) -> None:
    first = encapsulating()
    first.insert_trace(TraceType.HOP_NODE, e2e=e2e_type)
    for number in range(3):
        inside = first.pass_on(udp(), 1_000_000 * (number + 1) + 5)
        trace, found = options_of(inside)
        assert isinstance(trace, Trace)
        values = {"sequence64": number, "sequence32": number, "seconds": number + 1, "fraction": 5}
        bits = zip(values.items(), (0x8000, 0x4000, 0x2000, 0x1000), strict=True)
        expected = {name: value for (name, value), bit in bits if e2e_type & bit}
        assert found == EdgeToEdge(NAMESPACE, **expected)
        inside = Switch(2).pass_on(inside)
        assert len(trace_of(inside).nodes) == 2
        assert options_of(inside)[1] == found
        assert Switch(3, leaving=True).report(inside)[0] == udp()


def test_an_edge_to_edge_option_alone_is_reported_at_the_last_node() -> None:
    first = encapsulating()
    first.insert("insert_edge_to_edge", [ALL_E2E, 0xFFFFFFFF])
    inside = first.pass_on(udp(), 9)
    assert inside == with_options(EdgeToEdge(NAMESPACE, 0, 0, 0, 9))
    out, report = Switch(3, leaving=True).report(Switch(2).pass_on(inside))
    assert (out, report.option_type, report.data) == (udp(), OptionType.E2E, NodeData())
    assert report.packet == inside[14 : 14 + len(report.packet)]


def test_flows_count_separately() -> None:
    numbers = []
    for flow in (1, 2):
        first = encapsulating()
        first.insert("insert_edge_to_edge", [E2EType.SEQUENCE32, 0xFFFFFFFF], flow=flow)
        numbers.append([options_of(first.pass_on(udp()))[0].sequence32 for _ in range(3)])
    assert numbers == [[0, 1, 2]] * 2


@pytest.mark.parametrize("extensions", [0, DexFlag.FLOW, DexFlag.SEQUENCE, 0xC0])
def test_every_node_exports_directly(extensions: int) -> None:
    first = encapsulating()
    trace_type = SHORT | TIMES | TraceType.NAMESPACE_DATA
    first.insert_dex(trace_type, extensions)
    for number in range(2):
        option = DirectExport(
            trace_type, NAMESPACE, flow=FLOW if extensions & DexFlag.FLOW else None,
            sequence=number if extensions & DexFlag.SEQUENCE else None,
        )  # fmt: skip
        frame = udp()
        for node, switch in enumerate((first, Switch(2), Switch(3, leaving=True)), start=1):
            came = frame
            frame, report = switch.report(came, 10 * node)
            if node < 3:
                assert options_of(frame) == [option]
            carrier = frame if node == 1 else came
            assert report.packet == carrier[14 : 14 + len(report.packet)]
            assert len(report.packet) == 40 + (carrier[55] + 1) * 8 + 24
            assert (report.node, report.sequence) == (node, number if node == 1 else 0)
            assert (report.option_type, report.namespace) == (OptionType.DEX, NAMESPACE)
            assert report.data == NodeData(
                hop_limit=64, node=node, ingress=IN, egress=OUT, seconds=0, fraction=10 * node,
                transit_delay=0, namespace_data=DATA + node,
            )  # fmt: skip
        assert frame == udp()


def test_nodes_of_another_namespace_do_not_export() -> None:
    inside = with_options(DirectExport(SHORT, NAMESPACE))
    assert Switch(2, namespaces=[0]).pass_on(inside) == inside


def test_a_transit_node_both_exports_and_adds_data() -> None:
    """The report contains the packet as it arrived, also if this node extends its option."""
    for incremental in (False, True):
        inside = with_options(
            Trace(TraceType.HOP_NODE, NAMESPACE, remaining=1, is_incremental=incremental),
            DirectExport(SHORT, 0),
        )
        out, report = Switch(2).report(inside)
        assert [node.node for node in trace_of(out).nodes] == [2]
        assert report.packet == inside[14 : 14 + len(report.packet)]
        assert (report.namespace, report.trace_type) == (0, SHORT)


def test_a_report_about_a_router_has_the_hop_limit_as_received() -> None:
    inside = with_options(DirectExport(SHORT, NAMESPACE))
    out, report = Switch(2, routed=True).report(inside)
    assert (out[21], report.packet[7], report.data.hop_limit) == (63, 64, 63)


@pytest.mark.parametrize("role", ["transit", "leaving"])
def test_a_packet_that_was_cut_is_not_reported(role: str) -> None:
    inside = with_options(DirectExport(SHORT, NAMESPACE))[:-1]
    sent = Switch(2, leaving=role == "leaving").send(inside)
    assert [port for port, _ in sent] == [OUT]


TRACED = {"trace": (SHORT, False), "incremental": (TraceType.HOP_NODE, True)}
INSIDE = {
    "UDP": udp(),
    "a header and no more": bytes(
        Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")
        / IPv6(src="fd00::1", dst="fd00::2", nh=59)
    ),
}


@pytest.mark.parametrize("kind", TRACED.values(), ids=TRACED.keys())
@pytest.mark.parametrize("data", INSIDE.values(), ids=INSIDE.keys())
def test_a_tunnel_carries_the_options(data: bytes, kind: tuple[int, bool]) -> None:
    trace_type, incremental = kind
    first, last = encapsulating(), Switch(3, leaving=True)
    first.insert_trace(trace_type, incremental=incremental, e2e=E2EType.SEQUENCE32)
    first.begin_tunnel()
    last.end_tunnel()
    inside = first.pass_on(data)
    outer = Ether(inside)[IPv6]
    assert (outer.src, outer.dst, outer.hlim) == (*TUNNEL, 64)
    assert (outer.tc, outer.fl) == (Ether(data)[IPv6].tc, Ether(data)[IPv6].fl)
    assert inside[54] == 41
    assert inside.endswith(data[14:])
    inside = Switch(2).pass_on(inside)
    assert [node.node for node in trace_of(inside).nodes] == [1, 2]
    out, report = last.report(inside)
    assert out == data
    assert report.packet == inside[14 : 14 + len(report.packet)]
    assert len(report.packet) >= 40 + (inside[55] + 1) * 8 + 40


def test_a_router_at_each_end_of_a_tunnel_decrements_the_inner_hop_limit() -> None:
    first, last = Switch(1, routed=True), Switch(3, leaving=True, routed=True)
    first.insert_trace(SHORT)
    first.begin_tunnel()
    last.end_tunnel()
    inside = first.pass_on(udp(hlim=9))
    assert (inside[21], inside.index(udp(hlim=8)[14:54]) > 0) == (64, True)
    assert last.report(inside)[0][14:] == udp(hlim=7)[14:]


@pytest.mark.parametrize("sent", range(4))
@pytest.mark.parametrize("met", range(4))
def test_congestion_marks_are_copied_to_the_inner_packet(sent: int, met: int) -> None:
    """RFC 6040, 4.2: marked packets that are not ECN-capable are dropped."""

    def with_ecn(frame: bytes, ecn: int) -> bytes:
        return frame[:15] + bytes((frame[15] & 0xCF | ecn << 4,)) + frame[16:]

    first, last = encapsulating(), Switch(3, leaving=True)
    first.insert_trace(SHORT)
    first.begin_tunnel()
    last.end_tunnel()
    data = with_ecn(udp(), sent)
    inside = with_ecn(first.pass_on(data), met)
    changes = met == 3 or (sent, met) == (2, 1)
    expected = [with_ecn(data, met) if changes else data] if sent or met != 3 else []
    assert [out for port, out in last.send(inside) if port == OUT] == expected


@pytest.mark.parametrize("from_outside", [b"", options_header([EdgeToEdge(NAMESPACE)], 41)])
def test_a_tunnel_carries_tunnels_of_others(from_outside: bytes) -> None:
    first, last = Switch(1, border=STRIP_FOREIGN), Switch(3, leaving=True)
    first.insert_trace(SHORT)
    first.begin_tunnel()
    last.end_tunnel()
    data = udp(header=from_outside + udp()[14:])
    data = data[:20] + (b"\0" if from_outside else b"\x29") + data[21:]
    expected = udp(header=udp()[14:])
    expected = expected[:20] + b"\x29" + expected[21:]
    inside = first.pass_on(data)
    assert inside.endswith(expected[14:])
    assert last.report(inside)[0] == expected


def test_a_report_of_the_first_node_of_a_tunnel_has_both_ip_headers() -> None:
    first = encapsulating()
    first.insert_dex(SHORT)
    first.begin_tunnel()
    out, report = first.report(udp(bytes(100)))
    assert report.packet == out[14 : 14 + 40 + (out[55] + 1) * 8 + 40 + 24]


@pytest.mark.parametrize("reports", [True, False])
def test_a_tunnel_that_ends_inside_of_the_domain_is_reported(reports: bool) -> None:
    first, last = encapsulating(), Switch(3)
    first.insert_trace(SHORT)
    first.begin_tunnel()
    last.end_tunnel(reports=reports)
    sent = last.send(first.pass_on(udp()))
    assert sent[0] == (OUT, udp())
    assert [port for port, _ in sent[1:]] == [TO_COLLECTOR] * reports


def test_the_last_node_exports_directly_even_if_it_does_not_report_traces() -> None:
    last = Switch(3, leaving=True, reports=False)
    out, report = last.report(with_options(Trace(SHORT, 0), DirectExport(TIMES, NAMESPACE)))
    assert (out, report.option_type, report.trace_type) == (udp(), OptionType.DEX, TIMES)


def test_a_tunnel_of_others_is_not_taken_apart() -> None:
    """A tunnel ends only at an address of the switch, and only if its packets have IOAM."""
    first = encapsulating()
    first.insert_trace(SHORT)
    first.begin_tunnel()
    inside = first.pass_on(udp())
    sent = dict(Switch(3, leaving=True).send(inside))
    assert sent[OUT] == inside[:18] + (68).to_bytes(2, "big") + b"\x29" + inside[21:54] + udp()[14:]
    last = Switch(3, leaving=True)
    last.end_tunnel()
    assert last.pass_on(sent[OUT]) == sent[OUT]
    assert sorted(sent) == [OUT, TO_COLLECTOR]


def test_a_tunnel_has_less_room_for_packets() -> None:
    for mtu, event in ((40 + 40 + 68, {}), (40 + 40 + 67, {"no room": 1})):
        switch = Switch(1, border=DROP_FOREIGN, mtu=mtu)
        switch.insert_trace(SHORT)
        switch.begin_tunnel()
        out = switch.pass_on(udp())
        assert (out == udp(), switch.events()) == (bool(event), event)
