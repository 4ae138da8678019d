"""TCP of virtual hosts through five switches with INT: whole, fast, and the same each time."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from virtual_networks import virtually

from controllers.connection import connections
from controllers.int.domain import Changes, Domain, configure
from controllers.int.watch import Instruction, WatchedFlow
from minip4.simulator.shared import CONGESTION
from testbed.network import Network
from testbed.run import Run
from testbed.tcp import TcpFlow, TcpRecord
from testbed.traffic import Traffic
from testbed.truth.books import Books
from topologies.line import Line

SEGMENT, HEADERS, INT = 1448, 14 + 20 + 32, 16 + 4 * 8


def through_int(
    folder: Path, flows: list[TcpFlow], seed: int = 1, **link: float
) -> tuple[dict[int, TcpRecord], list[Any]]:
    """Records of flows from h1 to h2, and what the books say."""

    async def main(run: Run) -> tuple[dict[int, TcpRecord], list[Any]]:
        topo = Line(switches=5, **link)
        with Network(topo, run, program="p4src/int/int.p4") as net:
            async with connections(net) as switches:
                wanted = Instruction.NODE_ID | Instruction.QUEUE
                watched = WatchedFlow("10.0.0.1", "10.0.0.2", protocol=6, instructions=wanted)
                domain = Domain("h2", [watched], mtu_bytes=1600, changes=Changes())
                await configure(net, switches, domain)
                async with Traffic(net, flows) as traffic:
                    records: dict[int, Any] = await traffic.finish()
        return records, Books.of(net, records).checks()

    result: tuple[dict[int, TcpRecord], list[Any]] = virtually(folder, main, seed)
    return result


@pytest.mark.parametrize("kind", ["reno", "cubic"])
def test_goodput_is_what_the_bytes_of_int_leave(kind: str, tmp_path: Path) -> None:
    """Also on equal links, for nothing is ever late here."""
    flow = TcpFlow(1, "h1", "h2", duration_s=2, congestion=kind)
    records, _ = through_int(tmp_path, [flow], rate_bps=30e6, queue_packets=10_000)
    received = records[1].received
    late = received[received["time_ns"] >= received["time_ns"][0] + 500_000_000]
    goodput_bps = 8e9 * float(np.ptp(late["bytes"])) / float(np.ptp(late["time_ns"]))
    assert goodput_bps == pytest.approx(30e6 * SEGMENT / (HEADERS + SEGMENT + INT), rel=1e-3)
    assert records[1].retransmitted_segments == 0


def test_losses_and_stacks_are_the_same_each_time(tmp_path: Path) -> None:
    flows = [TcpFlow(number, "h1", "h2", size_bytes=200_000, congestion=kind)
             for number, kind in enumerate(CONGESTION, start=1)]  # fmt: skip
    digests = []
    for number, seed in enumerate((1, 1, 2)):
        records, checks = through_int(
            tmp_path / str(number), flows, seed, loss_probability=0.01, delay_us=500
        )
        assert all(record.received_bytes == 200_000 for record in records.values())
        assert sum(record.retransmitted_segments for record in records.values()) > 5
        assert all(check.passed for check in checks)
        parts = [array.tobytes() for r in records.values() for array in (r.progress, r.received)]
        digests.append(hashlib.sha256(b"".join(parts)).hexdigest())
    assert digests[0] == digests[1] != digests[2]
