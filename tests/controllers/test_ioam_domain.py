"""A domain of IOAM switches in virtual time, and invalid configurations."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mininet.topo import Topo
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from virtual_networks import virtually

from collectors.ioam.options import (
    DexFlag,
    E2EType,
    EdgeToEdge,
    OptionError,
    Report,
    Trace,
    TraceFlag,
    TraceType,
)
from controllers.connection import connections
from controllers.ioam.domain import REPORT_PORT, Domain, Namespace, configure, events
from controllers.ioam.flows import DirectExportOption, IoamFlow, TraceOption
from experiments.shared.ioam.hosts import FrameKeeper, ReportKeeper
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.session.run import Run
from topologies.basic import Line

PROGRAM = "p4src/ioam/ioam.p4"
ADDRESSES = {"h1": "fd00::1", "h2": "fd00::2"}
FIELDS = TraceType.HOP_NODE | TraceType.INTERFACES

LOOPBACK = TraceOption(TraceType.HOP_NODE, nodes=3, is_loopback=True)


class LineWithCollector(Line):
    """h1 - s1 - s2 - s3 - h2, and h3 at s3."""

    def build(self, **link: float) -> None:  # type: ignore[override]
        super().build(3, **link)
        self.addLink("s3", self.addHost("h3"))


def traced(
    folder: Path, flow: IoamFlow, frames: int = 3, *, rate_bps: float = 0, **options: Any
) -> tuple[list[bytes], list[Report], dict[str, dict[str, int]]]:
    """Send frames through the domain; return received frames, reports, nonzero event counters."""

    async def main(run: Run) -> tuple[list[bytes], list[Report], dict[str, dict[str, int]]]:
        link = {"rate_bps": rate_bps} if rate_bps else {}
        with Network(LineWithCollector(**link), run, program=PROGRAM) as net:
            receiver = net.run_application("h2", FrameKeeper())
            collector = net.run_application("h3", ReportKeeper(REPORT_PORT))
            domain = Domain("h3", [flow], addresses=ADDRESSES, **options)
            async with connections(net) as switches:
                await configure(net, switches, domain)
                sent = [frame(net, n) for n in range(frames)]
                begin_ns = run.clock.now_ns()
                net.send_frames("h1", [begin_ns + n for n in range(frames)], sent)
                await run.clock.sleep_until(begin_ns + 60 * 10**9)
                counts = {name: await events(switch) for name, switch in switches.items()}
        assert receiver.result in ([], sent)
        nonzero = {name: {event: n for event, n in each.items() if n}
                   for name, each in counts.items()}  # fmt: skip
        return receiver.result, collector.result, nonzero

    result: tuple[list[bytes], list[Report], dict[str, dict[str, int]]]
    result = virtually(folder, main)
    return result


def frame(net: Network, label: int) -> bytes:
    ip = IPv6(src="fd00::1", dst="fd00::2", fl=label)
    return bytes(Ether(dst=net.host("h2").MAC(), src=net.host("h1").MAC()) / ip / UDP() / b"data")


def test_a_flow_is_traced_from_edge_to_edge(tmp_path: Path) -> None:
    flow = IoamFlow("fd00::1", "fd00::/64", 17, option=TraceOption(FIELDS, nodes=2),
                    e2e=E2EType.SEQUENCE32, namespace=5)  # fmt: skip
    received, reports, counts = traced(tmp_path, flow, namespaces=[Namespace(5)])
    assert len(received) == 3
    assert counts == {"s1": {}, "s2": {}, "s3": {}}
    for number, report in enumerate(reports):
        trace, e2e = report.options
        assert isinstance(trace, Trace)
        assert [node.node for node in (*trace.nodes, report.data)] == [1, 2, 3]
        assert isinstance(e2e, EdgeToEdge)
        assert (report.node, report.sequence, report.flow_label) == (3, number, number)
        assert e2e.sequence32 == number


def test_switches_that_do_not_know_the_namespace_add_nothing(tmp_path: Path) -> None:
    flow = IoamFlow("fd00::1", "fd00::2", option=TraceOption(FIELDS, nodes=2), namespace=5)
    received, reports, counts = traced(tmp_path, flow)
    assert (len(received), reports) == (3, [])
    assert counts == {name: {"unknown namespace": 3} for name in ("s1", "s2", "s3")}


def test_each_switch_exports_directly_through_a_tunnel(tmp_path: Path) -> None:
    flow = IoamFlow("fd00::1", "fd00::2", option=DirectExportOption(FIELDS), tunnel_to="s3")
    received, reports, _ = traced(tmp_path, flow)
    assert len(received) == 3
    assert sorted((each.flow_label, each.node, each.data.node) for each in reports) == [
        (label, node, node) for label in range(3) for node in (1, 2, 3)
    ]


def test_a_domain_without_reports_of_its_edge(tmp_path: Path) -> None:
    flow = IoamFlow("fd00::1", "fd00::2", option=TraceOption(FIELDS, nodes=2))
    received, reports, _ = traced(tmp_path, flow, reports_edge=False)
    assert (len(received), reports) == (3, [])


def test_the_mtu_of_the_domain(tmp_path: Path) -> None:
    flow = IoamFlow("fd00::1", "fd00::2", option=TraceOption(FIELDS, nodes=2))
    _, reports, counts = traced(tmp_path, flow, mtu_bytes=80)
    assert (reports, counts["s1"]) == ([], {"no room": 3})


def test_long_transit_delays_have_the_overflow_bit(tmp_path: Path) -> None:
    """A delay in ns has 31 bits. Each packet takes one second to leave s1."""
    fields = TraceType.TRANSIT_DELAY | TraceType.QUEUE_DEPTH
    flow = IoamFlow("fd00::1", "fd00::2", option=TraceOption(fields, nodes=2))
    _, reports, _ = traced(tmp_path, flow, 12, rate_bps=1000)
    traces = [each.options[0] for each in reports]
    delays = [each.nodes[0].transit_delay or 0 for each in traces if isinstance(each, Trace)]
    short = [delay for delay in delays if delay != 0x80000000]
    assert 1 < len(short) < len(delays) == 12
    assert sorted(delays) == [*short, *delays[len(short) :]]
    assert 10**9 < short[-1] < 1 << 31


def test_active_packets_do_not_reach_the_host(tmp_path: Path) -> None:
    option = TraceOption(FIELDS, nodes=2, is_active=True)
    flow = IoamFlow("fd00::1", "fd00::2", option=option)
    received, reports, counts = traced(tmp_path, flow)
    assert (received, counts["s3"]) == ([], {"terminated": 3})
    assert [each.options[0].flags for each in reports] == [TraceFlag.ACTIVE] * 3  # type: ignore[union-attr]


def test_a_flow_that_enters_nowhere_is_refused(tmp_path: Path) -> None:
    flow = IoamFlow("fd00:9::1", "fd00::2", option=TraceOption(FIELDS, nodes=2))
    with pytest.raises(TestbedError, match=r"no host .* set `sources`"):
        traced(tmp_path, flow)


def test_a_tunnel_to_no_switch_is_refused(tmp_path: Path) -> None:
    flow = IoamFlow("fd00::1", "fd00::2", option=TraceOption(FIELDS, nodes=2), tunnel_to="s9")
    with pytest.raises(TestbedError, match=r"has no switch s9; set `tunnel_to`"):
        traced(tmp_path, flow)


COLLECTORS = {
    "no path": ("h3", "switch s1: no path .* to the collector h3; set"),
    "no collector": ({"s1": "h2"}, "switch s3: no collector; add it to"),
}


@pytest.mark.parametrize(("collector", "problem"), COLLECTORS.values(), ids=COLLECTORS.keys())
def test_collectors_that_switches_cannot_reach_are_refused(
    collector: Any, problem: str, tmp_path: Path
) -> None:

    class TwoParts(Topo):
        def build(self) -> None:
            self.addLink(self.addSwitch("s1"), self.addHost("h2"))
            self.addLink(self.addSwitch("s3"), self.addHost("h3"))

    async def main(run: Run) -> None:
        with Network(TwoParts(), run, program=PROGRAM) as net:
            async with connections(net) as switches:
                await configure(net, switches, Domain(collector, []))

    with pytest.raises(TestbedError, match=problem):
        virtually(tmp_path, main)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"src_addr": "10.0.0.1", "dst_addr": "10.0.0.2"}, "expected IPv6"),
        ({"share": 0.0}, "share 0.0"),
        ({"namespace": 1 << 16}, "namespace 65536"),
        ({"option": None}, "set `option` or `e2e`"),
        ({"option": TraceOption(FIELDS, nodes=31)}, "31 nodes need 62 words"),
        ({"option": TraceOption(FIELDS, nodes=0)}, "0 nodes: expected at least 1"),
        ({"option": TraceOption(TraceType(0), nodes=1)}, "expected 24 bits, not 0"),
        ({"option": TraceOption(FIELDS | TraceType.RESERVED, nodes=1)}, "last bit 0"),
        ({"option": DirectExportOption(TraceType.RESERVED)}, "last bit 0"),
        ({"option": DirectExportOption(FIELDS, DexFlag(0x20))}, "extensions 0x20"),
        ({"e2e": E2EType(0x0800)}, "edge-to-edge type 0x800"),
        ({"option": TraceOption(TraceType(1 << 24), nodes=1)}, "expected 24 bits"),
        ({"option": DirectExportOption(TraceType(1 << 24))}, "expected 24 bits"),
        ({"option": LOOPBACK}, "loopback: set `tunnel_to`"),
        (
            {"option": replace(LOOPBACK, trace_type=FIELDS), "tunnel_to": "s3"},
            "expected trace type",
        ),
    ],
)
def test_invalid_flows_are_refused(options: dict[str, Any], problem: str) -> None:
    valid = {"src_addr": "fd00::1", "dst_addr": "fd00::2", "option": TraceOption(FIELDS, nodes=2)}
    with pytest.raises(ValueError, match=problem):
        IoamFlow(**{**valid, **options})


def test_copies_come_back_to_the_encapsulating_node(tmp_path: Path) -> None:
    """The switch in the middle sends copies of packets, but not more than one in 10 ms."""
    flow = IoamFlow("fd00::1", "fd00::2", option=LOOPBACK, tunnel_to="s3")
    for gap_us, count in ((0, 3), (10_000, 1)):
        received, reports, counts = traced(tmp_path / str(gap_us), flow, loopback_gap_us=gap_us)
        assert len(received) == 3
        copies = [each for each in reports if each.copied_by is not None]
        assert [(each.node, each.copied_by) for each in copies] == [(1, "fd00:ed9e::2")] * count
        for each in copies:
            (trace,) = each.options
            assert isinstance(trace, Trace)
            assert [node.node for node in trace.nodes] == [1, 2]
        assert [each.node for each in reports if each.copied_by is None] == [3] * 3
        assert counts == {"s1": {"terminated": count}, "s2": {"looped back": count}, "s3": {}}


@pytest.mark.parametrize(
    "payload",
    [b"", bytes(8) + b"\x25" + bytes(10), bytes(8) + b"\x15" + bytes(60),
     bytes(8) + b"\x25" + bytes(6) + b"\x07" + bytes(60)],
    ids=["empty", "short", "no report of IOAM", "unknown option type"],
)  # fmt: skip
def test_a_malformed_report_is_an_option_error(payload: bytes) -> None:
    with pytest.raises(OptionError, match="report: shorter"):
        Report.decode(payload)
