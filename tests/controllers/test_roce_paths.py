"""The paths that an INT sink writes to a collector's memory, compared with captures."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scripts import module
from virtual_networks import virtually

from collectors.roce.application import Outcome, Responder, Writer
from collectors.roce.endpoint import Peer
from collectors.roce.region import ABSENT, PATH
from controllers.connection import connections, cpu_ports
from controllers.int.domain import Domain
from controllers.int.watch import WatchedFlow
from controllers.roce.paths import INSTRUCTIONS, Sink, configure
from controllers.roce.running import events
from controllers.roce.session import Content, Session
from controllers.roce.watch import RecordedFlow
from experiments.shared.int.truth import SwitchTransit, read_passages
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic
from telemark.traffic.patterns import Poisson
from topologies.basic import ParkingLot

reports = module("experiments.shared.int.reports")
PEER = Peer("10.0.9.1", qpn=0x11, psn=0xFFFFF0)
COUNT, RATE_PPS, BYTES = 60, 1000, 200
LINK = {"rate_bps": 20_000_000, "delay_us": 500, "queue_packets": 1000}
PLACES = 5


@dataclass(frozen=True)
class Found:
    """Records of a sink, ground truth, and other reports."""

    outcome: Outcome
    truth: list[SwitchTransit]
    ways: list[dict[str, int]]
    flow: Flow
    reports: Any
    events: dict[str, int]


def measured(
    folder: Path, switches: int, *, domain: dict[str, Any] | None = None, **watched: Any
) -> Found:
    """Send a flow and other traffic over `switches` switches; the last switch is a sink."""
    topo = ParkingLot(switches, **LINK)
    path = topo.switches()
    flow = Flow(1, "h1", "h2", RATE_PPS, COUNT, BYTES, after_s=0.02)
    cross = [Flow(2 + n, *ends, 1200, 100, 1000, pattern=Poisson())
             for n, ends in enumerate(topo.crossings)]  # fmt: skip
    programs = dict.fromkeys(path, "p4src/int/int.p4") | {path[-1]: "p4src/roce/int_sink.p4"}

    async def main(run: Run) -> Found:
        with Network(
            topo, run, program=programs, expected_drops=["ingress"], switch_options=cpu_ports(topo)
        ) as net:
            responder = Responder(net.host("collector").IP(), [Writer(PEER, PATH, 4 * COUNT)])
            net.run_application("collector", responder)
            reported = net.run_application("collector", reports.KeepingCollector())
            ends = net.host("h1").IP(), net.host("h2").IP()
            flows = [WatchedFlow(*ends, **{"instructions": INSTRUCTIONS, **watched})]
            session = Session(1, "collector", PEER, responder.targets[0], content=Content.PATHS,
                              ack_every=16, patience=32)  # fmt: skip
            sink = Sink([session], [RecordedFlow(*ends, dst_port=flow.port)])
            async with connections(net) as found:
                told = Domain("collector", flows, **(domain or {}))
                await configure(net, found, told, {path[-1]: sink})
                async with Traffic(net, [flow, *cross]) as traffic:
                    await traffic.finish()
                counted = await events(found[path[-1]], session)
        truth = read_passages(net, flow, path, stamped=False)
        expected = reports.expected_path(net, flow, path)
        network = net.applications[0].result
        return Found(network, truth, expected, flow, reported.result, counted)

    found: Found = virtually(folder, main)
    return found


def hop(truth: SwitchTransit, way: dict[str, int]) -> dict[str, Any]:
    """Return the expected fields of each packet at a switch."""
    assert (truth.min_queued == truth.max_queued).all()
    arrived_us, left_us = truth.arrived_ns // 1000, truth.left_ns // 1000
    return {
        "node": way["node"], "ingress_port": way["ingress"], "egress_port": way["egress"],
        "latency_us": left_us - arrived_us, "queue": 0,
        "ingress_us": arrived_us, "egress_us": left_us,
    }  # fmt: skip


def waiting(hops: Any) -> Any:
    """Return the 24-bit occupancies."""
    return hops["waiting"].astype(np.int64) @ [1 << 16, 1 << 8, 1]


def check_hop(hops: Any, truth: SwitchTransit, way: dict[str, int]) -> None:
    for name, expected in hop(truth, way).items():
        assert (hops[name] == expected).all(), name
    assert (waiting(hops) == truth.min_queued).all()


@pytest.mark.parametrize("switches", [2, 4, 6, 7])
def test_a_sink_writes_what_each_packet_met_at_each_switch(switches: int, tmp_path: Path) -> None:
    """A sink writes the hops of each packet into a record.

    If the packet has more hops than fit into a record, the record contains the newest ones.
    """
    found = measured(tmp_path, switches)
    records = found.outcome.records[0]
    written, rest = records[:COUNT], records[COUNT:]
    assert not rest.tobytes().strip(b"\0")
    assert (written["hops"] == switches - 1).all()
    assert (written["flags"] == 0).all()
    assert (written["flow"]["destination_port"] == found.flow.port).all()
    check_hop(written["sink"], found.truth[-1], found.ways[-1])
    before = [*zip(found.truth, found.ways, strict=True)][-2::-1]
    for place, (truth, way) in enumerate(before[:PLACES]):
        check_hop(written["stack"][:, place], truth, way)
    absent = written["stack"][:, len(before) :]
    assert (absent["node"] == ABSENT).all()
    assert not absent.tobytes().strip(b"\xff")
    assert sum(waiting(written["stack"][:, 0])) > 0  # queues were not empty
    assert found.events["sent"] == COUNT
    assert found.events["out of region"] == found.events["damaged"] == 0
    assert found.outcome.counts.refused == {}
    assert len(found.reports.reports) == 0
