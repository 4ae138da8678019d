"""RDMA collection: does the file of the collector have each record once and in order?

TCP segments cross a switch. scapy makes them with random addresses, ports, sequence numbers,
options and payload. The collector maps a file into its memory and registers this memory for RDMA.
The switch writes a record of each segment into it. Cases: RoCEv1 and RoCEv2, a reliable and an
unreliable connection, records with hop metadata (ports, times and queue), and a ring smaller than
the number of records. The collector's responder checks iCRC, sequence number, key and bounds of
each packet. In real time, rdma_rxe of Linux also receives records, if it has a virtual machine
(./setup.sh --rdma). The file must agree with the segments byte by byte. Times are compared with
captures. The switch must forward the segments unchanged. On bmv2, a capacity probe determines the
rate of segments, and times and queues must only be possible given the captures on both sides of the
switch.

Claim: The file of the collector contains each record once, in order and byte by byte, with RoCEv1
and RoCEv2.

Published: "Collecting telemetry data using P4 and RDMA" (Beltman and Knossen, INDIS 2020),
abstract: a switch writes about 20 million packets/s into the memory of a server without loss, on a
lossless network.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.table import Table
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether

from collectors.roce.endpoint import Transport, gid
from controllers.readout import CLOCK_BITS, RESOLUTION_US
from controllers.roce.running import events
from controllers.roce.session import Content
from experiments.shared.int.on_bmv2 import find_clocks
from experiments.shared.roce import rxe
from experiments.shared.roce.reporting import (
    DELAY_US,
    PROGRAM,
    RECORDS,
    SWITCH,
    Collection,
    Running,
    Taken,
    find_capacity,
    reject_bmv2_drops,
    reporting,
    settle,
)
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.errors import InvalidRunError, TestbedError
from telemark.network import Network
from telemark.results import plots, statistics
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep

RATE_BPS = 10_000_000  # rate of the link to the collector, low enough that records are queued
GAP_US = 150  # mean interval of segments in a Poisson process; longer on bmv2
EMULATED_GAP_US = 2000  # mean interval for rdma_rxe in an emulated virtual machine
# fields for which captures around bmv2 give only bounds
TIMES = ("latency_us", "waiting", "ingress_us", "egress_us")
SETTLE_NS = 100_000_000  # time until all packets in flight have arrived
HOST_MACS = ("00:00:00:00:00:01", "00:00:00:00:00:03")  # MAC addresses of h1 and h3
PAYLOADS = (0, 1, 7, 100, 536, 1400)
PARTS = ("Ethernet", "GRH, or IP and UDP", "BTH and RETH", "record", "iCRC")
ETHERNET, BTH_RETH, ICRC = 14, 12 + 16, 4  # lengths in bytes
MAX_PACKETS = 100_000  # max packets per case, because scapy makes all packets in memory


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--packets", type=cli.positive_int, metavar="N", help="packets per case (default: 2000)"
    )
    cli.add_program_option(parser, PROGRAM)
    cli.add_metrics_option(parser)


@dataclass(frozen=True)
class Case:
    """Configuration of the switch that writes. `laps` is how often it fills the ring."""

    version: int
    transport: Transport = Transport.RC
    content: Content = Content.FLOWS
    laps: float = 1.0
    is_rxe: bool = False  # rdma_rxe receives the records instead of the Telemark responder

    def gap_us(self, options: argparse.Namespace) -> float:
        """Return the mean interval of segments."""
        return max(EMULATED_GAP_US if self.is_rxe else 0, options.gap_us)

    def collection(self, packets: int) -> Collection:
        """Return a collection with its own file.

        The switch sends no probes, because no link loses packets.
        """
        session = ("version", self.version), ("patience", 0)
        return Collection(
            max(int(packets / self.laps), 1), self.content, self.transport, session,
            file="records",
        )  # fmt: skip


CASES = {
    "v1": Case(1),
    "v2": Case(2),
    "v2, UC": Case(2, Transport.UC),
    "v1, with hop": Case(1, content=Content.FLOWS_AND_HOPS),
    "v2, with hop": Case(2, content=Content.FLOWS_AND_HOPS),
    "v2, small ring": Case(2, laps=3.3),
    "v2, rxe": Case(2, is_rxe=True),
}
QUICK = ("v1", "v2, with hop", "v2, small ring")


@dataclass(frozen=True)
class Inside:
    """Times at which segments entered and left bmv2, and the clock offset of bmv2."""

    into_ns: NDArray[np.int64]
    out_ns: NDArray[np.int64]
    offset_us: int  # offset of the clock of bmv2
    error_us: float

    def misses(self, hops: NDArray[np.void]) -> int:
        """Count hops with a time or queue length that contradicts the captures around bmv2."""
        start_us, end_us = (
            (time_ns // 1000 - self.offset_us) % (1 << CLOCK_BITS)
            for time_ns in (self.into_ns, self.out_ns)
        )
        came_us, left_us = hops["ingress_us"].astype(np.int64), hops["egress_us"].astype(np.int64)
        ahead = np.arange(len(hops)) - np.searchsorted(self.out_ns, self.into_ns, "right")
        waiting = hops["waiting"].astype(np.int64) @ (1 << 16, 1 << 8, 1)
        is_right = (start_us - self.error_us <= came_us) & (came_us <= left_us)
        is_right &= left_us <= end_us + self.error_us
        is_right &= hops["latency_us"] <= end_us - start_us + RESOLUTION_US
        is_right &= waiting <= np.maximum(ahead, 0)
        return int(np.count_nonzero(~is_right))


@dataclass(frozen=True)
class Found:
    """Result of one case."""

    case: Case
    segments: list[bytes]
    left: list[bytes]  # segments that left the switch
    taken: Taken
    counts: Mapping[str, int]
    ports: tuple[int, int]  # ingress and egress port of the switch
    arrived_ns: NDArray[np.int64]  # capture times of the segments at the switch
    left_ns: NDArray[np.int64]
    written_ns: NDArray[np.int64]  # capture times of the requests at the port to the collector
    frame_bytes: int  # length of a request
    accounting: PacketAccounting
    inside: Inside | None  # None on minip4

    @property
    def slots(self) -> int:
        """Number of slots of the ring."""
        return len(self.taken.file) // RECORDS[self.case.content].itemsize

    @property
    def delays_us(self) -> NDArray[np.float64]:
        """Delays (us) from arrival of a segment at the switch to its record at the collector."""
        return (self.written_ns - self.arrived_ns[: len(self.written_ns)]) / 1000


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    options.packets = options.packets or (200 if options.quick else 2000)
    if options.packets > MAX_PACKETS:
        raise TestbedError(
            f"--packets {options.packets}: too many segments for memory; use at most {MAX_PACKETS}"
        )
    lacking = rxe.lacking(options)
    cases = {
        name: CASES[name] for name in (QUICK if options.quick else CASES)
        if not (CASES[name].is_rxe and lacking)
    }  # fmt: skip
    options.gap_us = GAP_US
    if run.target == "bmv2":
        slowest = CASES["v2, with hop"].collection(options.packets)
        rate_pps = round(1_000_000 / GAP_US)
        capacity = await find_capacity(run, slowest, rate_pps, options.program)
        options.gap_us = 1_000_000 / capacity.rate(rate_pps)
    settings = [(name, case, options) for name, case in cases.items()]
    found = dict(zip(cases, await sweep(measure, settings, run), strict=True))
    return Report(
        samples=[make_sample(name, each) for name, each in found.items()],
        checks=[check for name, each in found.items() for check in make_checks(name, each)],
        metrics={name: {"delay_us": statistics.percentiles(each.delays_us)}
                 for name, each in found.items()},
        figure=draw(found),
        caption=caption(options, lacking),
        tables=[summary_table(found)],
    )  # fmt: skip


async def measure(name: str, case: Case, options: argparse.Namespace, run: Run) -> Found:
    """Send the segments; return what was written and captured."""
    rng = np.random.default_rng(run.seed)
    segments = [segment(rng) for _ in range(options.packets)]
    folder = name.replace(", ", "-").replace(" ", "-")
    async with writing_to(case, run, folder, options) as (running, taken):
        net = running.net
        start_ns = run.clock.now_ns() + SETTLE_NS
        gaps_ns = rng.exponential(1000 * case.gap_us(options), len(segments))
        times = (start_ns + np.cumsum(gaps_ns).astype(np.int64)).tolist()
        clocks = {}
        if run.target == "bmv2":
            clocks = await find_clocks({SWITCH: running.switch}, run.clock)
        net.send_frames("h1", times, segments)
        await run.clock.sleep_until(times[-1])
        await settle(run, SETTLE_NS, partial(events, running.switch, running.session))
        counts = await events(running.switch, running.session)
    reject_bmv2_drops(net, counts)
    arrived, left = net.capture("s1", "h1", "in"), net.capture("s1", "h3", "out")
    requests = pcap.read(net.capture("s2", "h2", "out"))
    return Found(
        case, segments, net.applications[-1].result, taken, counts,
        (net.port("s1", "h1"), net.port("s1", "h3")),
        pcap.read(arrived).time_ns.astype(np.int64), pcap.read(left).time_ns.astype(np.int64),
        requests.time_ns.astype(np.int64), int(requests.length[0]),
        PacketAccounting.from_network(net, {}),
        read_inside(net, len(segments), *clocks[SWITCH]) if clocks else None,
    )  # fmt: skip


def read_inside(net: Network, segments: int, offset_us: int, error_us: float) -> Inside:
    """Return the times in bmv2 from captures. Raises InvalidRunError if bmv2 lost a segment."""
    into_ns, out_ns = (
        pcap.read(net.capture(SWITCH, host, what, inner=True)).time_ns.astype(np.int64)
        for host, what in (("h1", "out"), ("h3", "in"))
    )
    if len(into_ns) != segments or len(out_ns) != segments:
        raise InvalidRunError(f"{net.name}: bmv2 received {len(into_ns)} of {segments} segments, "
                              f"and sent {len(out_ns)}")  # fmt: skip
    return Inside(into_ns, out_ns, offset_us, error_us)


@asynccontextmanager
async def writing_to(
    case: Case, run: Run, folder: str, options: argparse.Namespace
) -> AsyncIterator[tuple[Running, Taken]]:
    """Run a network whose last application is the frame recorder. Fills `Taken` on exit."""
    collection = case.collection(options.packets)
    if case.is_rxe:
        to_rxe = rxe.reporting_to_rxe(run, folder, collection, RATE_BPS, options.program)
        async with to_rxe as both:
            yield both
        return
    taken = Taken()
    async with reporting(run, folder, collection, RATE_BPS, options.program) as running:
        yield running, taken
    path = run.folder / "records"
    taken.file, taken.counts = path.read_bytes(), running.net.applications[0].result.counts
    path.unlink()


def segment(rng: np.random.Generator) -> bytes:
    """Return a TCP segment between random addresses, from h1 to h3."""
    src, dst = (str(IPv4Address(int(rng.integers(1 << 32)))) for _ in range(2))
    sport, dport = (int(rng.integers(1 << 16)) for _ in range(2))
    seq, ack = (int(rng.integers(1 << 32)) for _ in range(2))
    options = (
        [("Timestamp", (seq, ack)), ("NOP", None), ("NOP", None)] if rng.random() < 0.5 else []
    )
    payload = rng.bytes(int(rng.choice(PAYLOADS)))
    ether = Ether(src=HOST_MACS[0], dst=HOST_MACS[1])
    layer = TCP(sport=sport, dport=dport, seq=seq, ack=ack, flags="PA", options=options)
    return bytes(ether / IP(src=src, dst=dst) / layer / payload)


def make_record(frame: bytes) -> bytes:
    """Return the expected record of a segment."""
    src, dst = (str(IPv4Address(frame[at : at + 4])) for at in (26, 30))
    return gid(src) + gid(dst) + frame[34:46]


def expected(found: Found) -> NDArray[np.void]:
    """Return the expected file; each slot contains the last record written to this slot."""
    records = np.zeros(found.slots, RECORDS[found.case.content])
    for number, frame in enumerate(found.segments):
        record = np.frombuffer(make_record(frame), RECORDS[Content.FLOWS])[0]
        if found.case.content is Content.FLOWS:
            records[number % found.slots] = record
        else:
            records[number % found.slots] = (record, make_hop(found, number))
    return records


def make_hop(found: Found, number: int) -> tuple[object, ...]:
    """Return the expected hop metadata of a segment, with times from captures and an empty queue.

    On bmv2, times and queue length are copied from the file. There, Inside.misses() checks them.
    """
    if found.inside is not None:
        hop = np.frombuffer(found.taken.file, RECORDS[Content.FLOWS_AND_HOPS])["hop"][number]
        return (1, *found.ports, hop["latency_us"], 0, *(hop[name] for name in TIMES[1:]))
    came_us, left_us = (int(times[number]) // 1000 for times in (found.arrived_ns, found.left_ns))
    return (1, *found.ports, left_us - came_us, 0, (0, 0, 0), came_us, left_us)


def make_checks(name: str, found: Found) -> list[Check]:
    """Check that file, records, counters and forwarded segments are exact."""
    wanted, got = expected(found).tobytes(), found.taken.file
    wrong = sum(a != b for a, b in zip(wanted, got, strict=True))
    count = len(found.segments)
    accepted = found.taken.counts.accepted.total()
    altered = sum(a != b for a, b in zip(found.segments, found.left, strict=False))
    bounded = []
    if found.inside is not None and found.case.content is Content.FLOWS_AND_HOPS:
        hops = np.frombuffer(got, RECORDS[Content.FLOWS_AND_HOPS])["hop"]
        outside = found.inside.misses(hops)
        bounded = [Check(f"{name}: times and queues outside of captures", outside, 0)]
    return [
        *bounded,
        Check(f"{name}: wrong bytes of the file", wrong, 0),
        Check(f"{name}: records written", accepted, count),
        Check(f"{name}: rejected packets", found.taken.counts.refused.total(), 0),
        Check(f"{name}: records counted by the switch", found.counts["sent"], count),
        Check(f"{name}: segments behind the switch", len(found.left), count),
        Check(f"{name}: changed segments", altered, 0),
        *found.accounting.checks(name),
    ]


def make_sample(name: str, found: Found) -> dict[str, object]:
    """Return the results of a case as a row of the samples."""
    delays = statistics.percentiles(found.delays_us)
    return {
        "case": name, "packets": len(found.segments), "slots": found.slots,
        "record_bytes": found.case.content.value, "frame_bytes": found.frame_bytes,
        "acks": found.counts["acked"],
        **{f"delay_us_{p}": round(delays[p], 3) for p in ("p50", "p99", "max")},
    }  # fmt: skip


def summary_table(found: Mapping[str, Found]) -> Table:
    """Return the results, one row per case."""
    rows = [[*make_sample(name, each).values()] for name, each in found.items()]
    names = ("case", "packets", "slots", "record (bytes)", "frame (bytes)", "ACKs",
             "delay (us): median", "p99", "max")  # fmt: skip
    return table("Records in the file", names, rows)


def draw(found: Mapping[str, Found]) -> Figure:
    """Draw the bytes per record on the wire, and the CDF of its delay."""
    figure, (left, right) = plots.figure(2)
    shown = {
        name: each
        for name, each in found.items()
        if "ring" not in name and "UC" not in name and not each.case.is_rxe
    }
    draw_bytes(left, shown)
    for number, (name, each) in enumerate(shown.items()):
        share = np.arange(1, len(each.delays_us) + 1) / len(each.delays_us)
        right.step(np.sort(each.delays_us), share, marker="", where="post", label=name,
                   color=plots.COLOURS[number])  # fmt: skip
    right.set_xlabel("Delay from segment to record (µs)")
    right.set_ylabel("CDF")
    plots.legend(right, 2)
    return figure


def draw_bytes(axes: Axes, found: Mapping[str, Found]) -> None:
    """Draw the components of a frame."""
    heights = [frame_parts(each) for each in found.values()]
    below = np.zeros(len(found))
    for part, sizes in zip(PARTS, zip(*heights, strict=True), strict=True):
        axes.bar(list(found), sizes, bottom=below, label=part, width=0.6)
        below += sizes
    axes.set_ylabel("Frame length (bytes)")
    plots.legend(axes, 3)


def frame_parts(found: Found) -> Sequence[int]:
    """Return the bytes of a frame, by PARTS."""
    record = found.case.content.value
    network = found.frame_bytes - ETHERNET - BTH_RETH - record - ICRC
    return (ETHERNET, network, BTH_RETH, record, ICRC)


def caption(options: argparse.Namespace, lacking: str) -> str:
    """Return the caption of the figure, with the reason if rdma_rxe is missing."""
    return (
        f"Records of {options.packets:,} TCP segments with a mean interval of {options.gap_us:.0f} "
        "us, written "
        f"by RDMA over a link of {RATE_BPS / 1e6:g} Mbit/s and {DELAY_US} us, "
        f"{plots.runs(1, options.time)}. (a) Components of the frame that writes a record. (b) "
        "Delay from a segment's arrival at the switch to its record at the collector."
        + (f" Without rdma_rxe: {lacking}." if lacking else "")
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
