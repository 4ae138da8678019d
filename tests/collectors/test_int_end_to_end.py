"""The collector of a domain of five INT switches in virtual time, compared with captures.

In all modes, the collector reports paths, links, and the queue occupancy and latency of hops.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from mininet.topo import Topo
from virtual_networks import virtually

from collectors.int.application import Collector, Findings
from collectors.int.decoder import Encoding
from collectors.int.index import Limits
from controllers.connection import connections
from controllers.int.domain import Domain, configure
from controllers.int.watch import Instruction, Mode, WatchedFlow
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic

NODES, COUNT, DELAY_US, RATE_BPS = 5, 200, 700, 5e6
WANTED = (Instruction.NODE_ID | Instruction.LATENCY | Instruction.QUEUE
          | Instruction.INGRESS_TIME | Instruction.EGRESS_TIME | Instruction.LEVEL_1)  # fmt: skip
# bytes of INT on the third link: shim, header, and in INT-MD three hops of 32 bytes
INT_BYTES = {Mode.DATA: 16 + 3 * 32, Mode.INSTRUCTIONS: 16, Mode.EXPORT: 0}
OURS = Encoding(port=32767, dscp=0x04, dscp_mask=0x3C, timestamp_unit_ns=1000, latency_unit_ns=1000)


class FiveHops(Topo):
    """h1 - s1 - ... - s5 - h2; the third link is slow, and all links have a delay; h3 at s5."""

    def build(self) -> None:
        path = ["h1", *(f"s{number}" for number in range(1, NODES + 1)), "h2"]
        for name in path:
            (self.addHost if name[0] == "h" else self.addSwitch)(name)
        for number, ends in enumerate(pairwise(path)):
            rate_bps = RATE_BPS if number == 3 else 1e9
            self.addLink(*ends, rate_bps=rate_bps, delay_us=DELAY_US, queue_packets=1000)
        self.addLink("s5", self.addHost("h3"))


def found(folder: Path, mode: Mode) -> Findings:
    async def main(run: Run) -> Network:
        with Network(FiveHops(), run, program="p4src/int/int.p4") as net:
            # The reports of s1 to s3 also wait in the queue of the slow link, some for 200 ms.
            net.run_application("h3", Collector(OURS, limits=Limits(settle_us=500_000)))
            watched = WatchedFlow(
                net.host("h1").IP(), net.host("h2").IP(), instructions=WANTED, mode=mode
            )
            async with connections(net) as switches:
                await configure(net, switches, Domain("h3", [watched]))
                flows = [Flow(1, "h1", "h2", rate_pps=2000, count=COUNT, size=400)]
                async with Traffic(net, flows) as traffic:
                    records = await traffic.finish(1.0)
        assert len(records[1].received) == COUNT
        return net

    findings: Findings = virtually(folder, main).applications[0].result
    return findings


@pytest.mark.parametrize("mode", [Mode.DATA, Mode.INSTRUCTIONS, Mode.EXPORT])
def test_paths_hops_and_links_of_a_flow(tmp_path: Path, mode: Mode) -> None:
    findings = found(tmp_path, mode)
    assert not findings.parse_errors
    assert sum(findings.overflow.values()) == 0
    assert findings.sources["lost"].sum() == 0
    [flow] = findings.flows
    assert (flow["dropped"], flow["changes"], flow["partial"]) == (0, 0, 0)
    assert flow["path"]["node"][: flow["hops"]].tolist() == [1, 2, 3, 4, 5]
    path = flow["path"][:NODES]
    assert path["latency_ns"]["count"].tolist() == [COUNT] * NODES
    assert path["occupancy"]["count"].tolist() == [COUNT] * NODES
    assert np.argmax(path["occupancy"]["max"]) == 2  # s3, which sends to the slow link
    assert path["latency_ns"]["max"][2] > 10 * path["latency_ns"]["max"][[0, 1, 3, 4]].max()
    assert (flow["paths"], flow["unmatched"]) == (COUNT, 0)
    links = path["link_ns"][1:]
    assert links["count"].tolist() == [COUNT] * (NODES - 1)
    assert (links["min"] >= DELAY_US * 1000 - 1000).all()
    slow_us = DELAY_US + (400 + INT_BYTES[mode]) * 8 / RATE_BPS * 1e6
    assert links["min"][2] / 1000 == pytest.approx(slow_us, abs=2)
    assert links["max"][2] / 1000 == pytest.approx(slow_us, abs=2)
