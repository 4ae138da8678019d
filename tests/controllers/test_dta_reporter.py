"""Reporters in a network, in virtual time: their reports arrive at a host, or in memory."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mininet.topo import Topo
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from virtual_networks import virtually

from collectors.dta.hashes import checksums, key_words, slots
from collectors.dta.packets import DTA, NACK_PORT, PORT, Append, KeyWrite, Nack, decode
from collectors.roce.application import Outcome, Responder, Writer
from collectors.roce.endpoint import Peer
from controllers.connection import connections, cpu_ports
from controllers.dta import reporter, translator
from controllers.dta.reporter import Reporter, State
from controllers.dta.stores import KeyWriteStore
from controllers.dta.translator import (
    Service,
    TrackedReporter,
    Translator,
    WriteSession,
)
from controllers.dta.watch import Counts, Data, EventList, ReportKind, WatchedFlow, Word, flow_key
from telemark.apps.application import Application, Host
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic
from telemark.traffic.received import Datagrams

MS = 1_000_000
NEVER = {"redundant": 0, "over budget": 0}
EVERYTHING = WatchedFlow("0.0.0.0/0", "0.0.0.0/0", wanted=ReportKind.DATA | ReportKind.START)
DATA = Data(words=1, first=Word.PACKETS, share=1.0, retransmittable=True)
REPORTER = Reporter("10.255.0.1", ["h3"], [EVERYTHING], number=7, data=DATA, started=EventList(5))
PEER = Peer("10.255.1.2", qpn=0x11, psn=5)
SLOT = np.dtype([("checksum", ">u4"), ("data", ">u4")])
SLOTS = 256


class Hosts(Topo):
    """h1, h2 - s1 - s2 - h3."""

    def build(self) -> None:
        s1, s2 = self.addSwitch("s1"), self.addSwitch("s2")
        for name in ("h1", "h2"):
            self.addLink(self.addHost(name), s1)
        self.addLink(s1, s2, delay_us=500)
        self.addLink(s2, self.addHost("h3"))


class Denier(Application):
    """Receives reports. After `at` reports, it requests `count` reports again, from `first` on."""

    def __init__(self, at: int, first: int, count: int) -> None:
        self.at, self.first, self.count = at, first, count
        self.payloads: list[bytes] = []

    def start(self, host: Host) -> None:
        self.nacks = host.frames()
        self.mac = host.mac
        self.address = host.address
        host.udp(PORT, self.on_datagrams)

    def on_datagrams(self, datagrams: Datagrams) -> None:
        self.payloads += [each.payload for each in datagrams]
        if len(self.payloads) == self.at:
            ends = {"src": self.address, "dst": REPORTER.address}
            report = DTA(reporter=7, sequence=self.first) / Nack(count=self.count)
            packet = IP(**ends) / UDP(sport=PORT, dport=NACK_PORT) / report
            self.nacks.send(bytes(Ether(src=self.mac, dst=REPORTER.mac) / packet))

    def result(self) -> list[bytes]:
        return self.payloads


def test_reports_come_to_a_host_and_come_again(tmp_path: Path) -> None:
    told: dict[str, Any] = {}

    async def main(run: Run) -> Network:
        topo = Hosts()
        with Network(
            topo, run, program="p4src/dta/reporter.p4", switch_options=cpu_ports(topo)
        ) as net:
            taker = net.run_application("h3", Denier(at=30, first=10, count=5))
            async with connections(net) as switches:
                silent = Reporter("10.255.0.2", ["h3"], [])
                await reporter.configure(net, switches, {"s1": REPORTER, "s2": silent})
                async with Traffic(net, [Flow(1, "h1", "h2", 1000, 40)]) as traffic:
                    await traffic.finish()
                told["events"] = await reporter.events(switches["s1"])
                told["state"] = await reporter.state(switches["s1"])
                told["key"] = flow_key(net.host("h1").IP(), net.host("h2").IP(), (49153, 5001))
        told["payloads"] = taker.result
        return net

    virtually(tmp_path, main)
    packets = [decode(payload) for payload in told["payloads"]]
    numbers = [packet.sequence for packet in packets]
    assert sorted(numbers) == sorted([*range(41), *range(10, 15)])
    assert {packet.reporter for packet in packets} == {7}
    by_number = dict(zip(numbers, packets, strict=True))
    assert (by_number[0][Append].list, by_number[0].retransmittable) == (5, 1)
    for number in range(1, 41):
        report = by_number[number][KeyWrite]
        assert (report.key, report.data) == (told["key"], [number])
    for number in range(10, 15):
        first, second = (p for p, n in zip(told["payloads"], numbers, strict=True) if n == number)
        assert first == second
    assert told["events"] == {
        "sent": 41,
        "nacked": 1,
        "resent": 5,
        "not stored": 0,
        "never sent": 0,
        **NEVER,
    }
    assert told["state"] == State(41, 0, 0)


def test_a_translator_has_reports_again_that_a_link_lost(tmp_path: Path) -> None:
    responder = Responder("10.0.0.3", [Writer(PEER, SLOT, SLOTS)])
    session = WriteSession(1, "h3", PEER, responder.targets[0], ack_every=1)
    of_data = WatchedFlow("10.0.0.1", "10.0.0.2")
    sender = Reporter("10.255.0.1", ["h3"], [of_data], number=7, data=DATA)
    service = Service("10.0.0.3", [KeyWriteStore(1, SLOTS, 16)])
    place = Translator([session], [service], [TrackedReporter("10.255.0.1", 7)])
    told: dict[str, Any] = {}

    async def main(run: Run) -> Network:
        programs = {"s1": "p4src/dta/reporter.p4", "s2": "p4src/dta/translator.p4"}
        dropping = ["ingress"]
        with Network(
            Hosts(),
            run,
            program=programs,
            expected_drops=dropping,
            switch_options=cpu_ports(Hosts()),
        ) as net:
            net.run_application("h3", responder)
            async with connections(net) as switches:
                await reporter.configure(net, switches, {"s1": sender})
                await translator.configure(net, switches, {"s2": place})
                flows = [Flow(n, "h1", "h2", 1000, 40, after_s=n * 1e-5) for n in range(10)]
                async with Traffic(net, flows) as traffic:
                    await run.clock.sleep_until(traffic.start_ns + 10 * MS)
                    net.switch("s1").set_link(net.port("s1", "s2"), loss_probability=1.0)
                    await run.clock.sleep_until(traffic.start_ns + 15 * MS)
                    net.switch("s1").set_link(net.port("s1", "s2"), loss_probability=0.0)
                    await traffic.finish()
                told["sent"] = await reporter.events(switches["s1"])
                told["seen"] = await translator.events(switches["s2"], 1)
        return net

    outcome: Outcome = virtually(tmp_path, main).applications[0].result
    lost = told["sent"]["resent"]
    assert 40 <= lost <= 60
    assert told["sent"] == {
        "sent": 400,
        "nacked": 1,
        "resent": lost,
        "not stored": 0,
        "never sent": 0,
        **NEVER,
    }
    assert told["seen"]["translated"] == 400
    assert told["seen"]["recovered"] == lost
    keys = key_words([flow_key("10.0.0.1", "10.0.0.2", (49152 + n, 5000 + n)) for n in range(10)])
    found = outcome.records[0][slots(keys, 2, SLOTS)]
    assert (found["checksum"] == checksums(keys, 16)).any(axis=0).all()
    assert set(found["data"][found["checksum"] == checksums(keys, 16)]) <= {*range(1, 41)}


def test_masks_lie_where_the_record_has_the_words() -> None:
    changes = Data(changes=((Word.PORTS, 0xFFFF0000), (Word.BYTES, 0xFFFFF000), (Word.TIME, 1)))
    assert changes.mask == 0xFFFF0000 << 192 | 0xFFFFF000 << 128 | 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"number": 1 << 16}, "number 65536: expected 0 to 65535"),
        ({"translators": []}, "0 translators: expected 1 to 15"),
        ({"translators": ["h3"] * 16}, "16 translators: expected 1 to 15"),
        ({"started": None}, "wants <ReportKind.START: 1>, but these reports are not configured"),
        ({"started": EventList(5, translator=2)}, "expected a translator from 1 to 1"),
        ({"key_node": 1 << 24}, "key_node 16777216: expected 0 to 16777215"),
        ({"idle_us": 0}, "idle_us 0: expected 1"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"reporter 10.255.0.1: .*{said}"):
        replace(REPORTER, **change)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: Data(words=2), "data of 2 words from PORTS on: expected one of"),
        (lambda: Data(words=3, first=Word.NODE), "data of 3 words from NODE on"),
        (lambda: Data(share=1.5), "share 1.5: expected 0 to 1"),
        (lambda: Data(changes=((Word.TIME, 1 << 32),)), "mask 0x100000000 of TIME"),
        (lambda: Counts(redundancy=9), "redundancy 9: expected 1 to 8"),
        (lambda: WatchedFlow("fd00::1", "fd00::2"), "expected IPv4 addresses"),
        (lambda: WatchedFlow("10.0.0.1", "10.0.0.2", wanted=ReportKind(0)), "wanted is empty"),
    ],
)
def test_reports_that_cannot_be_are_refused(made: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        made()
