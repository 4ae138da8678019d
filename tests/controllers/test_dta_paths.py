"""Paths of flows over a fat tree, in virtual time.

Routers report them by postcards, and a query of the collector's memory returns them.
"""

from pathlib import Path
from typing import Any

import numpy as np
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from virtual_networks import virtually

from collectors.dta.hashes import key_words, slots
from collectors.dta.postcarding import CHUNK, Postcards
from collectors.roce.application import Outcome, Responder, Writer
from collectors.roce.endpoint import Peer
from controllers.connection import connections, cpu_ports
from controllers.dta import reporter, translator, watch
from controllers.dta.batching import PostcardStore, flush_rows
from controllers.dta.reporter import Reporter
from controllers.dta.translator import Service, Translator, WriteSession
from controllers.dta.watch import ReportKind, WatchedFlow, flow_key
from telemark.accounting import pcap
from telemark.apps.application import Application, Host
from telemark.network import Network
from telemark.session.run import Run
from topologies.leaf_spine import FatTree

MS = 1_000_000
FLOWS, SLOTS, PORT = 150, 1 << 18, 5000
PEER = Peer("10.255.1.2", qpn=0x11, psn=5)
COLLECTOR_ADDR = "10.200.0.1"
SRC, DST, TTL, SRC_PORT, DST_PORT = 26, 30, 22, 34, 36  # offsets in a frame


class Traced(FatTree):
    """Fat tree with a translator, t1, at the first core switch, and the collector behind t1."""

    def build(self, **fabric: Any) -> None:
        super().build(**fabric)
        self.addLink("s17", self.addSwitch("t1"))
        self.addLink("t1", self.addHost("collector", ip=f"{COLLECTOR_ADDR}/8"))


class Receiver(Application):
    """Receives the flows."""

    def start(self, host: Host) -> None:
        host.udp(PORT)


def number(frames: np.ndarray, at: int, size: int) -> np.ndarray:
    return sum(frames[:, at + i].astype(np.int64) << 8 * (size - 1 - i) for i in range(size))


def captured_paths(net: Network, routers: list[str]) -> dict[int, list[int]]:
    """Return the node ids of the routers on the path of each flow's packet, by flow key."""
    seen: dict[int, dict[int, int]] = {}
    for node, name in enumerate(routers, 1):
        for neighbour in net.neighbours(name):
            frames = pcap.read(net.capture(name, neighbour, "in")).bytes
            frames = frames[(frames[:, 23] == 17) & (number(frames, DST_PORT, 2) == PORT)]
            for frame in frames:
                src, dst = (".".join(map(str, frame[at : at + 4])) for at in (SRC, DST))
                key = flow_key(src, dst, (int(frame[SRC_PORT]) << 8 | int(frame[35]), PORT))
                seen.setdefault(key, {})[64 - int(frame[TTL])] = node
    return {key: [hops[hop] for hop in sorted(hops)] for key, hops in seen.items()}


def test_the_collectors_memory_has_the_path_of_each_flow(tmp_path: Path) -> None:
    topo = Traced(4)
    routers = [name for name in topo.switches() if name != "t1"]
    responder = Responder(COLLECTOR_ADDR, [Writer(PEER, CHUNK, SLOTS)])
    session = WriteSession(1, "collector", PEER, responder.targets[0])
    store = PostcardStore(SLOTS, rows=512)
    place = Translator([session], [Service(COLLECTOR_ADDR, [store])])
    of_users = WatchedFlow("10.0.0.0/8", "10.0.0.0/8", wanted=ReportKind.POSTCARD)
    reporters = {
        name: Reporter(f"10.255.0.{node}", ["collector"], [of_users], number=node, node_id=node,
                       postcards=watch.Postcards(redundancy=2), routes=topo.routes(name))
        for node, name in enumerate(routers, 1)
    }  # fmt: skip
    rng = np.random.default_rng(7)
    hosts = [name for name in topo.hosts() if name != "collector"]

    async def main(run: Run) -> Network:
        programs = dict.fromkeys(routers, "p4src/dta/reporter.p4")
        programs["t1"] = "p4src/dta/translator.p4"
        with Network(
            topo, run, program=programs, expected_drops=["ingress"],
            switch_options=cpu_ports(topo),
        ) as net:  # fmt: skip
            net.run_application("collector", responder)
            for name in hosts:
                net.run_application(name, Receiver())
            async with connections(net) as switches:
                await reporter.configure(net, switches, reporters)
                await translator.configure(net, switches, {"t1": place})
                start_ns = run.clock.now_ns() + MS
                for flow in range(FLOWS):
                    sender, receiver = (net.host(hosts[n]) for n in rng.permutation(16)[:2])
                    ends = Ether(src=sender.MAC(), dst=receiver.MAC())
                    packet = ends / IP(src=sender.IP(), dst=receiver.IP())
                    packet = packet / UDP(sport=10_000 + flow, dport=PORT) / Raw(bytes(18))
                    net.send_frames(sender.name, [start_ns + flow * 10 * MS], [bytes(packet)])
                await run.clock.sleep_until(start_ns + FLOWS * 10 * MS + 100 * MS)
                await flush_rows(switches["t1"], 1, store)
                await run.clock.sleep_until(run.clock.now_ns() + 100 * MS)
        return net

    net = virtually(tmp_path, main)
    outcome: Outcome = net.applications[0].result
    truth = captured_paths(net, routers)
    assert len(truth) == FLOWS
    assert {len(path) for path in truth.values()} == {1, 3, 5}
    assert len(np.unique(slots(key_words(truth), 2, SLOTS))) == 2 * FLOWS  # no path was overwritten
    found = Postcards(outcome.records[0], range(1, 21), copies=2).query(key_words(truth))
    for row, path in enumerate(truth.values()):
        assert found.values[row, : len(path)].tolist() == path
        assert found.lengths[row] == len(path)
    assert found.is_complete.all()
