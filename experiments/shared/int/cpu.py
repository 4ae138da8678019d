"""CPU time per packet of INT at switches, compared with the same program without INT."""

import argparse
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collectors.int.application import Collector
from controllers.connection import connections
from controllers.int.domain import Changes, Domain, configure
from experiments.shared.int.overhead import SIZES, Case, longest_bytes
from experiments.shared.int.reports import OURS
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic
from topologies.basic import ParkingLot

SIZE, RATE_PPS, COUNT, ROUNDS = min(SIZES), 100_000, 20_000, 7
AHEAD_NS, BEHIND_NS = (
    10_000_000,
    10_000_000,
)  # idle time before the first and after the last packet of a flow


@dataclass(frozen=True)
class Costs:
    """CPU time per packet and switch, in ns: a row per round, a column per case."""

    hops: int
    metadata: list[int]  # bytes of metadata per switch, by case; the first case is without INT
    ns: NDArray[np.float64]

    @property
    def min_ns(self) -> NDArray[np.float64]:
        """Smallest CPU time of all rounds, because other load can only increase CPU time."""
        return self.ns.min(axis=0)

    @property
    def ratios(self) -> NDArray[np.float64]:
        """CPU time relative to the same program without INT."""
        return self.min_ns / self.min_ns[0]


async def measure_cpu(options: argparse.Namespace, run: Run) -> Costs:
    """Send the same packets with each number of metadata bytes in turn, in several rounds.

    The measurement requires virtual time, where the process does nothing but handle events. In real
    time, the CPU time of the kernel per packet would hide the CPU time of INT. Nothing is captured.
    """
    hops = max(options.hops)
    cases = [
        Case(hops, metadata, Flow(number, "h1", f"x{hops + 1}", RATE_PPS, COUNT, SIZE))
        for number, metadata in enumerate(options.metadata, start=1)
    ]
    rows = []
    with Network(
        ParkingLot(hops + 1), run, program=options.program, name="cpu", capture=False
    ) as net:  # fmt: skip
        net.run_application("collector", Collector(OURS))
        watched = [case.watched(net) for case in cases if case.metadata]
        domain = Domain("collector", watched, mtu_bytes=longest_bytes(hops), changes=Changes())
        async with connections(net) as switches:
            await configure(net, switches, domain)
        for _ in range(2 if options.quick else ROUNDS):
            rows.append([await _cost_ns(net, case, run) for case in cases])
    return Costs(hops, list(options.metadata), np.array(rows))


async def _cost_ns(net: Network, case: Case, run: Run) -> float:
    """Measure the CPU time per packet and switch (ns), as mean of all switches."""
    start_ns = run.clock.now_ns() + 2 * AHEAD_NS
    async with Traffic(net, [case.flow], start_ns) as traffic:
        await run.clock.sleep_until(start_ns - AHEAD_NS)
        before_ns = time.process_time_ns()
        await run.clock.sleep_until(start_ns + COUNT * 10**9 // RATE_PPS + BEHIND_NS)
        took_ns = time.process_time_ns() - before_ns
        await traffic.finish()
    return took_ns / COUNT / len(case.path)
