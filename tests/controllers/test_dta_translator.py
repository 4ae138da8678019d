"""A translator in a network, in virtual time: the collector's memory at the end of the run."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import finsy as fy
import numpy as np
import pytest
from mininet.topo import Topo
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from virtual_networks import virtually

from collectors.dta.hashes import checksums, key_words, slots
from collectors.dta.hashes import sessions as sessions_of
from collectors.dta.packets import DTA, KeyIncrement, KeyWrite
from collectors.roce.application import Outcome, Responder, Writer
from collectors.roce.endpoint import Peer, Target, Transport
from controllers.connection import connections, cpu_ports
from controllers.dta.batching import ListStore, PostcardStore, SketchStore
from controllers.dta.stores import CounterStore, KeyWriteStore
from controllers.dta.translator import (
    CounterSession,
    Rate,
    Service,
    TrackedReporter,
    Translator,
    WriteSession,
    configure,
    events,
    restart_reporter,
)
from controllers.roce.running import State, reconnect, state
from telemark.network import Network
from telemark.session.run import Run

MS = 1_000_000
SLOTS, COUNT = 256, 100
SLOT = np.dtype([("checksum", ">u4"), ("data", ">u4")])
COUNTER = np.dtype("<u8")
PEERS = [Peer("10.0.9.1", qpn=0x11, psn=0xFFFFF0), Peer("10.0.9.1", qpn=0x12, psn=7)]
TARGET = Target("10.0.0.2", 0x100, 0, 0x1000, 1 << 32, 8 * SLOTS, 1024, Transport.RC)
SESSION = WriteSession(1, "h2", PEERS[0], TARGET)
LARGE = replace(SESSION, target=replace(TARGET, length=1 << 20))
KEYS = [0x0123456789ABCDEF << 64 | 0x9E3779B97F4A7C15 * n % (1 << 64) for n in range(COUNT)]


class OneSwitch(Topo):
    """A switch between h1, the reporter, and h2, the collector."""

    def build(self) -> None:
        s1 = self.addSwitch("s1")
        for name in ("h1", "h2"):
            self.addLink(self.addHost(name), s1)


def frame(report: Packet, sequence: int) -> bytes:
    """Return a report from h1 to the address of the collector."""
    ether = Ether(src="00:00:00:00:00:01", dst="00:00:00:00:00:02")
    ip = IP(src="10.0.0.1", dst="10.0.0.2")
    return bytes(ether / ip / UDP(sport=40041) / DTA(sequence=sequence) / report)


@asynccontextmanager
async def translating(
    run: Run, responder: Responder, translator: Translator
) -> AsyncIterator[tuple[Network, fy.Switch]]:
    """Run a network with a configured translator; the responder is at h2."""
    with Network(
        OneSwitch(), run, program="p4src/dta/translator.p4", expected_drops=["ingress"],
        switch_options=cpu_ports(OneSwitch()),
    ) as net:  # fmt: skip
        net.run_application("h2", responder)
        async with connections(net) as switches:
            await configure(net, switches, {"s1": translator})
            yield net, switches["s1"]


def test_reports_of_a_host_are_in_the_collector_s_memory(tmp_path: Path) -> None:
    writers = [Writer(PEERS[0], SLOT, SLOTS), Writer(PEERS[1], COUNTER, 4 * SLOTS)]
    responder = Responder("10.0.0.2", writers)
    sessions = [
        WriteSession(1, "h2", PEERS[0], responder.targets[0], ack_every=1),
        CounterSession(2, "h2", PEERS[1], responder.targets[1]),
    ]
    stores = [KeyWriteStore(1, SLOTS, 16), CounterStore(SLOTS, 4, range(2, 3))]
    translator = Translator(sessions, [Service("10.0.0.2", stores)])
    reports = [
        report for n, key in enumerate(KEYS)
        for report in (KeyWrite(redundancy=2, key=key, data=[n]),
                       KeyIncrement(redundancy=4, key=key, addend=n))
    ]  # fmt: skip
    told: dict[str, Mapping[str, int] | State] = {}

    async def main(run: Run) -> Network:
        async with translating(run, responder, translator) as (net, switch):
            start_ns = run.clock.now_ns() + MS
            times = [start_ns + MS * n for n in range(len(reports))]
            frames = [frame(report, n) for n, report in enumerate(reports)]
            net.send_frames("h1", times, frames)
            await run.clock.sleep_until(times[-1] + 5 * MS)
            told["events"] = await events(switch)
            told["state"] = await state(switch, sessions[1])
        return net

    outcome: Outcome = virtually(tmp_path, main).applications[0].result
    assert outcome.counts.refused == {}
    keys = key_words(KEYS)
    written = np.zeros(SLOTS, SLOT)
    counters = np.zeros((4, SLOTS), np.uint64)
    for n in range(COUNT):
        written[slots(keys[n : n + 1], 2, SLOTS)[:, 0]] = checksums(keys[n : n + 1], 16)[0], n
        counters[range(4), slots(keys[n : n + 1], 4, SLOTS)[:, 0]] += np.uint64(n)
    assert outcome.records[0].tobytes() == written.tobytes()
    assert outcome.records[1].tobytes() == counters.tobytes()
    assert told["events"] == dict.fromkeys(told["events"], 0) | {"translated": 2 * COUNT}
    assert told["state"] == State(PEERS[1].psn + 4 * COUNT, 0, 0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"services": [Service("10.0.0.2", [KeyWriteStore(3, SLOTS)])]},
         "service 10.0.0.2, session 1: a region of 2048 bytes: expected at least 4096"),
        ({"services": [Service("10.0.0.2", [KeyWriteStore(1, SLOTS, sessions=range(1, 3))])]},
         "service 10.0.0.2, session 2: its translator has no such session"),
        ({"services": [Service("10.0.0.2", [CounterStore(4, 1)])]},
         "service 10.0.0.2, session 1: it is a WriteSession: expected a CounterSession"),
        ({"services": [Service("10.0.0.2", [KeyWriteStore(1, SLOTS), KeyWriteStore(1, 1)])]},
         "two entries for key_write_stores {'service': 1, 'words': 1}: expected one"),
        ({"reporters": [TrackedReporter("10.0.0.1"), TrackedReporter("10.0.0.1", 0)]},
         "two entries for reporters {'hdr.ipv4.src_addr': '10.0.0.1', 'reporter': 0}"),
        ({"reporters": [TrackedReporter("10.0.0.1", n) for n in range(256)]},
         "256 reporters: expected at most 255"),
        ({"sessions": [SESSION, SESSION]},
         r"sessions \[1, 1\] of a translator: expected each number once"),
        ({"sessions": [CounterSession(1, "h2", PEERS[0], TARGET)]},
         "service 10.0.0.2, session 1: it is a CounterSession: expected a WriteSession"),
        *(({"sessions": [LARGE], "services": [Service("10.0.0.2", [one]),
                                              Service("10.0.0.3", [other])]},
           f"services 10.0.0.2 and 10.0.0.3: both use {both} of the translator; change")
          for one, other, both in (
              (ListStore(1, 2, 9), ListStore(1, 2, 9, first=8), "lists 8 to 8"),
              (PostcardStore(1, 8, first=4), PostcardStore(1, 8), "rows of paths 4 to 7"),
              (SketchStore(16, 1), SketchStore(8, 1, first=8), "columns 8 to 15"),
          )),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(change: dict[str, object], said: str) -> None:
    good = Translator([SESSION], [Service("10.0.0.2", [KeyWriteStore(1, SLOTS)])])
    with pytest.raises(ValueError, match=said):
        replace(good, **change)


def test_stores_with_registers_of_their_own_are_well() -> None:
    """Two stores of the same kind are valid if they use different registers.

    Two stores of different kinds may use the same register numbers.
    """
    one = Service("10.0.0.2", [ListStore(1, 2, 8), PostcardStore(1, 8), SketchStore(8, 1)])
    other = [ListStore(1, 2, 8, first=8), PostcardStore(1, 8, first=8), SketchStore(8, 1, first=8)]
    Translator([LARGE], [one, Service("10.0.0.3", other)])


@pytest.mark.parametrize(
    ("store", "said"),
    [
        (lambda: KeyWriteStore(2, SLOTS), "expected one of"),
        (lambda: KeyWriteStore(1, 100), "100 slots: expected a power of 2"),
        (lambda: KeyWriteStore(1, SLOTS, 7), "checksums of 7 bits: expected 8 to 31"),
        (lambda: KeyWriteStore(1, SLOTS, sessions=range(0, 2)), "session numbers from 1 to 255"),
        (lambda: CounterStore(SLOTS, 9), "9 rows: expected 1 to 8"),
        (lambda: Rate(1, 0.1), "session 1: 0.1 requests/s: expected 0.24 to 1e9"),
        (lambda: Rate(1, 1e6, 0), "a burst of 0: expected at least 1"),
        (lambda: Rate(1, 1, 6), "a burst of 6: expected at least 1, sent within 4 s"),
    ],
)
def test_parts_that_cannot_be_are_refused(store: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        store()  # type: ignore[operator]


def test_a_restarted_reporter_is_tracked_from_its_first_report(tmp_path: Path) -> None:
    """After a reporter has restarted, its reports are accepted from the first one on.

    Without restart_reporter(), they would look like duplicates.
    """
    responder = Responder("10.0.0.2", [Writer(PEERS[1], COUNTER, SLOTS)])
    session = CounterSession(1, "h2", PEERS[1], responder.targets[0])
    translator = Translator(
        [session], [Service("10.0.0.2", [CounterStore(SLOTS, 1)])], [TrackedReporter("10.0.0.1")],
        [Rate(1, 1e6)],
    )  # fmt: skip
    frames = [frame(KeyIncrement(redundancy=1, key=1, addend=1), n) for n in range(10)]
    told = []

    async def main(run: Run) -> Network:
        async with translating(run, responder, translator) as (net, switch):
            for is_restarted in (False, False, True):
                if is_restarted:
                    await restart_reporter(switch, 1)
                start_ns = run.clock.now_ns() + MS
                net.send_frames("h1", [start_ns + MS * n for n in range(10)], frames)
                await run.clock.sleep_until(start_ns + 20 * MS)
                told.append(await events(switch, 1))
        return net

    outcome: Outcome = virtually(tmp_path, main).applications[0].result
    assert outcome.records[0].sum() == 20
    assert [counts["translated"] for counts in told] == [10, 10, 20]
    assert [counts["duplicate"] for counts in told] == [0, 10, 10]


def key_writes(numbers: range) -> list[bytes]:
    """Return reports of KEYS with these sequence numbers."""
    return [frame(KeyWrite(redundancy=2, key=KEYS[n], data=[n]), n) for n in numbers]


def all_written() -> bytes:
    """Return the expected store after the reports of all KEYS."""
    records, keys = np.zeros(SLOTS, SLOT), key_words(KEYS)
    for n in range(COUNT):
        records[slots(keys[n : n + 1], 2, SLOTS)[:, 0]] = checksums(keys[n : n + 1], 31)[0], n
    return records.tobytes()


def test_a_collector_that_was_restarted_goes_on_in_the_same_file(tmp_path: Path) -> None:
    """A restarted collector continues in the same file.

    During the run, the collector gets a new queue pair, key and PSN. The controller then writes
    them to the translator.
    """
    path, other = tmp_path / "store", replace(PEERS[0], psn=0x30)
    responder = Responder(
        "10.0.0.2", [Writer(peer, SLOT, SLOTS, path) for peer in (PEERS[0], other)]
    )
    before, after = (
        WriteSession(1, "h2", peer, target, ack_every=1)
        for peer, target in zip((PEERS[0], other), responder.targets, strict=True)
    )
    translator = Translator([before], [Service("10.0.0.2", [KeyWriteStore(1, SLOTS)])])
    told = []

    async def main(run: Run) -> Network:
        async with translating(run, responder, translator) as (net, switch):
            for half in (range(COUNT // 2), range(COUNT // 2, COUNT)):
                start_ns = run.clock.now_ns() + MS
                net.send_frames("h1", [start_ns + MS * n for n in range(len(half))],
                                key_writes(half))  # fmt: skip
                await run.clock.sleep_until(start_ns + MS * (len(half) + 5))
                told.append(await state(switch, before))
                await reconnect(net, switch, after)
        return net

    outcome: Outcome = virtually(tmp_path / "run", main).applications[0].result
    assert path.read_bytes() == all_written()
    assert outcome.counts.refused == {}
    assert told == [State((PEERS[0].psn + COUNT) % (1 << 24), 0, 0), State(0x30 + COUNT, 0, 0)]


def test_a_translator_that_was_restarted_goes_on_with_its_reporters(tmp_path: Path) -> None:
    """A restarted translator continues after the last report of its reporter.

    The registers are empty after a restart, so the controller sets the next sequence number.
    Therefore, the translator does not request earlier reports.
    """
    path, told = tmp_path / "store", []

    async def main(run: Run, half: range, responder: Responder) -> Network:
        session = WriteSession(1, "h2", PEERS[0], responder.targets[0])
        service = Service("10.0.0.2", [KeyWriteStore(1, SLOTS)])
        translator = Translator([session], [service], [TrackedReporter("10.0.0.1")])
        async with translating(run, responder, translator) as (net, switch):
            await restart_reporter(switch, 1, sequence=half[0])
            start_ns = run.clock.now_ns() + MS
            net.send_frames("h1", [start_ns + MS * n for n in range(len(half))],
                            key_writes(half))  # fmt: skip
            await run.clock.sleep_until(start_ns + MS * (len(half) + 5))
            told.append(await events(switch, 1))
        return net

    for half in (range(COUNT // 2), range(COUNT // 2, COUNT)):
        responder = Responder("10.0.0.2", [Writer(PEERS[0], SLOT, SLOTS, path)])
        folder = tmp_path / str(half[0])
        virtually(folder, lambda run, half=half, at=responder: main(run, half, at))
    assert path.read_bytes() == all_written()
    assert [{name: n for name, n in counts.items() if n} for counts in told] == [
        {"translated": COUNT // 2}
    ] * 2


class TwoCollectors(Topo):
    """The reporter h1 and two collectors at a switch.

    The links of the collectors are slow, so that copies wait in queues.
    """

    def build(self) -> None:
        s1 = self.addSwitch("s1")
        self.addLink(self.addHost("h1"), s1)
        for name in ("h2", "h3"):
            self.addLink(self.addHost(name), s1, rate_bps=5_000_000)


def test_copies_for_two_collectors_are_not_mixed_up(tmp_path: Path) -> None:
    """Each of two collectors gets the right copies of reports.

    Copies for both collectors alternate in the translator. If copies were numbered at egress, they
    would get wrong copy numbers.
    """
    hosts = ("h2", "h3")
    addresses = {host: f"10.0.0.{host[1]}" for host in hosts}
    responders = {host: Responder(addresses[host], [Writer(PEERS[0], SLOT, SLOTS)])
                  for host in hosts}  # fmt: skip
    sessions = [
        WriteSession(number, host, PEERS[0], responders[host].targets[0])
        for number, host in enumerate(hosts, 1)
    ]
    store = KeyWriteStore(1, SLOTS, sessions=range(1, 3))
    translator = Translator(sessions, [Service("10.0.0.2", [store])])
    reports = [KeyWrite(redundancy=4, key=key, data=[n]) for n, key in enumerate(KEYS)]

    async def main(run: Run) -> Network:
        program = "p4src/dta/translator.p4"
        with Network(
            TwoCollectors(),
            run,
            program=program,
            expected_drops=["ingress"],
            switch_options=cpu_ports(TwoCollectors()),
        ) as net:
            for host in hosts:
                net.run_application(host, responders[host])
            async with connections(net) as switches:
                await configure(net, switches, {"s1": translator})
                start_ns = run.clock.now_ns() + MS
                frames = [frame(report, n) for n, report in enumerate(reports)]
                net.send_frames("h1", [start_ns + 300_000 * n for n in range(COUNT)], frames)
                await run.clock.sleep_until(start_ns + 200 * MS)
        return net

    net = virtually(tmp_path, main)
    keys = key_words(KEYS)
    where = sessions_of(keys, 2)
    for number, running in enumerate(net.applications):
        expected = np.zeros(SLOTS, SLOT)
        for n in np.flatnonzero(where == number):
            places = slots(keys[n : n + 1], 4, SLOTS)[:, 0]
            expected[places] = checksums(keys[n : n + 1], 31)[0], n
        assert running.result.records[0].tobytes() == expected.tobytes()
