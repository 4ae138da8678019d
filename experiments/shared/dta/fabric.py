"""Reports of paths over a fat tree into memory: INT in all switches, DTA reports at the edge.

The translator (s21) and the collector are behind the first core switch. Ground truth comes from
captures of arrivals at each switch, ordered by TTL.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from zlib import crc32

import finsy as fy
import numpy as np
from numpy.typing import NDArray
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from collectors.dta.hashes import HOPS, Words, rows
from collectors.dta.int_paths import WORDS
from collectors.dta.key_write import slot
from collectors.dta.packets import PORT as DTA_PORT
from collectors.dta.packets import Op
from collectors.dta.postcarding import CHUNK
from collectors.roce.application import Responder, Writer
from collectors.roce.endpoint import Peer
from controllers.connection import connections, cpu_ports
from controllers.dta import sink, translator
from controllers.dta.batching import ROWS, PostcardStore
from controllers.dta.metrics import publishing
from controllers.dta.sink import INSTRUCTIONS, Sink
from controllers.dta.stores import KeyWriteStore, Store
from controllers.dta.translator import Service, Translator, WriteSession
from controllers.dta.watch import Paths, Postcards, ReportKind, WatchedFlow
from controllers.int.domain import Domain, node_id
from controllers.int.watch import WatchedFlow as EmbeddedFlow
from controllers.roce.running import state
from experiments.shared.dta.reports import numbers_in
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.apps.application import Application, Host
from telemark.errors import TestbedError, note_invalid
from telemark.network import Network
from telemark.results.report import Check
from telemark.session.clock import RealClock
from telemark.session.run import Run
from topologies.leaf_spine import LeafSpine

SINK_PROGRAM, TRANSLATOR_PROGRAM = "p4src/dta/int_sink.p4", "p4src/dta/translator.p4"
TRANSLATOR, COLLECTOR, COLLECTOR_ADDR, USERS = "s21", "collector", "10.200.0.1", "10.0.0.0/8"
USER_PORT, UDP_PROTOCOL, FIRST_TTL = 5000, 17, 64
PATHS, CARDS = "paths", "cards"  # files of the stores for Key-Write and for postcards
# expected drop reasons: reports and responses end in the translator
EXPECTED = ("ingress", "miss", "egress")
PEERS = [Peer("10.255.9.1", qpn=0x11 + number, psn=0xFFFF00) for number in range(2)]
PSNS = 1 << 24
LEAD_NS, SETTLE_NS, GAP_NS = 200_000_000, 300_000_000, 20_000
SINK_CELLS = 4096  # DTA_FLOW_CELLS of p4src/dta/reporter_flows.p4
WINDOW = 32  # number of flows that are sent to bmv2 at a time
TTL, SRC_PORT, DST_PORT, OPCODE, HOP, KEY = 22, 34, 36, 43, 51, 54  # offsets of fields in a frame
FIRST_PORT = 1024  # first source port of user flows
MAX_FLOWS = (1 << 16) - FIRST_PORT


class Traced(LeafSpine):
    """Fat tree of four-port switches, with one to all four of its pods.

    The first core switch has a link to the translator, which has a link to the collector.
    """

    def __init__(self, pods: int) -> None:
        super().__init__(leaves=2, spines=2, hosts=2, pods=pods, cores=2)
        self.routers = self.switches()
        self.addLink(self.switch("core", 0, 0), self.addSwitch(TRANSLATOR))
        self.addLink(TRANSLATOR, self.addHost(COLLECTOR, ip=f"{COLLECTOR_ADDR}/8"))

    @property
    def edges(self) -> list[str]:
        """Return the switches that have hosts."""
        return [name for name in self.routers if self.places[name].tier == "leaf"]

    @property
    def users(self) -> list[str]:
        """Return the hosts except the collector."""
        return [name for name in self.hosts() if name != COLLECTOR]


class Receiver(Application):
    """Sink for packets of flows."""

    def start(self, host: Host) -> None:
        """Start to listen."""
        host.udp(USER_PORT, hold_us=10_000)


@dataclass(frozen=True)
class Tracing:
    """Running network that reports paths."""

    net: Network
    topo: Traced
    switches: Mapping[str, fy.Switch]
    sessions: Sequence[WriteSession]
    _run: Run

    async def send(self, keys: Words, rate_pps: float, packets: int) -> None:
        """Start flows one after another, and wait until their paths are in memory.

        Keys: shape (n, 4).

        In real time, packets of different flows may change order while they wait. So the flows of a
        window are sent after the packets of the previous window have arrived.
        """
        if isinstance(self._run.clock, RealClock):
            most = WINDOW if self._run.target == "bmv2" else len(keys)
            for window in windows(keys, most):
                await self._send(keys[window], rate_pps, packets)
                await self._wait_until_idle()
        else:
            await self._send(keys, rate_pps, packets)

    async def reports(self) -> int:
        """Return the number of reports that the program of the translator has received."""
        counts = await translator.events(self.switches[TRANSLATOR])
        return sum(counts[outcome] for outcome in translator.OUTCOMES)

    async def _wait_until_idle(self) -> None:
        """Wait until the translator has received and written no packet for SETTLE_NS."""
        last = None
        while (counted := (await self.reports(), await self.writes())) != last:
            last = counted
            await self._run.clock.sleep_until(self._run.clock.now_ns() + SETTLE_NS)

    async def _send(self, keys: Words, rate_pps: float, packets: int) -> None:
        start_ns = self._run.clock.now_ns() + LEAD_NS
        begin_ns = (start_ns + np.arange(len(keys)) * (1e9 / rate_pps)).astype(np.int64)
        by_address = {address_to_int(self.net.host(name).IP()): name for name in self.topo.users}
        for address, name in by_address.items():
            own = np.flatnonzero(keys[:, 0] == address)
            frames = [self._frame(keys[flow], by_address) for flow in own]
            times = begin_ns[own, np.newaxis] + np.arange(packets) * GAP_NS
            if len(own):
                repeated = [frame for frame in frames for _ in range(packets)]
                self.net.send_frames(name, times.reshape(-1).tolist(), repeated)
        await self._run.clock.sleep_until(int(begin_ns[-1]) + SETTLE_NS)

    def _frame(self, key: Words, by_address: dict[int, str]) -> bytes:
        sender, receiver = (self.net.host(by_address[int(address)]) for address in key[:2])
        packet = Ether(src=sender.MAC(), dst=receiver.MAC())
        packet = packet / IP(src=sender.IP(), dst=receiver.IP(), ttl=FIRST_TTL)
        return bytes(packet / UDP(sport=int(key[2]) >> 16, dport=USER_PORT) / Raw(bytes(18)))

    async def writes(self) -> list[int]:
        """Return the number of requests that each session has sent."""
        sent = [await state(self.switches[TRANSLATOR], session) for session in self.sessions]
        return [
            (each.psn - session.peer.psn) % PSNS
            for each, session in zip(sent, self.sessions, strict=True)
        ]


def windows(keys: Words, most: int) -> list[slice]:
    """Split flows (n, 4) into windows of at most `most` consecutive flows that share no registers.

    A sink stores the path of a flow in a cell (TrackPath in p4src/dta/int_paths.p4). If the packets
    of two flows in one cell alternate, the sink reports both paths again. A translator collects the
    postcards of a flow in a row (p4src/dta/postcarding.p4). If the postcards of two flows in one
    row alternate, it writes incomplete paths.
    """
    cells = [crc32(key.astype(">u4").tobytes()) % SINK_CELLS for key in keys]
    shared = [*zip(cells, rows(keys, ROWS).tolist(), strict=True)]
    first, found = 0, []
    for flow in range(1, len(keys) + 1):
        if (
            flow == len(keys)
            or flow - first == most
            or any(shared[flow][i] == other[i] for other in shared[first:flow] for i in (0, 1))
        ):
            found.append(slice(first, flow))
            first = flow
    return found


@asynccontextmanager
async def tracing(
    run: Run, name: str, *, pods: int, copies: int, slots: int, program: str = SINK_PROGRAM
) -> AsyncIterator[Tracing]:
    """Start a network with the responder as application and with `slots` slots per data structure.

    Paths are reported by Key-Write and by postcards, into the files PATHS and CARDS in the folder
    of the run. `program` is the program of the edge switches.
    """
    topo = Traced(pods)
    writers = [
        Writer(peer, record, slots, run.folder / file)
        for peer, record, file in zip(PEERS, (slot(WORDS), CHUNK), (PATHS, CARDS), strict=True)
    ]
    responder = Responder(COLLECTOR_ADDR, writers)
    sessions = [
        WriteSession(number, COLLECTOR, peer, target)
        for number, (peer, target) in enumerate(zip(PEERS, responder.targets, strict=True), 1)
    ]
    stores: list[Store] = [KeyWriteStore(WORDS, slots), PostcardStore(slots, sessions=range(2, 3))]
    place = Translator(sessions, [Service(COLLECTOR_ADDR, stores)])
    domain = Domain(
        COLLECTOR, [EmbeddedFlow(USERS, USERS, UDP_PROTOCOL, instructions=INSTRUCTIONS)],
        routes={switch: topo.routes(switch) for switch in topo.routers},
    )  # fmt: skip
    of_users = WatchedFlow(USERS, USERS, UDP_PROTOCOL, wanted=ReportKind.DATA | ReportKind.POSTCARD)
    sinks = {
        edge: Sink(f"10.255.0.{number}", [COLLECTOR], [of_users], number, data=Paths(copies),
                   postcards=Postcards(copies))
        for number, edge in enumerate(topo.edges, 1)
    }  # fmt: skip
    programs = dict.fromkeys(topo.routers, "p4src/int/int.p4") | dict.fromkeys(topo.edges, program)
    programs[TRANSLATOR] = TRANSLATOR_PROGRAM
    with Network(
        topo, run, program=programs, name=name, expected_drops=EXPECTED,
        switch_options=cpu_ports(topo),
    ) as net:  # fmt: skip
        net.run_application(COLLECTOR, responder)
        for user in topo.users:
            net.run_application(user, Receiver())
        async with connections(net) as switches:
            await translator.configure(net, switches, {TRANSLATOR: place})
            routers = {router: switches[router] for router in topo.routers}
            await sink.configure(net, routers, domain, sinks)
            async with publishing(run.metrics, switches, {TRANSLATOR: place}, sinks):
                yield Tracing(net, topo, switches, sessions, run)


def users(pods: int) -> list[str]:
    """Return the addresses of the hosts of `pods` pods."""
    topo = Traced(pods)
    return [str(topo.nodeInfo(name)["ip"]).partition("/")[0] for name in topo.users]


def flows(addresses: Sequence[str], count: int, rng: np.random.Generator) -> Words:
    """Return keys of different flows between random pairs of addresses: (count, 4).

    If `count` is at most MAX_FLOWS, their source ports differ, too.
    """
    numbers = np.array([address_to_int(address) for address in addresses], np.uint32)
    keys = np.zeros((count, 4), np.uint32)
    keys[:, :2] = numbers[np.argsort(rng.random((count, len(numbers))), axis=1)[:, :2]]
    rounds, ports = np.divmod(rng.permutation(count), MAX_FLOWS)
    keys[:, 2] = (FIRST_PORT + ports) << 16 | (USER_PORT + rounds)
    keys[:, 3] = UDP_PROTOCOL << 24
    return keys


def true_paths(tracing: Tracing, keys: Words) -> NDArray[np.int64]:
    """Return the switches on the path of each flow, in order, from captures: (n, 5).

    Values are INT node ids, and -1 after the end of a path. Raises TestbedError if a flow took two
    paths.
    """
    net, flow_of = tracing.net, _by_port(keys)
    found = np.full((len(keys), HOPS), -1)
    for router in tracing.topo.routers:
        node = node_id(net, router)
        for neighbour in net.neighbours(router):
            frames = pcap.read(net.capture(router, neighbour, "in")).bytes
            frames = frames[numbers_in(frames, DST_PORT, 2) == USER_PORT]
            flow = flow_of[numbers_in(frames, SRC_PORT, 2)]
            hop = FIRST_TTL - frames[:, TTL].astype(np.int64)
            if not np.isin(found[flow, hop], (-1, node)).all():
                raise TestbedError(f"{router}: a flow took two paths")
            found[flow, hop] = node
    return found


@dataclass(frozen=True)
class ArrivedReports:
    """The flow of each report that arrived at the translator.

    The flows are in the order in which a capture contains the reports.
    """

    by_key_write: NDArray[np.int64]
    # in the order in which the postcards of hop 0 arrived. The postcard of hop 0 is the last of a
    # path
    by_postcards: NDArray[np.int64]
    postcards: int


def arrived_reports(tracing: Tracing, keys: Words) -> ArrivedReports:
    """Return the reports that sinks sent about flows (n, 4)."""
    core = tracing.topo.switch("core", 0, 0)
    frames = pcap.read(tracing.net.capture(core, TRANSLATOR, "out")).bytes
    frames = frames[numbers_in(frames, DST_PORT, 2) == DTA_PORT]
    flow = _by_port(keys)[numbers_in(frames, KEY + 8, 2)]
    is_card = frames[:, OPCODE] == Op.POSTCARDING
    is_last = is_card & (frames[:, HOP] == 0)
    return ArrivedReports(
        flow[frames[:, OPCODE] == Op.KEY_WRITE], flow[is_last], int(is_card.sum())
    )


def reject_bmv2_drops(tracing: Tracing, reports: int) -> None:
    """Make the run inconclusive if a bmv2 dropped packets of users or reports.

    `reports` is the number of reports that the program of the translator received.
    """
    net, dropped = tracing.net, {}
    for router in tracing.topo.routers:
        came, left = (
            np.concatenate([
                numbers_in(pcap.read(net.capture(router, each, what, inner=True)).bytes,
                           DST_PORT, 2)
                for each in net.neighbours(router)
            ])
            for what in ("out", "in")
        )  # fmt: skip
        ports = (USER_PORT,) if router in tracing.topo.edges else (USER_PORT, DTA_PORT)
        dropped[router] = int(np.isin(came, ports).sum() - np.isin(left, ports).sum())
    core = tracing.topo.switch("core", 0, 0)
    came = numbers_in(
        pcap.read(net.capture(TRANSLATOR, core, "out", inner=True)).bytes, DST_PORT, 2
    )
    dropped[TRANSLATOR] = int(np.count_nonzero(came == DTA_PORT)) - reports
    for switch, count in dropped.items():
        if count > 0:
            note_invalid(f"{net.name}: {switch}: bmv2 dropped {count} frames")


def checks(tracing: Tracing, writes: int) -> list[Check]:
    """Check executed and rejected requests of the collector, and the packet accounting."""
    net, name = tracing.net, tracing.net.name
    counts = net.applications[0].result.counts
    refused = counts.refused.total() - counts.refused["DUPLICATE"]
    return [
        Check(f"{name}: executed requests", counts.accepted.total(), writes),
        Check(f"{name}: rejected requests", refused, 0),
        *PacketAccounting.from_network(net, {}).checks(name),
    ]


def address_to_int(address: str) -> int:
    """Return an IPv4 address as an integer."""
    return int(IPv4Address(address))


def _by_port(keys: Words) -> NDArray[np.int64]:
    """Return the flow that uses each source port."""
    found = np.full(1 << 16, -1)
    found[keys[:, 2] >> 16] = np.arange(len(keys))
    return found
