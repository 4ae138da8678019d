"""The same reports for the published translator and for Telemark's.

h1, h3 - s1 - h2: s1 writes reports from h1 and h3 into the memory of h2. h2 has the addresses that
the published programs contain.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import finsy as fy
import numpy as np
from mininet.topo import Topo
from numpy.typing import NDArray
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from collectors.dta.append import batch
from collectors.dta.key_increment import COUNTER
from collectors.dta.key_write import slot
from collectors.dta.packets import NACK_PORT
from collectors.dta.postcarding import CHUNK
from collectors.roce.application import PATH_MTU, Outcome, Responder, Writer
from collectors.roce.endpoint import Peer
from collectors.roce.packets import PORT as ROCE_PORT
from collectors.roce.packets import Op, icrc
from collectors.roce.softnic import SoftNic
from controllers.connection import connections, cpu_ports
from controllers.dta import translator
from controllers.dta.batching import ListStore, PostcardStore
from controllers.dta.stores import CounterStore, KeyWriteStore, Store
from controllers.dta.translator import (
    CounterSession,
    Service,
    TrackedReporter,
    Translator,
    WriteSession,
)
from experiments.shared.dta import prototype
from experiments.shared.dta.prototype import BATCH, COLLECTOR_ADDR, COLLECTOR_MAC
from experiments.shared.roce.reporting import FrameRecorder
from experiments.shared.tna.fetched import compile_fetched
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.apps.application import Host
from telemark.network import Network
from telemark.results.report import Check
from telemark.session.run import Run
from telemark.traffic.received import Frames

PROTOTYPE, OURS = "prototype", "Telemark"
SIDES = (PROTOTYPE, OURS)
PROGRAMS = {False: "p4src/dta/translator_plain.p4", True: "p4src/dta/translator.p4"}
FIRST_PSN = 0xFFFF00  # close to 2^24, so that sequence numbers wrap around
CARDS, KEYS, LISTS = "cards", "keys", "lists"  # names of memory regions, and of their files
LEAD_NS, SETTLE_NS = 50_000_000, 300_000_000
OUR_PEER_ADDR = "10.0.9.1"
# expected drop reasons: reports and responses end in the translator; the prototype sends unknown
# packets to its CPU port
EXPECTED = ("ingress", "miss", "egress", "no_port")
_ETHERNET, _IPV4, _UDP, _BTH, _ATOMIC, _ICRC = 14, 20, 8, 12, 28, 4  # lengths of headers


@dataclass(frozen=True)
class Memory:
    """Sizes of the memory of a collector. Slots are per primitive; a ring is in batches."""

    slots: int = 1024
    cards: int = 1024
    lists: int = 1
    ring: int = 64
    counters: int = 0  # number of copies of a counter; if 0, keys have slots instead of counters

    def records(self, side: str) -> dict[str, tuple[np.dtype[Any], int]]:
        """Return the type and the number of the records in each region of a side."""
        if side == OURS:
            keys = (COUNTER, self.counters * self.slots) if self.counters else (slot(1), self.slots)
            return {CARDS: (CHUNK, self.cards), KEYS: keys,
                    LISTS: (batch(BATCH), self.lists * self.ring)}  # fmt: skip
        keys = (prototype.COUNTER if self.counters else prototype.SLOT), self.slots
        lists = {f"{LISTS}-{n}": (prototype.ENTRY, self.ring * BATCH) for n in range(self.lists)}
        return {CARDS: (prototype.CARD, self.cards), KEYS: keys, **lists}


@dataclass(frozen=True)
class Faults:
    """Faults of the network in front of a collector: numbers of lost and of repeated requests."""

    lost: int | None = None
    repeated: int | None = None


@dataclass(frozen=True)
class Received:
    """Result of a collector."""

    outcome: Outcome
    requests: int  # number of RoCE packets that the translator sent
    wrong_icrcs: int  # number of packets with a wrong iCRC, before the collector corrects it
    nacks: int  # number of NACKs that arrived at the collector, although they are for reporters


class Collector(Responder):
    """Responder with a NIC that does not check the iCRC, as the prototype needs it.

    A second NIC, which has no memory, checks the iCRC of the packets as they were sent. With
    `corrects_lengths`, FETCH ADDs of the prototype get right lengths.
    """

    def __init__(
        self, address: str, writers: Sequence[Writer], faults: Faults, *, corrects_lengths: bool
    ) -> None:
        super().__init__(address, writers)
        self._own_address = address
        self._faults = faults
        self._corrects_lengths = corrects_lengths
        self._requests = self._nacks = 0

    def start(self, host: Host) -> None:
        """See Responder."""
        self._mac = bytes.fromhex(host.mac.replace(":", ""))
        self._checking = SoftNic(self._own_address, mac=host.mac, path_mtu=PATH_MTU)
        super().start(host)

    def on_frames(self, frames: Frames) -> None:
        """Execute the requests in the frames, of which some may be lost or repeated."""
        self._checking.receive(frames)
        records, kept, chosen = frames.taken[0], [], []
        for index, (_, frame) in enumerate(frames):
            port = int.from_bytes(frame[_ETHERNET + _IPV4 + 2 :][:2], "big")
            self._nacks += port == NACK_PORT
            copies = 1
            if port == ROCE_PORT:
                copies -= self._requests == self._faults.lost
                copies += self._requests == self._faults.repeated
                self._requests += 1
                frame = corrected(frame, self._mac, lengths=self._corrects_lengths)
            kept += copies * [frame]
            chosen += copies * [index]
        records = records[chosen]
        records["length"] = [len(frame) for frame in kept]
        if kept:
            super().on_frames(Frames((records, b"".join(kept))))

    def result(self) -> Any:
        """Return the result of this collector (Received)."""
        wrong = self._checking.counts().refused["ICRC"]
        return Received(super().result(), self._requests, wrong, self._nacks)


def corrected(frame: bytes, mac: bytes, *, lengths: bool) -> bytes:
    """Return a RoCE frame to a MAC address, with the right iCRC.

    The prototype sends all requests to one MAC address. With `lengths`, also remove the bytes of a
    FETCH ADD that do not belong to it, and set its length fields.
    """
    fixed = bytearray(mac + frame[len(mac) :])
    bth = _ETHERNET + _IPV4 + _UDP
    if lengths and fixed[bth] == Op.FETCH_ADD:
        del fixed[bth + _BTH + _ATOMIC :]
        fixed += bytes(_ICRC)
        for at, header in ((_ETHERNET + 2, _ETHERNET), (bth - 4, bth - _UDP)):
            fixed[at : at + 2] = (len(fixed) - header).to_bytes(2, "big")
        ip = IP(bytes(fixed[_ETHERNET : _ETHERNET + _IPV4]))
        del ip.chksum
        fixed[_ETHERNET : _ETHERNET + _IPV4] = bytes(ip)[:_IPV4]
    end = _ETHERNET + int.from_bytes(fixed[_ETHERNET + 2 : _ETHERNET + 4], "big")
    fixed[end - _ICRC : end] = icrc(bytes(fixed[_ETHERNET : end - _ICRC]))
    return bytes(fixed)


def make_frames(
    payloads: Sequence[bytes], port: int, *, source: str = "10.0.0.1", to: str = COLLECTOR_ADDR
) -> list[bytes]:
    """Return a frame with each UDP payload."""
    headers = {}
    for size in {len(payload) for payload in payloads}:
        ends = Ether(src="00:00:00:00:00:01", dst=COLLECTOR_MAC) / IP(src=source, dst=to)
        udp = UDP(sport=40041, dport=port, chksum=0)
        headers[size] = bytes(ends / udp / Raw(bytes(size)))[: _ETHERNET + _IPV4 + _UDP]
    return [headers[len(payload)] + payload for payload in payloads]


class Site(Topo):
    """h1, h3 - s1 - h2, h4: hosts that report, the translator, and collectors.

    With a reporter, it is a switch (s2) between the hosts and the translator, and reports about
    packets of the hosts. Link parameters apply to the links of collectors.
    """

    def build(self, collectors: int = 1, *, has_reporter: bool = False, **link: float) -> None:
        self.addSwitch("s1")
        if has_reporter:
            self.addLink(self.addSwitch("s2"), "s1")
        for number in (1, 3):
            host = self.addHost(f"h{number}", ip=f"10.0.0.{number}/8")
            self.addLink(host, "s2" if has_reporter else "s1")
        for name, address, mac in COLLECTORS[:collectors]:
            self.addLink(self.addHost(name, ip=f"{address}/8", mac=mac), "s1", **link)


COLLECTORS = (("h2", COLLECTOR_ADDR, COLLECTOR_MAC),
              ("h4", "10.0.0.52", "b8:ce:f6:d2:12:c8"))  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Network of one side, and its programs."""

    name: str
    side: str
    folder: str  # folder with the programs of the prototype
    memory: Memory = Memory()
    faults: Faults = Faults()
    collectors: int = 1
    is_tracked: bool = False  # whether reports have sequence numbers
    drops: int | None = None  # number of reports that the prototype drops after a NAK
    corrects_lengths: bool = False
    has_reporter: bool = False  # whether the published reporter makes the reports
    rate_bps: int = 0  # rate of the links to collectors; 0 means unlimited


