"""Two-way estimation of clock offsets between switches, from INT timestamps."""

import argparse
from dataclasses import dataclass

from rich.table import Table

from collectors.int.application import Collector
from collectors.int.clocks import ClockOffset, clock_offsets
from controllers.connection import connections, cpu_ports
from controllers.int.domain import Domain, configure
from controllers.int.watch import Instruction, WatchedFlow
from experiments.shared.int import on_bmv2
from experiments.shared.int.reports import OURS
from telemark.network import Network
from telemark.results.report import Check, table
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic
from topologies.basic import ParkingLot

AHEAD_US = {"s1": 0, "s2": 3000, "s3": -40_000, "s4": 12, "s5": 700_000}
"""Clock offset that the controller sets on each switch, and that must be estimated."""

RATE_PPS, COUNT, BYTES = 200, 40, 200
RESOLUTION_NS = 1000  # resolution of INT timestamps


@dataclass(frozen=True)
class Crossed:
    """Estimated and true clock offset of two neighbours.

    `known_ns` is the max error of the true offset.
    """

    found: ClockOffset
    true_ns: int
    known_ns: float

    @property
    def is_right(self) -> bool:
        """Return whether the error is within the error bound of the method."""
        allowed_ns = self.found.error_ns + self.known_ns + RESOLUTION_NS
        return abs(self.found.ahead_ns - self.true_ns) <= allowed_ns


async def measure_crossed(options: argparse.Namespace, run: Run, **link: float) -> list[Crossed]:
    """Send watched flows in both directions through switches with different clocks."""
    topo = ParkingLot(len(AHEAD_US), **link)
    flows = [Flow(number, *ends, RATE_PPS, COUNT, BYTES)
             for number, ends in enumerate((("h1", "h2"), ("h2", "h1")), start=1)]  # fmt: skip
    times = Instruction.NODE_ID | Instruction.INGRESS_TIME | Instruction.EGRESS_TIME
    with Network(
        topo, run, program=options.program, name="clocks", switch_options=cpu_ports(topo)
    ) as net:
        collector = net.run_application("collector", Collector(OURS))
        watched = [WatchedFlow(net.host(flow.source).IP(), net.host(flow.destination).IP(),
                               instructions=times) for flow in flows]  # fmt: skip
        async with connections(net) as switches:
            clocks = dict.fromkeys(AHEAD_US, (0, 0.0))
            if net.has_panels:
                clocks = await on_bmv2.find_clocks(switches, run.clock)
            offsets_us = {name: clocks[name][0] + ahead for name, ahead in AHEAD_US.items()}
            await configure(net, switches, Domain("collector", watched), offsets_us)
            async with Traffic(net, flows) as traffic:
                await traffic.finish()
    ahead_us, errors_us = [*AHEAD_US.values()], [error_us for _, error_us in clocks.values()]
    return [
        Crossed(each, 1000 * (ahead_us[each.after - 1] - ahead_us[each.before - 1]),
                1000 * (errors_us[each.after - 1] + errors_us[each.before - 1]))
        for each in clock_offsets(collector.result)
    ]  # fmt: skip


def check_clocks(crossed: list[Crossed]) -> list[Check]:
    """Check that all offsets are estimated within the error bound of the method."""
    return [
        Check("clock offsets estimated (pairs of neighbours)", len(crossed), len(AHEAD_US) - 1),
        Check(
            "clock offsets out of their error bounds", sum(not each.is_right for each in crossed), 0
        ),
    ]


def make_clocks_table(crossed: list[Crossed]) -> Table:
    """Return a table with a row per pair of neighbours."""
    rows = [
        (f"s{each.found.before}, s{each.found.after}", each.true_ns / 1000,
         (each.found.ahead_ns - each.true_ns) / 1000, each.found.error_ns / 1000)
        for each in crossed
    ]  # fmt: skip
    columns = ("switches", "true offset (us)", "error (us)", "error bound (us)")
    return table("Clock offsets, from traffic in both directions", columns, rows)
