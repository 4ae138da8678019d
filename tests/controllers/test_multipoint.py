"""A collector that measures flows with several points at their ends, in virtual time."""

from pathlib import Path

import finsy as fy
import pytest
from mininet.topo import Topo
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from virtual_networks import virtually

from controllers.ampm.clusters import monitoring_links, partition
from controllers.ampm.collector import Collector
from controllers.ampm.records import Point, PointRecord
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import (
    Bounds,
    Hop,
    Multipoint,
    Tunnel,
    WatchedFlow,
    check_paths,
    watch_at,
)
from controllers.connection import connection, cpu_ports
from telemark.accounting import pcap
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.session.run import Run

GROUP, GROUP_MAC = "239.1.2.3", "01:00:5e:01:02:03"
SCHEDULE = Schedule(2**17)
FLOW = WatchedFlow(7, "10.0.0.1", GROUP)
PACKETS = 400
TREE = {"s1": ("s2", "s3"), "s2": ("h2", "h3"), "s3": ("h4", "h5", "h6")}
LINKS = [("s1", "s2"), ("s1", "s3")]


class Named:
    def __init__(self, name: str) -> None:
        self.name = name


ENDS = [Named("s1"), Named("s2"), Named("s3")]


def test_each_end_marks_or_clears() -> None:
    path = Multipoint(first=ENDS[:1], last=ENDS[2:], middle=ENDS[1:2])
    found = {name: watch_at(path, name, FLOW)[1:] for name in ("s1", "s2", "s3")}
    assert found == {"s1": (True, False), "s2": (False, False), "s3": (False, True)}


@pytest.mark.parametrize(
    ("flow", "path", "words"),
    [
        (FLOW, Multipoint(ENDS[:2], ENDS[1:]), "contains a switch twice"),
        (
            WatchedFlow(1, "fd00::1", "fd00::2", flow_mon_id=1, tunnel=Tunnel("::1", "::2")),
            Multipoint(ENDS[:1], ENDS[1:]),
            "a tunnel has only one path",
        ),
        (
            WatchedFlow(
                1, "fd00::1", "fd00::2", flow_mon_id=1, tunnel=Tunnel("::1", "::2"),
                end_to_end=True,
            ),
            ENDS,
            "only the ends of a tunnel with end_to_end measure",
        ),
    ],
)  # fmt: skip
def test_points_that_make_counts_wrong_are_refused(
    flow: WatchedFlow, path: Multipoint[Named], words: str
) -> None:
    with pytest.raises(TestbedError, match=words):
        check_paths({flow: path})


def test_a_flow_without_a_last_point_is_refused() -> None:
    with pytest.raises(TestbedError, match="at least two switches"):
        watch_at(Multipoint(ENDS[:1], []), "s1", FLOW)


class Tree(Topo):
    """The tree TREE, with the sender h1 at s1. Links between switches lose packets."""

    def build(self) -> None:
        for name in TREE:
            self.addSwitch(name)
        self.addLink(self.addHost("h1"), "s1")
        for switch, below in TREE.items():
            for name in below:
                if name[0] == "h":
                    self.addHost(name)
                self.addLink(switch, name, loss_probability=0.1 if name[0] == "s" else 0)


def group_of(net: Network, switch: str) -> fy.P4MulticastGroupEntry:
    replicas = [net.port(switch, name) for name in TREE[switch]]
    return fy.P4MulticastGroupEntry(1, replicas=replicas)


def frames() -> list[bytes]:
    ether = Ether(src="02:00:00:00:00:01", dst=GROUP_MAC)
    return [bytes(ether / IP(src="10.0.0.1", dst=GROUP, ttl=8, id=n) / UDP(dport=5000))
            for n in range(PACKETS)]  # fmt: skip


def test_multicast_loss_is_exact_in_copies(tmp_path: Path) -> None:
    async def main(run: Run) -> tuple[Network, list[dict[Point, PointRecord]]]:
        topo = Tree()
        with Network(
            topo, run, program="p4src/ampm/routed.p4", switch_options=cpu_ports(topo)
        ) as net:
            entry = fy.P4TableEntry(
                "multicast_groups", match=fy.Match({"hdr.ipv4.dst_addr": GROUP}),
                action=fy.Action("replicate", group=1),
            )  # fmt: skip
            hops = [Hop(connection(net, name), [entry]) for name in TREE]
            path = Multipoint(first=hops[:1], last=hops[1:])
            async with Collector(
                {FLOW: path}, SCHEDULE, run.clock, bounds=Bounds(delay_us=1000)
            ) as collector:
                await collector.watch()
                for hop in hops:
                    await hop.switch.insert([group_of(net, hop.name)])
                first = SCHEDULE.block_at(run.clock.now_ns() // 1000) + 3
                start_ns = 1000 * SCHEDULE.start_us(first)
                step_ns = 3000 * SCHEDULE.block_us // PACKETS
                net.send_frames("h1", [start_ns + n * step_ns for n in range(PACKETS)], frames())
                blocks = collector.blocks(first, first + 2)
                known = [report.known_records(FLOW.number) async for report in blocks]
                # two counters and the two registers of BLOCK, for one flow at three switches
                assert collector.cells_per_block == 2 * 2 * 3
                assert collector.read_bytes > 0
        return net, known

    net, known = virtually(tmp_path, main)
    lost = [len(pcap.read(net.capture(*link, "lost")).length) for link in LINKS]
    assert all(10 < count < 90 for count in lost)
    a, b, c = (Point(name, "arrivals") for name in TREE)
    d, e, f = (Point(name, "departures") for name in TREE)
    graph = {a: [d], d: [b, c], b: [e], c: [f], e: [], f: []}
    copies = {Point(name, "arrivals"): len(below) for name, below in TREE.items()}

    def losses(points: list[Point]) -> dict[Point, int]:
        return {
            cluster.inputs[0]: sum(cluster.loss(block, copies) for block in known)
            for cluster in partition(monitoring_links(graph, points))
        }

    assert sum(block[a].packets for block in known) == PACKETS
    assert losses([*graph]) == {a: 0, d: sum(lost), b: 0, c: 0}
    assert losses([a, b, c]) == {a: sum(lost)}
