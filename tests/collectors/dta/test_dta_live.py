"""DTA load from live INT, in virtual time: what INT tells a host comes into memory by DTA."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mininet.topo import Topo
from scripts import module
from virtual_networks import virtually

from collectors.dta.hashes import key_words
from collectors.dta.key_write import Store, slot
from collectors.dta.live import LiveGenerator, Relayed
from collectors.dta.load import Format, Load, of_paths
from collectors.dta.packets import DTA, Append, KeyIncrement, Op, decode
from collectors.dta.paths import WORDS
from collectors.dta.paths import decode as paths_of
from collectors.dta.postcards import CHUNK, Postcards
from collectors.roce.application import Outcome, Responder, Writer
from collectors.roce.endpoint import Peer
from controllers.connection import connections, cpu_ports
from controllers.dta import translator
from controllers.dta.batching import PostcardStore
from controllers.dta.stores import KeyWriteStore
from controllers.dta.translator import Service, TrackedReporter, Translator, WriteSession
from controllers.dta.watch import flow_key
from controllers.int import domain
from controllers.int.domain import Domain
from controllers.int.watch import Instruction, WatchedFlow
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic

reports = module("experiments.shared.int.reports")
SLOTS = 1 << 10
PEERS = [Peer("10.255.1.2", qpn=0x11 + number, psn=5) for number in range(2)]
MIX = {Op.KEY_WRITE: 1.0, Op.POSTCARDING: 1.0}


class Hosts(Topo):
    """h1 - s1 - s2 - s3 - h2, and of s2 h3, which takes reports, and s4 with the collector, h4."""

    def build(self) -> None:
        names = [self.addSwitch(f"s{number}") for number in range(1, 5)]
        for host, switch in (("h1", 0), ("h2", 2), ("h3", 1), ("h4", 3)):
            self.addLink(self.addHost(host), names[switch])
        for one, other in ((0, 1), (1, 2), (1, 3)):
            self.addLink(names[one], names[other])


def relayed(folder: Path, instructions: Instruction) -> tuple[Relayed, Outcome, dict[str, int]]:
    """What h3 made of INT's reports, h4's memory, and what the translator counted."""
    writers = [
        Writer(peer, kind, SLOTS) for peer, kind in zip(PEERS, (slot(WORDS), CHUNK), strict=True)
    ]
    responder = Responder("10.0.0.4", writers)
    targets = zip(PEERS, responder.targets, strict=True)
    sessions = [WriteSession(n, "h4", *each) for n, each in enumerate(targets, 1)]
    stores = [KeyWriteStore(WORDS, SLOTS), PostcardStore(SLOTS, sessions=range(2, 3))]
    place = Translator(sessions, [Service("10.0.0.4", stores)], [TrackedReporter("10.0.0.3", 3)])
    load = Load(1, MIX, redundancy=2, reporter=3, retransmittable=True)
    told: dict[str, Any] = {}

    async def main(run: Run) -> Network:
        programs = dict.fromkeys(("s1", "s2", "s3"), "p4src/int/int.p4")
        programs["s4"] = "p4src/dta/translator.p4"
        topo = Hosts()
        with Network(
            topo, run, program=programs, expected_drops=["ingress"], switch_options=cpu_ports(topo)
        ) as net:
            net.run_application("h4", responder)
            net.run_application("h3", LiveGenerator(load, "10.0.0.4", reports.OURS))
            ends = ("10.0.0.1", "10.0.0.2")
            watched = [WatchedFlow(*ends, instructions=instructions),
                       WatchedFlow(*ends[::-1], instructions=instructions)]  # fmt: skip
            async with connections(net) as switches:
                within = {name: switches[name] for name in ("s1", "s2", "s3")}
                await domain.configure(net, within, Domain("h3", watched))
                await translator.configure(net, switches, {"s4": place})
                flows = [Flow(1, "h1", "h2", 1000, 30), Flow(2, "h2", "h1", 1000, 20)]
                async with Traffic(net, flows) as traffic:
                    await traffic.finish()
                told["events"] = await translator.events(switches["s4"], 1)
        return net

    net = virtually(folder, main)
    return net.applications[1].result, net.applications[0].result, told["events"]


@pytest.mark.parametrize(
    "instructions", [Instruction.NODE_ID, Instruction.NODE_ID | Instruction.LATENCY]
)
def test_paths_that_int_tells_come_into_memory(tmp_path: Path, instructions: Instruction) -> None:
    result, outcome, events = relayed(tmp_path, instructions)
    assert (result.paths, result.others, result.parse_errors.total()) == (50, 0, 0)
    assert (result.sent.sent, result.sent.nacks) == (50 * 4, 0)
    assert events["translated"] == 200
    keys = key_words([
        flow_key("10.0.0.1", "10.0.0.2", (49153, 5001)),
        flow_key("10.0.0.2", "10.0.0.1", (49154, 5002)),
    ])  # fmt: skip
    answers = Store(outcome.records[0]).query(keys, 2)
    assert paths_of(answers.data).nodes[:, :4].tolist() == [[1, 2, 3, -1], [3, 2, 1, -1]]
    cards = Postcards(outcome.records[1], range(1, 5), 2).query(keys)
    assert cards.values[:, :3].tolist() == [[1, 2, 3], [3, 2, 1]]
    assert cards.lengths.tolist() == [3, 3]


def test_what_is_sent_of_a_path() -> None:
    mix = dict.fromkeys((Op.APPEND, Op.KEY_INCREMENT, Op.POSTCARDING, Op.KEY_WRITE), 1.0)
    load = Load(1, mix, lists=range(4, 6), addend=3, reporter=7, first_sequence=0xFFFFFFFF)
    keys = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.uint32)
    payloads = of_paths(load, keys, [[9, 8], [*range(11, 17)]])
    packets = [decode(payload) for payload in payloads]
    opcodes = [2, 3, 4, 4, 1, 2, 3, 1]  # six switches have no room in a chunk of postcards
    assert [packet.opcode for packet in packets] == opcodes
    assert [packet.sequence for packet in packets] == [0xFFFFFFFF, *range(7)]
    assert {packet[DTA].reporter for packet in packets} == {7}
    assert [packets[n][Append].list for n in (0, 5)] == [5, 4]
    assert packets[6][KeyIncrement].addend == 3
    assert packets[6][KeyIncrement].key == 5 << 96 | 6 << 64 | 7 << 32 | 8
    assert [(packets[n].hop, packets[n].hops, packets[n].value) for n in (2, 3)] == [
        (0, 2, 9), (1, 2, 8)
    ]  # fmt: skip
    assert packets[7].data == [6 << 24, 16, 15, 14, 13, 12, 11]


def test_the_prototypes_reports_name_flows_by_their_source() -> None:
    load = Load(1, {Op.KEY_WRITE: 1.0}, Format.PLAIN)
    (payload,) = of_paths(load, np.array([[1, 2, 3, 4]], np.uint32), [[9]])
    assert payload[:7] == bytes([1, 0, 2, 0, 0, 0, 1])
    assert len(payload) == 2 + 5 + 28


def test_paths_have_no_sketches() -> None:
    with pytest.raises(ValueError, match="SKETCH_MERGE: paths have no columns"):
        LiveGenerator(Load(1, {Op.SKETCH_MERGE: 1.0}), "10.0.0.4", reports.OURS)
