"""The generator at a host, in virtual time: a translator has all of its reports, in the end."""

from pathlib import Path
from typing import Any

import numpy as np
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from virtual_networks import Pair, virtually

from collectors.dta.generator import Generator, Sent
from collectors.dta.hashes import checksums, slots
from collectors.dta.load import Format, Load, Reports
from collectors.dta.packets import NACK_PORT, Op
from collectors.roce.application import Outcome, Responder, Writer
from collectors.roce.endpoint import Peer
from controllers.connection import connections
from controllers.dta import reporter, translator
from controllers.dta.reporter import Reporter
from controllers.dta.stores import KeyWriteStore
from controllers.dta.translator import Service, TrackedReporter, Translator, WriteSession
from testbed.network import Network
from testbed.run import Run

MS = 1_000_000
SLOT = np.dtype([("checksum", ">u4"), ("data", ">u4")])
SLOTS = 1 << 14
PEER = Peer("10.255.1.2", qpn=0x11, psn=5)
STRANGE = bytes(Ether(src="00:00:00:00:00:02", dst="00:00:00:00:00:01")
                / IP(src="10.0.0.2", dst="10.0.0.1")
                / UDP(sport=NACK_PORT, dport=NACK_PORT) / Raw(b"no NACK"))  # fmt: skip
PROGRAMS = {"s1": "p4src/dta/reporter.p4", "s2": "p4src/dta/translator.p4"}


def generated(folder: Path, generator: Generator, lost_ms: tuple[int, int]) -> dict[str, Any]:
    """What a generator at h1 did, what the translator at s2 counted, and the memory of h2.

    In `lost_ms` after its first report the link between them loses all.
    """
    responder = Responder("10.0.0.2", [Writer(PEER, SLOT, SLOTS)])
    session = WriteSession(1, "h2", PEER, responder.targets[0], ack_every=1)
    service = Service("10.0.0.2", [KeyWriteStore(1, SLOTS)])
    place = Translator([session], [service], [TrackedReporter("10.0.0.1", 3)])
    told: dict[str, Any] = {}

    async def main(run: Run) -> Network:
        with Network(Pair(), run, program=PROGRAMS, expected_drops=["ingress"]) as net:
            net.run_application("h2", responder)
            async with connections(net) as switches:
                silent = Reporter("10.255.0.1", ["h2"], [])
                await reporter.configure(net, switches, {"s1": silent})
                await translator.configure(net, switches, {"s2": place})
                net.run_application("h1", generator)
                start_ns = run.clock.now_ns() + 20 * MS
                net.send_frames("h2", [start_ns], [STRANGE])
                for at_ms, loss in zip(lost_ms, (1.0, 0.0), strict=True):
                    await run.clock.sleep_until(start_ns + at_ms * MS)
                    net.switch("s1").set_link(net.port("s1", "s2"), loss_probability=loss)
                await run.clock.sleep_until(start_ns + 200 * MS)
                told["events"] = await translator.events(switches["s2"], 1)
        return net

    net = virtually(folder, main)
    outcome: Outcome = net.applications[0].result
    return told | {"memory": outcome.records[0], "sent": net.applications[1].result}


def test_what_was_lost_is_sent_again(tmp_path: Path) -> None:
    load = Load(1000, redundancy=2, retransmittable=True, reporter=3)
    told = generated(tmp_path, Generator(load, "10.0.0.2", 10_000), (30, 35))
    sent: Sent = told["sent"]
    assert (sent.sent, sent.resent, sent.nacks, sent.left) == (1000, 50, 1, 0)
    assert sent.strange == 1
    assert (sent.last_ns - sent.first_ns, sent.most_late_ns) == (999 * 100_000, 0)
    assert told["events"]["translated"] == 1000
    assert told["events"]["recovered"] == 50
    said = load.reports().said
    assert said is not None
    found = told["memory"][slots(said.key, 2, SLOTS)]
    assert (found["checksum"] == checksums(said.key, 31)).any(axis=0).sum() >= 950  # 1 - e^-.24, ^2


def test_what_is_kept_no_more_is_counted(tmp_path: Path) -> None:
    load = Load(1000, redundancy=2, retransmittable=True, reporter=3)
    told = generated(tmp_path, Generator(load, "10.0.0.2", 10_000, kept=20), (30, 35))
    sent: Sent = told["sent"]
    assert sent.resent + sent.left == 50
    assert 18 <= sent.resent <= 20
    assert told["events"]["translated"] == 950 + sent.resent


def test_captured_reports_are_sent_at_their_times(tmp_path: Path) -> None:
    reports = Load(3, reporter=3).reports()
    at_ns = np.array([0, 5 * MS, 7 * MS])
    captured = Reports(reports.payloads, reports.ports, None, at_ns)
    told = generated(tmp_path, Generator(captured, "10.0.0.2"), (0, 6))
    assert told["sent"].last_ns - told["sent"].first_ns == 7 * MS
    assert (told["sent"].resent, told["sent"].left) == (0, 2)  # they were not to be sent again
    assert told["events"]["translated"] == 1


def test_the_published_append_script_writes_to_one_list_too_many(tmp_path: Path) -> None:
    load = Load(100, {Op.APPEND: 1}, format=Format.TRACKED, lists=range(5))
    told = generated(tmp_path, Generator(load, "10.0.0.2", 10_000), (0, 0))
    assert told["sent"].sent == 100
    assert not told["memory"]["checksum"].any()  # this translator has no lists at all
