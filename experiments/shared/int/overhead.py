"""Goodput over a path with a narrow link, with and without INT."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from collectors.int.application import Collector, Findings
from controllers.connection import connections
from controllers.int.domain import Changes, Domain, configure
from controllers.int.watch import Instruction, WatchedFlow
from experiments.shared.int.end_to_end import Interval, handed_over
from experiments.shared.int.reports import OURS
from experiments.shared.int.truth import read
from telemark.accounting import pcap
from telemark.accounting.checksums import count_wrong_checksums, tcp_segments
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import AnyFlow, Flow, FlowRecord, Traffic
from telemark.traffic.tcp import TcpFlow, TcpRecord
from topologies.basic import ParkingLot

RATE_BPS, WIDER_BPS, DELAY_US = 10_000_000, 20_000_000, 100
TCP_QUEUE = 64  # queue of the narrow link for TCP, in packets
SURPLUS = 1.25  # sending rate, normalized to the rate of the narrow link, so that a queue forms
SIZES = (128, 1514)
UDP_HEADERS, TCP_HEADERS = 42, 66  # bytes of headers in a frame; TCP has a timestamp option
TCP, UDP = 6, 17
INT_BYTES = 16  # shim and INT header, once per packet
_FOUR = Instruction.NODE_ID | Instruction.LEVEL_1 | Instruction.LATENCY | Instruction.QUEUE
_SIX = _FOUR | Instruction.INGRESS_TIME | Instruction.EGRESS_TIME
_NINE = _SIX | Instruction.LEVEL_2 | Instruction.UTILISATION | Instruction.BUFFER
# Instructions by the number of bytes that a switch pushes. Times and level 2 interfaces have 8
# bytes, other fields have 4 (INT 2.1, 5.7). 0 means no INT.
METADATA = {
    0: Instruction(0), 4: Instruction.NODE_ID, 16: _FOUR, 32: _SIX, 48: _NINE,
}  # fmt: skip
TCP_METADATA = (0, 32)
TCP_TOLERANCE = {
    "real": 0.02,  # slow start, retransmissions and load on the machine reduce goodput
    "virtual": 1e-9,  # only floating-point rounding
}
TCP_TRIES = 3
CaseFlow_co = TypeVar("CaseFlow_co", bound=AnyFlow, covariant=True)


@dataclass(frozen=True)
class Case(Generic[CaseFlow_co]):
    """Flow through `hops` switches that push metadata and one switch that removes INT."""

    hops: int
    metadata: int  # bytes that a switch pushes; 0 means no INT
    flow: CaseFlow_co

    @property
    def size(self) -> int:
        """Length (bytes) of a frame as sent by hosts; for TCP, of a full segment."""
        return self.flow.size if isinstance(self.flow, Flow) else max(SIZES)

    def frame_bytes(self, hop: int) -> int:
        """Return the length (bytes) of a frame after the `hop`-th switch, by the INT-MD format."""
        if not self.metadata or hop > self.hops:
            return self.size
        return self.size + INT_BYTES + hop * self.metadata

    @property
    def path(self) -> list[str]:
        """Switches of the path."""
        return [f"s{number}" for number in range(1, self.hops + 2)]

    @property
    def nodes_reported(self) -> list[int]:
        """Switches in reports. If the metadata are only the node id, the last switch is missing."""
        last_is_reported = METADATA[self.metadata] != Instruction.NODE_ID
        return [*range(1, self.hops + 1 + last_is_reported)]

    @property
    def wire_ns(self) -> int:
        """Transmission time of a frame on the narrow link, the last one with INT."""
        return self.frame_bytes(self.hops) * 8 * 10**9 // RATE_BPS

    @property
    def goodput_bps(self) -> float:
        """Predicted UDP or TCP goodput of the saturated narrow link."""
        headers = UDP_HEADERS if isinstance(self.flow, Flow) else TCP_HEADERS
        return (self.size - headers) * 8e9 / self.wire_ns

    def watched(self, net: Network) -> WatchedFlow:
        """Return the entry of the watch list."""
        return WatchedFlow(
            net.host(self.flow.source).IP(), net.host(self.flow.destination).IP(),
            protocol=UDP if isinstance(self.flow, Flow) else TCP, dst_port=self.flow.port,
            instructions=METADATA[self.metadata],
        )  # fmt: skip


@dataclass(frozen=True)
class Sent:
    """Goodput of a UDP flow that filled the narrow link, and errors compared with theory."""

    case: Case[Flow]
    received: int
    # by the clock of the receiver, without idle time of the link; all values that depend on times
    # are NaN if packets were lost
    goodput_bps: float
    packets_per_s: float
    # time for which the link was idle because the switch had not yet received a packet
    idle_ns: float
    wrong_lengths: int  # frames with a length that differs from theory, on all links of the path
    link_error_ns: float  # max error of departure times compared with the rate of the narrow link
    # error of the transfer time at the receiver, beyond the bounds of known delays
    host_error_ns: float
    early: float  # number of packets received before the end of their transmission
    latest_ns: float  # max delay from the end of transmission to reception


@dataclass(frozen=True)
class Transferred:
    """Result of a TCP bulk transfer; in real time the host kernels provide TCP."""

    case: Case[TcpFlow]
    goodput_bps: float  # from the first to the last arrival of data at the receiver
    retransmitted: int  # number of retransmitted segments


@dataclass(frozen=True)
class Outcome:
    """Results of all cases."""

    sent: list[Sent]
    transferred: list[Transferred]
    checksum_errors: int  # segments received with a wrong checksum
    findings: Findings
    accounting: PacketAccounting

    @property
    def watched(self) -> list[Case[AnyFlow]]:
        """Cases with INT."""
        cases: list[Case[AnyFlow]] = [
            *(sent.case for sent in self.sent),
            *(tcp.case for tcp in self.transferred),
        ]
        return [case for case in cases if case.metadata]


def longest_bytes(hops: int) -> int:
    """Return the length of the longest frame between switches."""
    return max(SIZES) + INT_BYTES + hops * max(METADATA)


async def measure(options: argparse.Namespace, run: Run) -> Outcome:
    """Send all cases sequentially."""
    real = options.time == "real"
    cases, transfers = udp_cases(options), tcp_cases(options)
    queue = max(case.flow.count for case in cases)  # long enough that no packet is lost
    switches = max(options.hops) + 1
    topo = ParkingLot(switches, rate_bps=WIDER_BPS, delay_us=DELAY_US, queue_packets=queue)
    records: dict[int, FlowRecord] = {}
    transferred: dict[int, TcpRecord] = {}
    with Network(topo, run, program=options.program, stamp_log=real) as net:
        collector = net.run_application("collector", Collector(OURS))
        every: list[Case[AnyFlow]] = [*cases, *transfers]
        watched = [case.watched(net) for case in every if case.metadata]
        mtu_bytes = longest_bytes(max(options.hops))
        async with connections(net) as connected:
            await configure(
                net, connected, Domain("collector", watched, mtu_bytes=mtu_bytes, changes=Changes())
            )
        for hops in options.hops:
            some = [case for case in cases if case.hops == hops]
            some_tcp = [case for case in transfers if case.hops == hops]
            tolerance = TCP_TOLERANCE[options.time]
            found, found_tcp = await _send(net, some, some_tcp, queue, tolerance)
            records |= found
            transferred |= found_tcp
        errors = sum(_thrown_away(net.host(name)) for name in topo.hosts()) if real else 0
    if not real:
        errors = sum(_wrong_checksums(net, case) for case in transfers if case.metadata)
    return Outcome(
        sent=_all_sent(net, cases, records, stamped=real),
        transferred=[_transferred(case, transferred[case.flow.id]) for case in transfers],
        checksum_errors=errors,
        findings=collector.result,
        accounting=PacketAccounting.from_network(net, {**records, **transferred}),
    )


def udp_cases(options: argparse.Namespace) -> list[Case[Flow]]:
    """Return the UDP flows; they run sequentially and each fills the narrow link."""
    cases: list[Case[Flow]] = []
    for hops in options.hops:
        after_s = 0.0
        for size in SIZES:
            for metadata in options.metadata:
                bare = Case(hops, metadata, Flow(0, "h1", "h2", 1, 1, size))
                count = max(round(options.seconds * 1e9 / bare.wire_ns), 8)
                flow = Flow(
                    len(cases) + 1, "h1", f"x{hops + 1}", SURPLUS * 1e9 / bare.wire_ns, count, size,
                    after_s=after_s,
                )  # fmt: skip
                cases.append(Case(hops, metadata, flow))
                after_s += 1.1 * options.seconds + 0.05
    return cases


def tcp_cases(options: argparse.Namespace) -> list[Case[TcpFlow]]:
    """Return the TCP bulk transfers, which consist of full segments only."""
    segment = max(SIZES) - TCP_HEADERS
    size_bytes = max(round(options.tcp_seconds * RATE_BPS / 8 / segment), 2) * segment
    pairs = [(hops, metadata) for hops in options.hops for metadata in TCP_METADATA]
    return [
        Case(hops, metadata, TcpFlow(1000 + number, "h1", f"x{hops + 1}", size_bytes))
        for number, (hops, metadata) in enumerate(pairs)
    ]


async def _send(
    net: Network, cases: Sequence[Case[Flow]], transfers: Sequence[Case[TcpFlow]], queue: int,
    tolerance: float,
) -> tuple[dict[int, FlowRecord], dict[int, TcpRecord]]:  # fmt: skip
    """Send all flows with the same path and return their records by flow id.

    During these flows, the last link with INT is the narrow link. The queue of this link has room
    for `queue` packets.
    """
    *_, narrow, last = cases[0].path
    switch, port = net.switch(narrow), net.port(narrow, last)
    switch.set_link(port, rate_bps=RATE_BPS)
    async with Traffic(net, [case.flow for case in cases]) as traffic:
        records = await traffic.finish()
    # TCP would fill a longer queue, which increases its delay
    switch.set_queue(port, depth=TCP_QUEUE)
    transferred = {t.flow.id: await _best_transfer(net, t, tolerance) for t in transfers}
    switch.set_queue(port, depth=queue)
    switch.set_link(port, rate_bps=WIDER_BPS)
    return records, transferred


async def _best_transfer(net: Network, case: Case[TcpFlow], tolerance: float) -> TcpRecord:
    """Return the fastest transfer; retry if other load made it slower than theory."""
    tries: list[TcpRecord] = []
    while len(tries) < TCP_TRIES:
        async with Traffic(net, [case.flow]) as traffic:
            tries += [*(await traffic.finish()).values()]
        if _transferred(case, tries[-1]).goodput_bps >= (1 - tolerance) * case.goodput_bps:
            break
    return max(tries, key=lambda record: _transferred(case, record).goodput_bps)


def _all_sent(
    net: Network, cases: Sequence[Case[Flow]], records: Mapping[int, FlowRecord], *, stamped: bool
) -> list[Sent]:
    """Return the results of UDP flows, from captures and hosts."""
    link = cache(lambda switch, after: read(net.capture(switch, after, "out")))
    took_in = cache(
        lambda switch, before: read(net.capture(switch, before, "taken" if stamped else "in"))
    )
    found = []
    for case in cases:
        nodes = [case.flow.source, *case.path, case.flow.destination]
        lengths = [_ours(link(*ends), case)["length"] for ends in pairwise(nodes[1:])]
        wrong = sum(int(np.count_nonzero(each != case.frame_bytes(hop)))
                    for hop, each in enumerate(lengths, start=1))  # fmt: skip
        before, narrow, last = nodes[-4:-1]
        taken_ns = _ours(took_in(narrow, before), case)["time_ns"]
        left_ns = _ours(link(narrow, last), case)["time_ns"]
        free_ns = left_ns + case.wire_ns + DELAY_US * 1000
        handed_ns = handed_over(net, case.flow, last) if stamped else (free_ns, free_ns)
        found.append(sent_by(case, records[case.flow.id], (taken_ns, left_ns), handed_ns, wrong))
    return found


def _ours(frames: NDArray[np.void], case: Case[Flow]) -> NDArray[np.void]:
    return frames[frames["port"] == case.flow.port]


def sent_by(
    case: Case[Flow], record: FlowRecord, passed_ns: Interval, handed_ns: Interval, wrong: int
) -> Sent:
    """Return the result of a UDP flow.

    `passed_ns` are the times at which the switch in front of the narrow link received each packet
    and sent it to the link. `handed_ns` are the bounds of the times at which packets were delivered
    to the host. The link sends a packet as soon as the packet is available and the previous packet
    has been sent.
    """
    taken_ns, left_ns = passed_ns
    received_ns = record.received["received_ns"].astype(np.int64)
    # some packets were lost; another check counts them as errors
    if not len(received_ns) == len(left_ns) == case.flow.count:
        unknown = np.nan
        return Sent(
            case, len(received_ns), goodput_bps=unknown, packets_per_s=unknown, idle_ns=unknown,
            wrong_lengths=wrong, link_error_ns=unknown, host_error_ns=unknown, early=unknown,
            latest_ns=unknown,
        )  # fmt: skip
    gone_ns = left_ns[:-1] + case.wire_ns
    waited_ns = np.maximum(taken_ns[1:] - gone_ns, 0)
    free_ns = left_ns + case.wire_ns + DELAY_US * 1000
    min_late, max_late = (handed - free_ns for handed in handed_ns)
    packets, idle_ns = len(received_ns) - 1, int(waited_ns.sum())
    by_theory_ns = packets * case.wire_ns + idle_ns
    took_ns = int(received_ns[-1] - received_ns[0])
    low, high = min_late[-1] - max_late[0], max_late[-1] - min_late[0]
    return Sent(
        case=case,
        received=len(received_ns),
        goodput_bps=8e9 * packets * (case.size - UDP_HEADERS) / (took_ns - idle_ns),
        packets_per_s=1e9 * packets / (took_ns - idle_ns),
        idle_ns=idle_ns,
        wrong_lengths=wrong,
        link_error_ns=int(abs(left_ns[1:] - gone_ns - waited_ns).max()),
        host_error_ns=int(max(by_theory_ns + low - took_ns, took_ns - by_theory_ns - high, 0)),
        early=int(np.count_nonzero(received_ns < free_ns)),
        latest_ns=int((received_ns - free_ns).max()),
    )


def _transferred(case: Case[TcpFlow], record: TcpRecord) -> Transferred:
    times_ns, totals = (record.received[name].astype(np.int64) for name in ("time_ns", "bytes"))
    goodput_bps = 8e9 * (totals[-1] - totals[0]) / (times_ns[-1] - times_ns[0])
    return Transferred(case, goodput_bps, record.retransmitted_segments)


def _wrong_checksums(net: Network, case: Case[TcpFlow]) -> int:
    """Count segments with a wrong checksum on the last link, after INT was removed."""
    arrived = net.capture(case.path[-1], case.flow.destination, "out")
    return count_wrong_checksums(tcp_segments(pcap.read(arrived, width=case.size)))


def _thrown_away(host: Any) -> int:
    """Count TCP segments with checksum errors at a host, from /proc/net/snmp."""
    names, values = (line.split() for line in host.cmd("grep ^Tcp: /proc/net/snmp").splitlines())
    return int(values[names.index("InCsumErrors")])