@dataclass
class Running:
    """Running network. The results of collectors exist after it has stopped."""

    net: Network
    switch: fy.Switch
    case: Case
    run: Run
    applications: list[Any] = field(default_factory=list)

    async def send(self, frames: Sequence[bytes], rate_pps: float) -> None:
        """Send frames from h1 at a constant rate and wait until they are processed."""
        start_ns = self.run.clock.now_ns() + LEAD_NS
        times = (start_ns + np.arange(len(frames)) * (1e9 / rate_pps)).astype(np.int64).tolist()
        self.net.send_frames("h1", times, frames)
        await self.run.clock.sleep_until(times[-1] + SETTLE_NS)

    async def send_pairs(self, frames: Sequence[bytes], gap_s: float) -> None:
        """Send two frames at a time, the first one from h1 and the second one from h3."""
        start_ns = self.run.clock.now_ns() + LEAD_NS
        times = [start_ns + round(number * gap_s * 1e9) for number in range(len(frames) // 2)]
        for number, host in enumerate(("h1", "h3")):
            self.net.send_frames(host, times, frames[number::2])
        await self.run.clock.sleep_until(times[-1] + SETTLE_NS)

    def read(self, name: str) -> NDArray[Any]:
        """Return the records of a region of the first collector."""
        record, count = self.case.memory.records(self.case.side)[name]
        return np.fromfile(region_file(self.run, self.case, 0, name), record, count)

    @property
    def received(self) -> list[Received]:
        """Results of the collectors."""
        return [application.result for application in self.applications]

    def checks(self) -> list[Check]:
        """Check the packet accounting."""
        return PacketAccounting.from_network(self.net, {}).checks(self.net.name)


def region_file(run: Run, case: Case, collector: int, name: str) -> Path:
    return run.folder / f"{case.name}-{collector}-{name}"


@asynccontextmanager
async def translating(case: Case, run: Run) -> AsyncIterator[Running]:
    """Start the network of a case."""
    link = {"rate_bps": case.rate_bps} if case.rate_bps else {}
    topo = Site(case.collectors, has_reporter=case.has_reporter, **link)
    is_ours = case.side == OURS
    paths: dict[str, str | Path] = {"s1": PROGRAMS[case.is_tracked]}
    macros: dict[str, int] = {}
    if not is_ours:
        paths["s1"] = Path(case.folder) / prototype.TRANSLATOR
        if case.drops is not None:
            macros[prototype.DROPS_MACRO] = case.drops
        if case.is_tracked:
            macros[prototype.TRACKING_MACRO] = 1
        compile_fetched(paths["s1"], macros, run)
    if case.has_reporter:
        paths["s2"] = Path(case.folder) / prototype.REPORTER
        compile_fetched(paths["s2"], {}, run)
    options = cpu_ports(topo) if is_ours else {}
    with Network(
        topo, run, program=paths, defines={"s1": macros}, name=case.name, capture=False,
        expected_drops=EXPECTED, switch_options={"s1": options["s1"]} if is_ours else {},
    ) as net:  # fmt: skip
        responders, applications = [], []
        for number, (host, address, _) in enumerate(COLLECTORS[: case.collectors]):
            responder = Collector(address, _writers(case, number, run), case.faults,
                                  corrects_lengths=case.corrects_lengths)  # fmt: skip
            responders.append(responder)
            applications.append(net.run_application(host, responder))
        if case.has_reporter:
            net.run_application("h3", FrameRecorder())
        async with connections(net) as switches:
            running = Running(net, switches["s1"], case, run, applications)
            if is_ours:
                translators = {"s1": _ours(case, responders)}
                await translator.configure(net, {"s1": switches["s1"]}, translators)
            else:
                await _configure_prototype(running, responders)
            if case.has_reporter:
                users = {net.host(host).IP(): net.port("s2", host) for host in ("h1", "h3")}
                mirror_port = net.port("s2", "s1")
                await prototype.configure_reporter(
                    switches["s2"], users, COLLECTOR_ADDR, mirror_port
                )
            yield running


def _writers(case: Case, number: int, run: Run) -> list[Writer]:
    """Return the writers of a collector. Each region has its own queue pair."""
    address = OUR_PEER_ADDR if case.side == OURS else prototype.PEER_ADDR
    found: list[Writer] = []
    for name, (record, count) in case.memory.records(case.side).items():
        qpn = prototype.CARD_QPN + len(found)
        if case.side == OURS:
            qpn += 0x10 * number
        peer = Peer(address, qpn, FIRST_PSN)
        found.append(Writer(peer, record, count, region_file(run, case, number, name)))
    return found


async def _configure_prototype(running: Running, responders: Sequence[Collector]) -> None:
    net, sites = running.net, []
    for (host, address, _), responder in zip(COLLECTORS, responders, strict=False):
        cards, keys, *lists = responder.targets
        sites.append(prototype.Collector(address, net.port("s1", host), cards, keys, lists))
    hosts = () if running.case.has_reporter else ("h1", "h3")
    ports = {net.host(host).IP(): net.port("s1", host) for host in hosts}
    await prototype.configure_translator(running.switch, sites, ports)


def _ours(case: Case, responders: Sequence[Collector]) -> Translator:
    sessions: list[WriteSession | CounterSession] = []
    services = []
    memory = case.memory
    for number, responder in enumerate(responders):
        host, address, _ = COLLECTORS[number]
        first = 3 * number + 1
        cards, keys, lists = (range(first + n, first + n + 1) for n in range(3))
        counters = CounterSession if memory.counters else WriteSession
        kinds = (WriteSession, counters, WriteSession)
        for session, (kind, target) in enumerate(zip(kinds, responder.targets, strict=True), first):
            peer = Peer(OUR_PEER_ADDR, prototype.CARD_QPN + session - first + 0x10 * number,
                        FIRST_PSN)  # fmt: skip
            sessions.append(kind(session, host, peer, target))
        of_keys: Store = KeyWriteStore(1, memory.slots, sessions=keys)
        if memory.counters:
            of_keys = CounterStore(memory.slots, memory.counters, keys)
        stores: list[Store] = [of_keys]
        if number == 0:  # the registers of paths and lists are shared by all collectors
            stores += [PostcardStore(memory.cards, sessions=cards),
                       ListStore(BATCH, memory.ring, memory.lists, lists[0])]  # fmt: skip
        services.append(Service(address, stores))
    reporters = [TrackedReporter(f"10.0.0.{n}") for n in (1, 3)] if case.is_tracked else []
    return Translator(sessions, services, reporters)
