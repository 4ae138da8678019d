"""IOAM, INT and alternate marking together on a path of three switches, in virtual time.

Captures are ground truth. Each method measures exactly, and the others do not change its results.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import finsy as fy
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from virtual_networks import virtually

from collectors.ioam.options import TraceType
from controllers import connection
from controllers.ampm.collector import Collector
from controllers.ampm.records import Point
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Bounds, Hop, Method
from controllers.ampm.watch import WatchedFlow as MarkedFlow
from controllers.int import domain as int_domain
from controllers.int.watch import Instruction, WatchedFlow
from controllers.ioam import domain as ioam_domain
from controllers.ioam.flows import IoamFlow, TraceOption
from experiments.shared.int.reports import KeepingCollector, Kept
from experiments.shared.ioam.hosts import FrameKeeper
from telemark.accounting import pcap
from telemark.network import Network
from telemark.session.run import Run
from topologies.basic import ParkingLot

PROGRAM = "p4src/ioam/with_ampm_int.p4"
L = 1 << 18  # block of alternate marking, in us
BLOCKS, SPACING_US, BURST = 3, 1500, 4
PATH = ("s1", "s2", "s3")
POINTS = [Point(switch, name) for switch in PATH for name in ("arrivals", "departures")]
ALL = ("AM-PM", "INT", "IOAM")
ADDRESSES = {4: ("10.0.0.1", "10.0.0.2"), 6: ("fd00::1", "fd00::2")}
INSTRUCTIONS = (
    Instruction.NODE_ID | Instruction.LEVEL_1 | Instruction.LATENCY | Instruction.INGRESS_TIME
)
FIELDS = (
    TraceType.HOP_NODE | TraceType.INTERFACES | TraceType.SECONDS | TraceType.FRACTION
    | TraceType.TRANSIT_DELAY
)  # fmt: skip

Visit = tuple[int, int, int, int, int]  # node id, ports, arrival (us), time in the switch (us)


@dataclass
class Found:
    """Results of the methods, and captures: time of each packet (version, number) at each point."""

    blocks: dict[int, list[dict[Point, tuple[int, int]]]]  # by version; packets and sum of times
    visits: dict[tuple[int, int], list[Visit]]  # by version and number
    seen_us: dict[Point, dict[tuple[int, int], int]]
    first_block: int
    ports: dict[str, tuple[int, int]]
    received: list[bytes]
    sent: list[bytes]


def frames(count: int, mac: str) -> list[bytes]:
    """Return frames to this MAC address that are alternately IPv4 and IPv6.

    The identification, the flow label and the payload contain the number of the packet.
    """
    made = []
    for number in range(1, count + 1):
        version = 4 if number % 2 else 6
        src, dst = ADDRESSES[version]
        ip = (IP(src=src, dst=dst, id=number, tos=0xB8) if version == 4
              else IPv6(src=src, dst=dst, fl=number, tc=0xB8))  # fmt: skip
        ether = Ether(src="02:00:00:00:00:01", dst=mac)
        made.append(bytes(ether / ip / UDP(sport=4000, dport=5000)
                          / number.to_bytes(20, "little")))  # fmt: skip
    return made


async def entries(
    net: Network, switches: dict[str, fy.Switch], methods: Collection[str]
) -> dict[str, list[fy.P4TableEntry]]:
    """Create the clone sessions for reports; return the entries of INT and IOAM per switch."""
    int_flows = [WatchedFlow(*ADDRESSES[4], instructions=INSTRUCTIONS)] if "INT" in methods else []
    of_int = int_domain.Domain("collector", int_flows)
    ioam_flows = [IoamFlow(*ADDRESSES[6], option=TraceOption(FIELDS, nodes=2))]
    of_ioam = ioam_domain.Domain(
        "collector", ioam_flows if "IOAM" in methods else [], addresses={"h1": ADDRESSES[6][0]}
    )

    async def more(switch: fy.Switch) -> Sequence[fy.P4TableEntry]:
        return ioam_domain.entries(net, switch.name, of_ioam)

    await int_domain.configure(net, switches, of_int, more=more)
    return {
        name: [*int_domain.entries(net, name, of_int), *await more(switch)]
        for name, switch in switches.items()
    }


def measured(
    folder: Path, methods: Collection[str] = ALL, seed: int = 1, **link: float
) -> Found:  # fmt: skip
    """Send IPv4 and IPv6 packets from h1 to h2; the first link loses a part of them."""
    topo = ParkingLot(len(PATH), delay_us=300, **link)

    async def main(run: Run) -> Found:
        with Network(topo, run, program=PROGRAM, switch_options=connection.cpu_ports(topo)) as net:
            net.switch("s1").set_link(net.port("s1", "s2"), loss_probability=0.1)
            kept = net.run_application("collector", KeepingCollector())
            receiver = net.run_application("h2", FrameKeeper())
            async with connection.connections(net) as switches:
                filled = await entries(net, switches, methods)
            schedule = Schedule(L)
            path = [Hop(connection.connection(net, name), filled[name],
                        net.switch(name).clock_offset_us) for name in PATH]  # fmt: skip
            watched = {MarkedFlow(version, *ADDRESSES[version], 17, methods=Method.DOUBLE, dscp=46):
                       path for version in ADDRESSES}  # fmt: skip
            blocks: dict[int, list[dict[Point, tuple[int, int]]]] = {4: [], 6: []}
            first = schedule.block_at(run.clock.now_ns() // 1000) + 3
            start_us = schedule.start_us(first) - L // 2
            sent = frames((BLOCKS + 1) * L // SPACING_US, net.host("h2").MAC())
            times_ns = [1000 * (start_us + SPACING_US * (n - n % BURST)) for n in range(len(sent))]
            async with Collector(watched, schedule, run.clock, bounds=Bounds(0, 50_000)) as reader:
                if "AM-PM" in methods:
                    await reader.watch()
                net.send_frames("h1", times_ns, sent)
                if "AM-PM" in methods:
                    async for block in reader.blocks(first, first + BLOCKS - 1):
                        for version, found in blocks.items():
                            found.append({point: (each.packets, each.sum_us) for point, each
                                          in block.known_records(version).items()})  # fmt: skip
                await run.clock.sleep_until(times_ns[-1] + 200_000_000)
        seen = captured(net)
        return Found(
            blocks, visits(kept.result, [*seen[POINTS[-1]]]), seen, first,
            {switch: (net.port(switch, before), net.port(switch, after)) for before, switch, after
             in zip(("h1", *PATH), PATH, (*PATH[1:], "h2"), strict=False)},
            receiver.result, sent,
        )  # fmt: skip

    found: Found = virtually(folder, main, seed)
    return found


def number_of(frame: Any) -> tuple[int, int]:
    """Return IP version and number of a packet."""
    version = int(frame[14]) >> 4
    at = 18 if version == 4 else 16
    return version, int.from_bytes(bytes(frame[at : at + 2]), "big")


def captured(net: Network) -> dict[Point, dict[tuple[int, int], int]]:
    """Return the time in us at which each packet passed each point."""
    found = {}
    for before, switch, after in zip(("h1", *PATH), PATH, (*PATH[1:], "h2"), strict=False):
        for name, way in (("arrivals", (before, "in")), ("departures", (after, "out"))):
            frames = pcap.read(net.capture(switch, *way))  # reports travel in the other direction
            found[Point(switch, name)] = {
                number_of(frame): int(time_ns) // 1000
                for time_ns, frame in zip(frames.time_ns, frames.bytes, strict=True)
            }
    return found


def visits(
    kept: Kept, left: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], list[Visit]]:  # fmt: skip
    """Return what the reports say about each packet, in order of the path.

    The last switch numbers the reports of each method in the order in which packets left.
    """
    found = {}
    for report, group in zip(kept.reports, kept.groups, strict=True):
        version = report["key"]["ip_version"]
        hops = kept.hops[report["first_hop"] : report["first_hop"] + report["hops"]]
        key = [each for each in left if each[0] == version][group["sequence"]]
        assert key not in found
        found[key] = sorted(
            (int(hop["node"]), int(hop["ingress"]), int(hop["egress"]),
             int(hop["ingress_ns"]) // 1000, int(hop["latency_ns"]) // 1000) for hop in hops
        )  # fmt: skip
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_all_methods_equal_captures_at_once(tmp_path: Path, seed: int) -> None:
    """Packets are sent in bursts, so that they wait in front of the links."""
    found = measured(tmp_path / "run", seed=seed, rate_bps=1.2e6, queue_packets=1000)
    seen = found.seen_us
    lost = len(seen[POINTS[1]]) - len(seen[POINTS[2]])
    assert lost > 10
    assert max(each[-1] for reported in found.visits.values() for each in reported) > 500
    for version, blocks in found.blocks.items():
        for block, records in enumerate(blocks, found.first_block):
            for point in POINTS:
                ours = [
                    at
                    for key, at in seen[point].items()
                    if key[0] == version and seen[POINTS[0]][key] // L == block
                ]
                assert records[point] == (len(ours), sum(at - block * L for at in ours)), point
    arrived = seen[POINTS[-1]]
    assert found.visits.keys() == arrived.keys()
    for key, reported in found.visits.items():
        assert reported == [
            (number, *found.ports[into.switch], seen[into][key], seen[out][key] - seen[into][key])
            for number, (into, out) in enumerate(zip(POINTS[::2], POINTS[1::2], strict=True), 1)
        ]
    assert found.received == [frame for frame in found.sent if number_of(frame) in arrived]


def test_no_method_changes_the_results_of_another(tmp_path: Path) -> None:
    """The links have no rate, so that longer packets do not arrive later."""
    together = measured(tmp_path / "all")
    alone = {method: measured(tmp_path / method, [method]) for method in ALL}
    assert alone["AM-PM"].blocks == together.blocks
    for version, method in ((4, "INT"), (6, "IOAM")):
        of_both = {key: value for key, value in together.visits.items() if key[0] == version}
        assert alone[method].visits == of_both
        assert len(of_both) > 100
    assert all(each.received == together.received for each in alone.values())
