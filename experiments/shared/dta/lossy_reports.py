"""Fate of reports that cross two lossy links on their way to the memory of a collector.

h1, h3 - s1 - s2 - h2: s1 reports each packet from h1 to h3, s2 writes the report into h2's memory
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import finsy as fy
import numpy as np
from numpy.typing import NDArray
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from collectors.dta.hashes import Words, checksums, slots
from collectors.dta.packets import PORT
from collectors.roce.application import Outcome, Responder, Writer
from collectors.roce.endpoint import Peer, Transport
from controllers.connection import connections, cpu_ports
from controllers.dta import reporter, translator
from controllers.dta.metrics import publishing
from controllers.dta.reporter import Reporter
from controllers.dta.stores import KeyWriteStore
from controllers.dta.translator import Service, TrackedReporter, Translator, WriteSession
from controllers.dta.watch import Data, WatchedFlow, Word
from controllers.roce.running import events, state
from experiments.shared.dta.reports import numbers_in, to_octets
from experiments.shared.roce.reporting import settle
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.apps.application import Application, Host
from telemark.capacity_probe import CapacityEstimate, probe_program
from telemark.errors import TestbedError, note_invalid
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow
from topologies.basic import Dumbbell

REPORTER_PROGRAM, TRANSLATOR_PROGRAM = "p4src/dta/reporter.p4", "p4src/dta/translator.p4"
REPORTER_ADDR, PEER = "10.255.0.1", Peer("10.255.1.2", qpn=0x11, psn=0xFFFF00)
COLLECTOR, COLLECTOR_ADDR, RECEIVER = "h2", "10.0.0.2", "h3"
SLOT = np.dtype([("checksum", ">u4"), ("data", ">u4")])
SLOTS = 1 << 18
# expected drop reasons: reports, NACKs and responses end in a switch
EXPECTED = ("ingress", "miss", "egress")
DELAY_US = 500  # delay of each of the two links
USERS, USER_PORT, UDP_PROTOCOL = "10.128.0.0/9", 5000, 17
PSNS, PATIENCE = 1 << 24, 64
# Offsets of fields in a frame.
UDP_PORT, SEQUENCE, BTH, PSN, ADDRESS, LENGTH = 36, 46, 42, 51, 54, 66
ROCE_PORT, WRITES = 4791, (0x0A, 0x2A)
IP_HEADER, SRC_ADDR, SRC_PORT = slice(14, 34), 26, 34
LEAD_NS, SETTLE_NS = 100_000_000, 200_000_000


@dataclass(frozen=True)
class RecoveryMode:
    """Which links lose packets, and how the switches recover from losses."""

    loses_reports: bool = False
    loses_writes: bool = False
    retransmittable: bool = True
    transport: Transport = Transport.RC
    listens: bool = True  # whether the translator processes responses of the collector


@dataclass(frozen=True)
class Found:
    """Fate of reports. Arrays have one element per report."""

    probability: float
    lossy: int  # number of reports sent while links were lossy
    transmissions: NDArray[np.int64]  # number of transmissions by the reporter, from captures
    # whether the report arrived at the translator, from captures and the link log
    arrived: NDArray[np.bool_]
    # whether the collector must accept the report, according to its rules and the requests that
    # arrived
    accepted: NDArray[np.bool_]
    written: NDArray[np.bool_]  # whether the report is in memory
    requests: int  # number of requests sent by the translator, from captures
    strange: int  # number of memory slots with unreported data
    reporter: dict[str, int]  # counters of the reporter
    left: int  # number of reports that NACKs requested, but that were no longer in the ring
    missing: int  # number of reports that the translator missed, according to its counter
    unwritten: int  # number of lost RDMA requests, counted by the translator
    accounting: PacketAccounting

    @property
    def lost(self) -> int:
        """Number of reports that were sent while links were lossy and are not in memory."""
        return int(np.count_nonzero(~self.written[: self.lossy]))


class Receiver(Application):
    """Sink for user packets."""

    def start(self, host: Host) -> None:
        """Start to listen."""
        host.udp(USER_PORT, hold_us=1000)


def flows(count: int, seed: int) -> Words:
    """Return keys of flows to h3 with different slots: (count, 4). Raises TestbedError."""
    rng = np.random.default_rng(seed)
    if count > SLOTS // 4:
        raise TestbedError(
            f"{count} reports: expected at most {SLOTS // 4}, because each needs its own slot"
        )
    keys = np.zeros((2 * count, 4), np.uint32)
    keys[:, 0] = 0x0A800000 + rng.permutation(1 << 23)[: 2 * count]  # 10.128.0.0/9
    keys[:, 1] = 0x0A000003
    keys[:, 2] = rng.integers(1024, 1 << 16, 2 * count, np.uint32) << 16 | USER_PORT
    keys[:, 3] = UDP_PROTOCOL << 24
    _, first = np.unique(slots(keys, 1, SLOTS)[0], return_index=True)
    return keys[np.sort(first)[:count]]


def make_frames(keys: Words) -> list[bytes]:
    """Return a packet of each flow, from h1."""
    ends = Ether(src="00:00:00:00:00:01", dst="00:00:00:00:00:03") / IP(dst="10.0.0.3")
    one = bytes(ends / UDP(dport=USER_PORT, chksum=0) / Raw(bytes(18)))
    octets = np.tile(np.frombuffer(one, np.uint8), (len(keys), 1))
    octets[:, SRC_ADDR : SRC_ADDR + 4] = to_octets(keys[:, 0].astype(">u4"))
    octets[:, SRC_PORT : SRC_PORT + 2] = to_octets((keys[:, 2] >> 16).astype(">u2"))
    octets[:, 24:26] = 0
    header = np.ascontiguousarray(octets[:, IP_HEADER]).view(">u2").astype(np.uint32).sum(axis=1)
    header = (header & 0xFFFF) + (header >> 16)
    header = (header & 0xFFFF) + (header >> 16)
    octets[:, 24:26] = to_octets((~header & 0xFFFF).astype(">u2"))
    return [row.tobytes() for row in octets]


async def measure(
    run: Run,
    name: str,
    mode: RecoveryMode,
    *,
    probability: float,
    lossy: int,
    keys: Words,
    rate_pps: float,
    program: str = REPORTER_PROGRAM,
) -> Found:
    """Report a packet of each flow; links are lossy for the first `lossy` reports."""
    async with reporting(run, name, mode, program) as running:
        net, switches = running.net, running.switches
        start_ns = run.clock.now_ns() + LEAD_NS
        times = (start_ns + np.arange(len(keys)) * (1e9 / rate_pps)).astype(np.int64).tolist()
        net.send_frames("h1", times, make_frames(keys))
        _lose(net, mode, probability)
        await run.clock.sleep_until(times[lossy] - round(0.5e9 / rate_pps))
        _lose(net, mode, 0.0)
        await run.clock.sleep_until(times[-1])
        await settle(run, SETTLE_NS, running.count)
        counts, translated, sent = await running.count()
        left = (await reporter.state(switches["s1"])).evicted
        missing = await translator.missing_reports(switches["s2"], 1)
        unwritten = (await state(switches["s2"], running.session)).lost
    if run.target == "bmv2":
        _reject_bmv2_drops(net, counts, translated, sent)
    outcome: Outcome = net.applications[0].result
    return Found(
        probability, lossy, **_fates(net, mode, keys, outcome), reporter=counts, left=left,
        missing=missing, unwritten=unwritten, accounting=PacketAccounting.from_network(net, {}),
    )  # fmt: skip


@dataclass(frozen=True)
class Running:
    """Running network of a reporter, a translator and a collector."""

    net: Network
    switches: Mapping[str, fy.Switch]
    session: WriteSession

    async def count(self) -> list[dict[str, int]]:
        """Return the counters of both switches."""
        return [
            await reporter.events(self.switches["s1"]),
            await translator.events(self.switches["s2"], 1),
            await events(self.switches["s2"], self.session),
        ]


@asynccontextmanager
async def reporting(
    run: Run, name: str, mode: RecoveryMode, program: str, *, users: str = USERS, share: float = 0.0
) -> AsyncIterator[Running]:
    """Run a network that reports new flows of `users`, and a part (`share`) of their packets."""
    responder = Responder(COLLECTOR_ADDR, [Writer(PEER, SLOT, SLOTS, None, mode.transport)])
    session = WriteSession(
        1, COLLECTOR, PEER, responder.targets[0], ack_every=16, patience=PATIENCE
    )
    place = Translator([session], [Service(COLLECTOR_ADDR, [KeyWriteStore(1, SLOTS)])],
                       [TrackedReporter(REPORTER_ADDR)])  # fmt: skip
    data = Data(words=1, first=Word.PACKETS, redundancy=1, share=share,
                retransmittable=mode.retransmittable)  # fmt: skip
    sender = Reporter(REPORTER_ADDR, [COLLECTOR], [WatchedFlow(users, "10.0.0.3")], data=data)
    topo = Dumbbell(2, delay_us=DELAY_US)
    with Network(
        topo, run, name=name, expected_drops=EXPECTED, switch_options=cpu_ports(topo),
        program={"s1": program, "s2": TRANSLATOR_PROGRAM},
    ) as net:  # fmt: skip
        net.run_application(COLLECTOR, responder)
        net.run_application(RECEIVER, Receiver())
        net.switch("s2").set_link(net.port("s2", COLLECTOR), delay_us=DELAY_US)
        async with connections(net) as switches:
            await reporter.configure(net, switches, {"s1": sender})
            await translator.configure(net, switches, {"s2": place})
            if not mode.listens:
                await switches["s2"].delete(session.entries(net.host(COLLECTOR).MAC())[-1:])
            async with publishing(run.metrics, switches, {"s2": place}, {"s1": sender}):
                yield Running(net, switches, session)


async def find_capacity(run: Run, rate_pps: int, program: str) -> CapacityEstimate:
    """Return the fraction of a report rate that bmv2 sustains, from a probe in another network."""
    async with reporting(
        run, "probe", RecoveryMode(), program, users="10.0.0.0/8", share=1.0
    ) as running:  # fmt: skip
        net, translating = running.net, running.switches["s2"]

        async def count() -> int:
            return (await events(translating, running.session))["sent"]

        flow = Flow(1, "h1", RECEIVER, rate_pps, rate_pps)
        capacity = await probe_program(net, flow, count, run)
    net.discard()
    return capacity


def _reject_bmv2_drops(
    net: Network, reporter_counts: Mapping[str, int], translated: Mapping[str, int],
    sent: Mapping[str, int],
) -> None:  # fmt: skip
    """Make the run inconclusive if bmv2 dropped frames, for example on a loaded machine.

    Captures behind the panel switches (minip4, between bmv2 and the links) are compared with the
    counters of the P4 programs.
    """
    received = {
        ("s1", "h1"): reporter_counts["sent"],
        ("s1", "s2"): reporter_counts["nacked"],
        ("s2", "s1"): sum(translated[outcome] for outcome in translator.OUTCOMES),
    }
    transmitted = {
        ("s1", "s2"): reporter_counts["sent"] + reporter_counts["resent"],
        ("s2", "s1"): translated["nacked"],
        ("s2", COLLECTOR): sent["sent"] + sent["probed"],
    }
    for what, counted in (("out", received), ("in", transmitted)):
        for (switch, neighbour), count in counted.items():
            captured = len(pcap.read(net.capture(switch, neighbour, what, inner=True)).time_ns)
            lost = captured - count if what == "out" else count - captured
            if lost > 0:
                side = "from" if what == "out" else "to"
                note_invalid(f"{net.name}: {switch} dropped {lost} frames {side} {neighbour}")
    if queued := translated["translated"] - sent["sent"]:
        note_invalid(f"{net.name}: s2 dropped {queued} requests in its queue")


def _fates(net: Network, mode: RecoveryMode, keys: Words, outcome: Outcome) -> dict[str, Any]:
    """Return the fields of Found that contain the fate of each report, from captures and memory."""
    where = slots(keys, 1, SLOTS)[0]
    transmissions, lost = (_numbers(net, what, len(keys)) for what in ("out", "lost"))
    requests, accepted = _accepted(net, mode)
    memory = outcome.records[0]
    expected = np.zeros(SLOTS, SLOT)
    written = memory["checksum"][where] != 0
    expected["checksum"][where[written]] = checksums(keys, 31)[written]
    expected["data"][where[written]] = 1  # value reported for the first packet of the flow
    return {
        "transmissions": transmissions, "arrived": transmissions > lost,
        "accepted": np.isin(where, accepted), "written": written, "requests": requests,
        "strange": int(np.count_nonzero(expected != memory)),
    }  # fmt: skip


def _lose(net: Network, mode: RecoveryMode, probability: float) -> None:
    links = [("s1", "s2", mode.loses_reports), ("s2", COLLECTOR, mode.loses_writes)]
    for switch, neighbour, loses in links:
        if loses:
            port = net.port(switch, neighbour)
            net.switch(switch).set_link(port, loss_probability=probability)


def _numbers(net: Network, what: str, count: int) -> NDArray[np.int64]:
    """Count transmissions of each report from the reporter to the translator."""
    frames = pcap.read(net.capture("s1", "s2", what)).bytes
    reports = frames[numbers_in(frames, UDP_PORT, 2) == PORT]
    return np.bincount(numbers_in(reports, SEQUENCE, 4), minlength=count)


def _accepted(net: Network, mode: RecoveryMode) -> tuple[int, list[int]]:
    """Return the number of requests of the translator, and the slots of the accepted requests.

    A reliable connection accepts the expected PSN only (InfiniBand Architecture Specification,
    volume 1, 9.7.2), an unreliable connection accepts every PSN.
    """
    sent, lost = (_writes(net, what) for what in ("out", "lost"))
    gone = {*lost}
    taken, expected = [], PEER.psn
    for psn, slot in sent:
        if (psn, slot) in gone:
            continue
        if mode.transport is Transport.UC or psn == expected:
            taken.append(slot)
            expected = (psn + 1) % PSNS
    return len(sent), taken


def _writes(net: Network, what: str) -> list[tuple[int, int]]:
    """Return PSN and slot of each WRITE, except for probes (WRITEs of 0 bytes)."""
    frames = pcap.read(net.capture("s2", COLLECTOR, what)).bytes
    is_write = (numbers_in(frames, UDP_PORT, 2) == ROCE_PORT) & np.isin(frames[:, BTH], WRITES)
    frames = frames[is_write & (numbers_in(frames, LENGTH, 4) != 0)]
    base = Responder(COLLECTOR_ADDR, [Writer(PEER, SLOT, SLOTS)]).targets[0].base
    places = (numbers_in(frames, ADDRESS, 8) - base) // SLOT.itemsize
    return [*zip(numbers_in(frames, PSN, 3).tolist(), places.tolist(), strict=True)]
