"""Sessions of switches with the responder, in virtual time: the memory at the end of the run."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import finsy as fy
import numpy as np
import pytest
from mininet.topo import Topo
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from virtual_networks import virtually

from collectors.roce.application import Outcome, Responder, Writer
from collectors.roce.endpoint import Peer, Target, Transport, gid
from collectors.roce.region import TCP as TCP_RECORD
from controllers.connection import connections, cpu_ports
from controllers.roce import running
from controllers.roce.running import State, events, restart, state
from controllers.roce.session import Content, Reporter, Session, configure
from controllers.roce.watch import RecordAction, RecordedFlow
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.session.run import Run

PROGRAM = "p4src/roce/roce.p4"
MS = 1_000_000
COUNT = 60
PEER = Peer("10.0.9.1", qpn=0x11, psn=0xFFFFF0)
OTHER = Peer("10.0.9.2", qpn=0x12, psn=5)
FLOW = RecordedFlow("10.0.0.1", "10.0.0.2")
TARGET = Target("10.0.0.3", 0x100, 0, 0x1000, 1 << 32, 4400, 1024, Transport.RC)


class TwoSwitches(Topo):
    """h1 - s1 - s2 - h2, and the collector h3 at s2.

    `link` has the parameters of the link between the switches.
    """

    def build(self, **link: int) -> None:
        s1, s2 = self.addSwitch("s1"), self.addSwitch("s2")
        self.addLink(self.addHost("h1"), s1)
        self.addLink(s1, s2, **link)
        for name in ("h2", "h3"):
            self.addLink(self.addHost(name), s2)


def segment(number: int) -> bytes:
    """Return a TCP segment from h1 to h2."""
    ether = Ether(src="00:00:00:00:00:01", dst="00:00:00:00:00:02")
    return bytes(ether / IP(src="10.0.0.1", dst="10.0.0.2") / TCP(seq=number) / b"data")


def record(number: int) -> bytes:
    """Return the record that a switch must write for the segment."""
    ports = bytes.fromhex("0014 0050")
    return gid("10.0.0.1") + gid("10.0.0.2") + ports + number.to_bytes(4, "big") + bytes(4)


Then = Callable[[dict[str, fy.Switch]], Awaitable[None]]


def measured(
    folder: Path, responder: Responder, reporters: dict[str, Reporter], *,
    begin: Then | None = None, end: Then | None = None, gap_ns: int = MS, **link: int,
) -> Outcome:  # fmt: skip
    """Send COUNT segments to the responder at intervals of `gap_ns`; return its outcome.

    `begin` is called before the first segment, and `end` after the last one.
    """

    async def main(run: Run) -> Network:
        with Network(
            TwoSwitches(**link),
            run,
            program=PROGRAM,
            expected_drops=["ingress"],
            switch_options=cpu_ports(TwoSwitches()),
        ) as net:
            net.run_application("h3", responder)
            async with connections(net) as switches:
                await configure(net, switches, reporters)
                if begin is not None:
                    await begin(switches)
                start_ns = run.clock.now_ns() + MS
                times = [start_ns + gap_ns * n for n in range(COUNT)]
                net.send_frames("h1", times, [segment(n) for n in range(COUNT)])
                await run.clock.sleep_until(start_ns + (COUNT + 5) * MS)
                if end is not None:
                    await end(switches)
        return net

    outcome: Outcome = virtually(folder, main).applications[0].result
    return outcome


@pytest.mark.parametrize(("version", "prefix"), [(1, "10.0.9."), (2, "10.0.9."), (2, "fd00::")])
def test_two_switches_write_each_into_its_own_region(
    version: int, prefix: str, tmp_path: Path
) -> None:
    peers = {"s1": replace(PEER, address=f"{prefix}1"), "s2": replace(OTHER, address=f"{prefix}2")}
    told = {}
    here = "fd00::3" if prefix == "fd00::" else "10.0.0.3"
    responder = Responder(here, [Writer(peer, TCP_RECORD, 100) for peer in peers.values()])
    reporters = {
        name: Reporter([Session(1, "h3", peer, target, version=version, ack_every=1)], [FLOW])
        for (name, peer), target in zip(peers.items(), responder.targets, strict=True)
    }

    async def ask(switches: dict[str, fy.Switch]) -> None:
        for name, reporter in reporters.items():
            session = reporter.sessions[0]
            told[name] = await state(switches[name], session), await events(switches[name], session)

    outcome = measured(tmp_path, responder, reporters, end=ask)
    for records in outcome.records:
        assert records.tobytes() == b"".join(map(record, range(COUNT))) + bytes(40 * 44)
    assert outcome.counts.refused == {}
    places = {name: State((peer.psn + COUNT) % (1 << 24), COUNT, 0) for name, peer in peers.items()}
    assert {name: found for name, (found, _) in told.items()} == places
    nothing = dict.fromkeys(told["s1"][1], 0)
    assert all(counts == nothing | {"sent": COUNT, "acked": COUNT} for _, counts in told.values())


def test_a_collector_that_was_restarted_goes_on_in_the_same_file(tmp_path: Path) -> None:
    """A restarted collector continues in the same file, after its last record.

    The new queue pair of the collector expects a different PSN.
    """
    path = tmp_path / "records"
    first, second = (
        Responder("10.0.0.3", [Writer(replace(PEER, psn=psn), TCP_RECORD, 2 * COUNT, path)])
        for psn in (0x30, 0x70000)
    )
    session = Session(1, "h3", replace(PEER, psn=0x30), first.targets[0])
    reporters = {"s1": Reporter([session], [FLOW])}

    async def again(switches: dict[str, fy.Switch]) -> None:
        await restart(switches["s1"], session, psn=0x70000, slot=COUNT)
        assert await state(switches["s1"], session) == State(0x70000, COUNT, 0)

    measured(tmp_path / "first", first, reporters)
    measured(tmp_path / "second", second, reporters, begin=again)
    assert path.read_bytes() == 2 * b"".join(map(record, range(COUNT)))


def test_counters_count_packets_and_bytes(tmp_path: Path) -> None:
    responder = Responder("10.0.0.3", [Writer(PEER, np.dtype("<u8"), 8)])
    session = Session(3, "h3", PEER, responder.targets[0], content=Content.COUNTERS)
    only = range(3, 4)
    flows = [
        RecordedFlow("10.0.0.1", "10.0.0.0/8", sessions=only, what=RecordAction.PACKET, cell=1),
        RecordedFlow("10.0.0.1", "10.0.0.2", sessions=only, what=RecordAction.BYTES, cell=2),
    ]
    for number, flow in enumerate(flows):
        outcome = measured(tmp_path / str(number), responder, {"s1": Reporter([session], [flow])})
        counted = COUNT if number == 0 else COUNT * len(segment(0))
        assert outcome.records[0][number + 1] == counted
        assert outcome.records[0].sum() == counted


def test_immediates_complete_with_the_slot(tmp_path: Path) -> None:
    responder = Responder("10.0.0.3", [Writer(PEER, TCP_RECORD, 100)])
    session = Session(1, "h3", PEER, responder.targets[0], immediate_every=16)
    outcome = measured(tmp_path, responder, {"s1": Reporter([session], [FLOW])})
    assert [each.immediate for _, each in outcome.completions] == [15, 31, 47]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"number": 0}, "expected numbers 1 to 255"),
        ({"number": 256}, "expected numbers 1 to 255"),
        ({"version": 3}, "RoCE version 3: expected 1 or 2"),
        ({"peer": Peer("fd00::1", 1, 0)}, "fd00::1 and 10.0.0.3: expected addresses of one"),
        ({"ack_every": 3}, "ack_every 3: expected a power of 2"),
        ({"immediate_every": 1 << 25}, "immediate_every 33554432: expected a power of 2"),
        (
            {"immediate_every": 32, "target": replace(TARGET, length=31 * 44)},
            "immediate_every 32: expected at most 31, the number of slots",
        ),
        ({"patience": 64}, "patience 64: expected 0, or at least twice ack_every"),
        ({"target": replace(TARGET, path_mtu=32)}, "path MTU 32: records have 44 bytes"),
        ({"target": replace(TARGET, length=43)}, "a region of 43 bytes: expected at least 44"),
        ({"stride": 43}, "stride 43: expected 44 to 65535"),
        ({"target": replace(TARGET, length=1 << 40)}, "slots: expected less than 2^31"),
        (
            {"content": Content.COUNTERS, "target": replace(TARGET, transport=Transport.UC)},
            "UC has no atomics",
        ),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, object], problem: str) -> None:
    given: dict[str, object] = {"number": 1, "peer": PEER, "target": TARGET, **changes}
    with pytest.raises(ValueError, match=r"session .* with h3: ") as caught:
        Session(host="h3", **given)  # type: ignore[arg-type]
    assert problem in str(caught.value)


def test_switches_whose_sessions_would_have_the_same_mac_are_refused(tmp_path: Path) -> None:
    """Two switches are rejected if their sessions would have the same MAC address.

    Otherwise, responses to one of the sessions would reach the other one.
    """
    peers = [replace(PEER, address=address) for address in ("fd00:1::1", "fd00:2::1")]
    responder = Responder("fd00::3", [Writer(peer, TCP_RECORD, 100) for peer in peers])
    reporters = {
        name: Reporter([Session(1, "h3", peer, target)], [FLOW])
        for name, peer, target in zip(("s1", "s2"), peers, responder.targets, strict=True)
    }
    told = "s1 and s2: sessions of both have the MAC address 06:00:00:00:00:01"
    with pytest.raises(TestbedError, match=told):
        measured(tmp_path, responder, reporters)


def test_slots_are_those_that_fit() -> None:
    for length, stride, slots in ((44, 0, 1), (87, 0, 1), (88, 0, 2), (107, 64, 1), (108, 64, 2)):
        target = replace(TARGET, length=length)
        assert Session(1, "h3", PEER, target, stride=stride).slots == slots


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"dst_addr": "fd00::1"}, "different IP versions"),
        ({"sessions": range(250, 257)}, "expected session numbers from 1 to 255"),
        ({"sessions": range(2)}, "expected session numbers from 1 to 255"),
        (
            {"sessions": range(1, 3), "what": RecordAction.BYTES},
            "expected one session for counters",
        ),
    ],
)
def test_flows_that_cannot_be_are_refused(given: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        RecordedFlow(**{"src_addr": "10.0.0.1", "dst_addr": "10.0.0.2", **given})  # type: ignore[arg-type]


def test_reporters_that_cannot_be_are_refused() -> None:
    session = Session(2, "h3", PEER, TARGET)
    with pytest.raises(ValueError, match=r"sessions \[2, 2\] of a switch: expected each number"):
        Reporter([session, session])
    with pytest.raises(
        ValueError,
        match=r"10\.0\.0\.2: range\(1, 2\): expected some of the switch's sessions \[2\]",
    ):
        Reporter([session], [FLOW])


@pytest.mark.parametrize("is_first", [True, False])
def test_entries_of_an_earlier_controller_are_replaced_without_reading_them(is_first: bool) -> None:
    """An existing entry is deleted and inserted again, without being read.

    Servers built with PI return NOT_FOUND if a missing clone session is read or deleted.
    """
    calls = []

    class Pi:
        async def read(self, _entities: object) -> None:
            raise AssertionError("NOT_FOUND: Clone session id does not exist")

        async def delete(self, entities: object, *, strict: bool = True) -> None:
            assert not (is_first and strict)
            calls.append(("delete", entities))

        async def insert(self, entities: object) -> None:
            calls.append(("insert", entities))

    entry = fy.P4CloneSessionEntry(7, replicas=[2])
    asyncio.run(running.replace(Pi(), entry))  # type: ignore[arg-type]
    assert calls == [("delete", [entry]), ("insert", [entry])]


@pytest.mark.parametrize(("ack_every", "patience"), [(1, 2), (1, 5), (1, 8), (4, 8)])
def test_probes_that_wait_behind_records_set_nothing_back(
    ack_every: int, patience: int, tmp_path: Path
) -> None:
    """Probes that wait behind records do not make the switch send records again.

    No record is lost. If a probe follows a request for an ACK, or another probe, it gets an ACK
    with the same PSN. After a loss, a probe would get such an ACK, too.
    """
    responder = Responder("10.0.0.3", [Writer(PEER, TCP_RECORD, COUNT)])
    session = Session(1, "h3", PEER, responder.targets[0], ack_every=ack_every, patience=patience)
    counts = {}

    async def ask(switches: dict[str, fy.Switch]) -> None:
        counts.update(await events(switches["s1"], session))

    outcome = measured(
        tmp_path, responder, {"s1": Reporter([session], [FLOW])}, end=ask,
        gap_ns=MS // 10, rate_bps=4_000_000, delay_us=5000, queue_packets=1000,
    )  # fmt: skip
    assert counts["probed"] > 0
    assert counts["resumed"] == 0
    assert outcome.records[0].tobytes() == b"".join(map(record, range(COUNT)))
