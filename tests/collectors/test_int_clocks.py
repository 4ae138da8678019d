"""Clock offsets in virtual time, computed for links that packets cross in both directions."""

from itertools import pairwise
from pathlib import Path

import pytest
from mininet.topo import Topo
from virtual_networks import virtually

from collectors.int.application import Collector, Findings
from collectors.int.clocks import clock_offsets
from collectors.int.decoder import Encoding
from controllers.connection import connections
from controllers.int.domain import Domain, configure
from controllers.int.watch import Instruction, WatchedFlow
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic

OURS = Encoding(port=32767, dscp=0x04, dscp_mask=0x3C, timestamp_unit_ns=1000, latency_unit_ns=1000)
WANTED = Instruction.NODE_ID | Instruction.INGRESS_TIME | Instruction.EGRESS_TIME
AHEAD_US = {"s1": 0, "s2": 3000, "s3": -40_000}
DELAY_US, SLOW_BPS, HOP_BITS = 700, 1e6, 8 * 20


class ThreeHops(Topo):
    """h1 - s1 - s2 - s3 - h2, with a slow link between s1 and s2; h3 at s2."""

    def build(self) -> None:
        path = ["h1", "s1", "s2", "s3", "h2"]
        for name in (*path, "h3"):
            (self.addHost if name[0] == "h" else self.addSwitch)(name)
        for ends in pairwise(path):
            rate_bps = SLOW_BPS if ends == ("s1", "s2") else 1e9
            self.addLink(*ends, rate_bps=rate_bps, delay_us=DELAY_US)
        self.addLink("s2", "h3")


def found(folder: Path, ways: list[tuple[str, str]]) -> Findings:
    async def main(run: Run) -> Network:
        with Network(ThreeHops(), run, program="p4src/int/int.p4") as net:
            net.run_application("h3", Collector(OURS))
            watched = [WatchedFlow(net.host(one).IP(), net.host(other).IP(), instructions=WANTED)
                       for one, other in ways]  # fmt: skip
            flows = [Flow(number, *way, rate_pps=100, count=20, size=200)
                     for number, way in enumerate(ways)]  # fmt: skip
            async with connections(net) as switches:
                await configure(net, switches, Domain("h3", watched), AHEAD_US)
                async with Traffic(net, flows) as traffic:
                    await traffic.finish()
        return net

    findings: Findings = virtually(folder, main).applications[0].result
    return findings


def test_half_of_the_difference_there_and_back_is_the_offset(tmp_path: Path) -> None:
    findings = found(tmp_path, [("h1", "h2"), ("h2", "h1")])
    slow, fast = clock_offsets(findings)
    assert (slow.before, slow.after, fast.before, fast.after) == (1, 2, 2, 3)
    assert fast.ahead_ns / 1000 == pytest.approx(AHEAD_US["s3"] - AHEAD_US["s2"], abs=1)
    # Packets have the metadata of one hop in one direction and of two hops in the other: the error
    # is half of the difference of their transmission times.
    bias_us = -HOP_BITS / SLOW_BPS * 1e6 / 2
    assert slow.ahead_ns / 1000 == pytest.approx(AHEAD_US["s2"] + bias_us, abs=1)
    assert abs(slow.ahead_ns / 1000 - AHEAD_US["s2"]) < slow.error_ns / 1000
    wire_us = 8 * (200 + 16) / SLOW_BPS * 1e6
    both_us = 2 * (DELAY_US + wire_us) + 3 * HOP_BITS / SLOW_BPS * 1e6
    assert slow.error_ns / 1000 == pytest.approx(both_us / 2, abs=1)


def test_one_way_gives_no_clock_offset(tmp_path: Path) -> None:
    assert clock_offsets(found(tmp_path, [("h1", "h2")])) == []
