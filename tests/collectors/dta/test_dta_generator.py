"""Reports of the generator at a host, in virtual time: finally, the translator has all of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from virtual_networks import Pair, virtually

from collectors.dta import generator
from collectors.dta.generator import TRIES, Generator, Sent
from collectors.dta.hashes import checksums, slots
from collectors.dta.load import Format, Load, Reports
from collectors.dta.packets import DTA, NACK_PORT, Nack, Op
from collectors.roce.application import Outcome, Responder, Writer
from collectors.roce.endpoint import Peer
from controllers.connection import connections, cpu_ports
from controllers.dta import reporter, translator
from controllers.dta.reporter import Reporter
from controllers.dta.stores import KeyWriteStore
from controllers.dta.translator import (
    Rate,
    Service,
    TrackedReporter,
    Translator,
    WriteSession,
)
from telemark.network import Network
from telemark.session.run import Run

MS = 1_000_000
SLOT = np.dtype([("checksum", ">u4"), ("data", ">u4")])
SLOTS = 1 << 14
PEER = Peer("10.255.1.2", qpn=0x11, psn=5)
TO_GENERATOR = (Ether(src="00:00:00:00:00:02", dst="00:00:00:00:00:01")
                / IP(src="10.0.0.2", dst="10.0.0.1")
                / UDP(sport=NACK_PORT, dport=NACK_PORT))  # fmt: skip
STRANGE = bytes(TO_GENERATOR / Raw(b"no NACK"))
MADE_UP = bytes(TO_GENERATOR / DTA(reporter=3) / Nack(count=0xFFFFFFFF))
PROGRAMS = {"s1": "p4src/dta/reporter.p4", "s2": "p4src/dta/translator.p4"}


def generated(
    folder: Path,
    sender: Generator,
    lost_ms: tuple[int, int],
    rates: Sequence[Rate] = (),
    made_up: int = 0,
) -> dict[str, Any]:
    """Run a generator at h1; return its result, the events of the translator s2, and h2's memory.

    The link between h1 and s2 loses all packets in the interval `lost_ms` after the first report.
    h2 sends a datagram that is not a NACK, and then unjustified NACKs at intervals of 0.1 ms.
    """
    responder = Responder("10.0.0.2", [Writer(PEER, SLOT, SLOTS)])
    session = WriteSession(1, "h2", PEER, responder.targets[0], ack_every=1)
    service = Service("10.0.0.2", [KeyWriteStore(1, SLOTS)])
    place = Translator([session], [service], [TrackedReporter("10.0.0.1", 3)], rates)
    told: dict[str, Any] = {}

    async def main(run: Run) -> Network:
        with Network(
            Pair(),
            run,
            program=PROGRAMS,
            expected_drops=["ingress"],
            switch_options=cpu_ports(Pair()),
        ) as net:
            net.run_application("h2", responder)
            async with connections(net) as switches:
                silent = Reporter("10.255.0.1", ["h2"], [])
                await reporter.configure(net, switches, {"s1": silent})
                await translator.configure(net, switches, {"s2": place})
                net.run_application("h1", sender)
                start_ns = run.clock.now_ns() + 20 * MS
                times_ns = [start_ns + n * MS // 10 for n in range(10, made_up + 10)]
                net.send_frames("h2", [start_ns, *times_ns], [STRANGE, *[MADE_UP] * made_up])
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
    assert (sent.last_ns - sent.first_ns, sent.max_late_ns) == (999 * 100_000, 0)
    assert told["events"]["translated"] == 1000
    assert told["events"]["recovered"] == 50
    said = load.reports().fields
    assert said is not None
    found = told["memory"][slots(said.key, 2, SLOTS)]
    # Both copies of a key are overwritten with a probability of about (1 - e^-0.24)^2.
    assert (found["checksum"] == checksums(said.key, 31)).any(axis=0).sum() >= 950


def test_what_is_kept_no_more_is_counted(tmp_path: Path) -> None:
    load = Load(1000, redundancy=2, retransmittable=True, reporter=3)
    told = generated(tmp_path, Generator(load, "10.0.0.2", 10_000, kept=20), (30, 35))
    sent: Sent = told["sent"]
    assert sent.resent + sent.left == 50
    assert 18 <= sent.resent <= 20
    assert told["events"]["translated"] == 950 + sent.resent


def test_what_a_rate_refuses_comes_back_until_there_is_room(tmp_path: Path) -> None:
    """Reports that a rate limit rejects are sent again until the translator accepts them.

    The translator does not request rejected reports once per RTT. Otherwise, it would send some
    hundred requests per report.
    """
    load = Load(50, redundancy=1, retransmittable=True, reporter=3)
    told = generated(tmp_path, Generator(load, "10.0.0.2", 10_000), (0, 0), [Rate(1, 2000)])
    sent, events = told["sent"], told["events"]
    assert (events["translated"], sent.given_up) == (50, 0)
    assert events["too fast"] == sent.resent < 5 * 50


@pytest.mark.parametrize(("patience_ns", "tries"), [(generator.PATIENCE_NS, 8), (1, TRIES)])
def test_nacks_without_end_have_an_end(
    patience_ns: int, tries: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The generator does not resend a report for each of many forged NACKs.

    A host sends a forged NACK every 0.1 ms for 150 ms. The generator resends a report at doubling
    intervals, and at most TRIES times.
    """
    monkeypatch.setattr(generator, "PATIENCE_NS", patience_ns)
    load = Load(3, retransmittable=True, reporter=3)
    told = generated(tmp_path, Generator(load, "10.0.0.2", 10_000), (0, 0), made_up=1500)
    sent: Sent = told["sent"]
    assert sent.nacks == 1500
    assert 3 * (tries - 2) <= sent.resent <= 3 * tries
    assert sent.given_up == (3 if tries == TRIES else 0)
    assert told["events"]["duplicate"] == sent.resent


def test_captured_reports_are_sent_at_their_times(tmp_path: Path) -> None:
    reports = Load(3, reporter=3).reports()
    at_ns = np.array([0, 5 * MS, 7 * MS])
    captured = Reports(reports.payloads, reports.ports, None, at_ns)
    told = generated(tmp_path, Generator(captured, "10.0.0.2"), (0, 6))
    assert told["sent"].last_ns - told["sent"].first_ns == 7 * MS
    assert (told["sent"].resent, told["sent"].left) == (0, 2)  # they were not retransmittable
    assert told["events"]["translated"] == 1


def test_the_published_append_script_writes_to_one_list_too_many(tmp_path: Path) -> None:
    load = Load(100, {Op.APPEND: 1}, format=Format.TRACKED, lists=range(5))
    told = generated(tmp_path, Generator(load, "10.0.0.2", 10_000), (0, 0))
    assert told["sent"].sent == 100
    assert not told["memory"]["checksum"].any()  # this translator has no lists
