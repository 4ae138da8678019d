"""TCP of virtual hosts through five INT switches: integrity, goodput, and determinism."""

import hashlib
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from virtual_networks import virtually

from controllers.connection import connections
from controllers.int.domain import Changes, Domain, configure
from controllers.int.watch import Instruction, WatchedFlow
from minip4.simulator.shared import CONGESTION
from minip4.simulator.virtual import Partition
from telemark.accounting import pcap
from telemark.accounting.checksums import count_wrong_checksums, tcp_segments
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.accounting.pcap import Frames
from telemark.network import Network
from telemark.results.report import Check
from telemark.session.run import Run
from telemark.traffic.flows import Traffic
from telemark.traffic.tcp import TcpFlow, TcpRecord
from topologies.basic import Line

SEGMENT, HEADERS, INT = 1448, 14 + 20 + 32, 16 + 4 * 8
LONGEST = 1600  # maximum frame size in bytes


ENDS = (("h1", "h2"), ("h2", "h1"))
LINE = ("h1", "s1", "s2", "s3", "s4", "s5", "h2")


@dataclass(frozen=True)
class Passed:
    records: dict[int, TcpRecord]
    checks: list[Check]  # of the packet accounting
    links: list[Frames]  # complete frames on each link from h1 to h2
    partitions: list[Partition]


def through_int(
    folder: Path, flows: list[TcpFlow], seed: int = 1, threads: int = 1, **link: float
) -> Passed:
    """Send flows between h1 and h2."""

    async def main(run: Run) -> Passed:
        topo = Line(switches=5, **link)
        with Network(topo, run, program="p4src/int/int.p4") as net:
            async with connections(net) as switches:
                wanted = Instruction.NODE_ID | Instruction.QUEUE
                watched = WatchedFlow("10.0.0.1", "10.0.0.2", protocol=6, instructions=wanted)
                domain = Domain("h2", [watched], mtu_bytes=1600, changes=Changes())
                await configure(net, switches, domain)
                async with Traffic(net, flows) as traffic:
                    records: dict[int, Any] = await traffic.finish()
                partitions = net.backend.partitions
        first = net.capture("s1", "h1", "in")
        paths = [first, *(net.capture(*ends, "out") for ends in pairwise(LINE[1:]))]
        links = [tcp_segments(pcap.read(path, width=LONGEST)) for path in paths]
        checks = PacketAccounting.from_network(net, records).checks()
        return Passed(records, checks, links, partitions)

    result: Passed = virtually(folder, main, seed, threads)
    return result


@pytest.mark.parametrize("kind", ["reno", "cubic"])
def test_goodput_is_reduced_by_the_bytes_of_int(kind: str, tmp_path: Path) -> None:
    """Goodput in virtual time equals theory, even if all links have the same rate.

    In real time, this holds only if packets always wait for the last link.
    """
    flow = TcpFlow(1, "h1", "h2", duration_s=2, congestion=kind)
    passed = through_int(tmp_path, [flow], rate_bps=30e6, queue_packets=10_000)
    record = passed.records[1]
    received = record.received
    late = received[received["time_ns"] >= received["time_ns"][0] + 500_000_000]
    goodput_bps = 8e9 * float(np.ptp(late["bytes"])) / float(np.ptp(late["time_ns"]))
    assert goodput_bps == pytest.approx(30e6 * SEGMENT / (HEADERS + SEGMENT + INT), rel=1e-9)
    assert record.retransmitted_segments == 0
    sent, *inside, left = passed.links
    assert (sent.bytes == left.bytes).all()
    assert len(sent.bytes) > 4000
    assert [int(link.length.max()) for link in inside] == [
        HEADERS + SEGMENT + 16 + 8 * hops for hops in range(1, 5)
    ]
    assert [count_wrong_checksums(link) for link in passed.links] == [0] * len(passed.links)
    inside[3].bytes[[1000, 2000], [20, 120]] ^= 1  # one bit of an IP header, and one of INT's stack
    assert count_wrong_checksums(inside[3]) == 2


def test_losses_and_stacks_are_the_same_each_time(tmp_path: Path) -> None:
    """Runs with the same seed give the same packets, on one thread and on two threads."""
    flows = [TcpFlow(number, *ends, size_bytes=200_000, congestion=kind)
             for number, (ends, kind) in enumerate(product(ENDS, CONGESTION), start=1)]  # fmt: skip
    digests = []
    for number, (seed, threads) in enumerate(((1, 1), (1, 2), (1, 2), (2, 1))):
        passed = through_int(
            tmp_path / str(number), flows, seed, threads, loss_probability=0.01, delay_us=500
        )
        records = passed.records.values()
        assert all(record.received_bytes == 200_000 for record in records)
        assert sum(record.retransmitted_segments for record in records) > 10
        assert all(check.passed for check in passed.checks)
        assert len(passed.partitions) == threads
        assert all(partition.events > 1000 for partition in passed.partitions)
        parts = [array.tobytes() for r in records for array in (r.progress, r.received)]
        parts += [array.tobytes() for link in passed.links for array in (link.time_ns, link.bytes)]
        digests.append(hashlib.sha256(b"".join(parts)).hexdigest())
    assert digests[0] == digests[1] == digests[2] != digests[3]
