"""The published RDMA prototype (INDIS 2020) and Telemark's program, with the same TCP segments.

h1, h3 - s1 - h2: s1 writes a record of each segment from h1 to h3 into the memory of h2. Ports,
addresses and the parameters of the connection are those that the published program contains. The
published program turns copies for the CPU into requests, so its CPU port is the port of the
collector.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import finsy as fy
import numpy as np
from mininet.topo import Topo
from numpy.typing import NDArray

from collectors.roce.application import Outcome, Responder, Writer
from collectors.roce.endpoint import Peer, Target
from collectors.roce.region import TCP
from controllers.connection import connections, cpu_ports
from controllers.roce.session import Reporter, Session, configure
from controllers.roce.watch import RecordedFlow
from experiments.shared.roce.reporting import PROGRAM, FrameRecorder
from experiments.shared.tna.fetched import compile_fetched
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.network import Network
from telemark.results.report import Check
from telemark.session.run import Run

PROTOTYPE, OURS = "prototype", "Telemark"
SIDES = (PROTOTYPE, OURS)
FILE = "port_copying.p4"
SOURCE = (
    "port_copying.p4 of https://github.com/rutgerbeltman/telemetry-rdma-p4-switch (commit 8478283)"
)
COLLECTOR_PORT = 128
COLLECTOR_ADDR, COLLECTOR_MAC = "10.1.1.2", "98:03:9b:98:ac:46"
PEER = Peer("10.1.1.1", qpn=0x263, psn=0)
PSNS = 1 << 16  # number of PSNs that the published program counts; RoCE has 2^24
PARSED_TOS = 6  # the published program compares TOS with the protocol number of TCP
GAP_US = 100  # time between two segments
LEAD_NS, SETTLE_NS = 50_000_000, 100_000_000
PAYLOADS = (0, 7, 100)
MACS = bytes.fromhex("000000000003000000000001")
IPV4, IPV6 = "0800", "86dd"


@dataclass(frozen=True)
class Case:
    """Segments, and the number of slots of the collector's region."""

    name: str
    segments: int
    slots: int
    version: int = 6
    tos: int = 0


@dataclass(frozen=True)
class Finding:
    """Result of one side in a case. A record is complete if its slot has the right 44 bytes."""

    case: str
    side: str
    segments: int
    written: int  # number of requests that the collector executed
    expected_written: int
    complete: int  # number of complete records in the `slots` slots that are in use
    expected_complete: int
    slots: int
    wrong_bytes: int  # number of bytes of the memory that differ from the model
    wrong_segments: int  # number of segments that the switch lost or changed
    # number of packets that the collector rejected because of their format or iCRC
    bad_packets: int


FORMAT_REASONS = ("TRUNCATED", "IP_HEADER", "UDP_CHECKSUM", "ICRC", "VERSION", "OPCODE", "ADDRESS",
                  "PARTITION", "KEY", "LENGTH", "PADDING")  # fmt: skip


class Site(Topo):
    """h1, h3 - s1 - h2; the ports are those of the published program."""

    def build(self) -> None:
        self.addSwitch("s1")
        collector = self.addHost("h2", mac=COLLECTOR_MAC)
        for host, port in ((self.addHost("h1"), 0), (self.addHost("h3"), 1),
                           (collector, COLLECTOR_PORT)):  # fmt: skip
            self.addLink(host, "s1", port2=port)


def make_segments(case: Case, rng: np.random.Generator) -> list[bytes]:
    """Return TCP segments with random addresses, ports, numbers and payload."""
    if case.version == 4:
        fixed = f"{IPV4}45{case.tos:02x}0000000040004006"
    else:
        fixed = f"{IPV6}6000000000000640"
    addresses = 2 * (4 if case.version == 4 else 16)
    head = MACS + bytes.fromhex(fixed) + bytes(2 if case.version == 4 else 0)
    frames = np.empty((case.segments, len(head) + addresses + 20), np.uint8)
    frames[:] = rng.integers(0, 256, frames.shape, np.uint8)
    frames[:, : len(head)] = np.frombuffer(head, np.uint8)
    frames[:, -8:] = np.frombuffer(bytes.fromhex("5010200000000000"), np.uint8)
    payloads = [PAYLOADS[number % len(PAYLOADS)] for number in range(case.segments)]
    words = frames[:, 14:].view(">u2")
    if case.version == 4:
        words[:, 1] = 40 + np.array(payloads)
        words[:, 5] = _checksums(words[:, :10])
    else:
        words[:, 2] = 20 + np.array(payloads)
    return [frame.tobytes() + rng.bytes(size) for frame, size in zip(frames, payloads, strict=True)]


def _checksums(words: NDArray[np.uint16]) -> NDArray[np.int64]:
    """Return the checksums of IPv4 headers in which the field of the checksum is 0."""
    total = words.astype(np.int64).sum(axis=1)
    for _ in range(2):
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total


def make_record(frame: bytes, *, has_addresses: bool = True) -> bytes:
    """Return the record of a segment."""
    if frame[12:14].hex() == IPV6:
        return frame[22:54] + frame[54:66]
    mapped = bytes(10) + b"\xff\xff"
    addresses = mapped + frame[26:30] + mapped + frame[30:34]
    return (addresses if has_addresses else bytes(32)) + frame[34:46]


def ring(segments: Sequence[bytes], slots: int) -> bytes:
    """Return a memory that has the last record of each slot, as Telemark's program writes it."""
    memory = bytearray(slots * TCP.itemsize)
    for number, frame in enumerate(segments):
        at = number % slots * TCP.itemsize
        memory[at : at + TCP.itemsize] = make_record(frame)
    return bytes(memory)


def prototype_memory(segments: Sequence[bytes], slots: int) -> tuple[bytes, int]:
    """Return the memory of the published program, and the number of executed requests.

    The program records IPv6 segments, and IPv4 segments with one TOS. Records of IPv4 have no
    addresses. The PSN restarts after PSNS requests, so the collector rejects later ones as
    duplicates. A request after the end of the region breaks the connection.
    """
    memory, requests, executed = bytearray(slots * TCP.itemsize), 0, 0
    for frame in segments:
        if frame[12:14].hex() == IPV4 and frame[15] != PARSED_TOS:
            continue
        if executed == requests % PSNS:
            if requests == slots:
                break
            at = requests * TCP.itemsize
            memory[at : at + TCP.itemsize] = make_record(frame, has_addresses=False)
            executed += 1
        requests += 1
    return bytes(memory), executed


def complete_records(memory: bytes, case: Case, segments: Sequence[bytes]) -> int:
    """Return how many slots have the right record."""
    right = np.frombuffer(ring(segments, case.slots), TCP)
    used = min(case.slots, case.segments)
    return int(np.count_nonzero(np.frombuffer(memory, TCP)[:used] == right[:used]))


async def measure(case: Case, side: str, folder: str, run: Run) -> tuple[Finding, Sequence[Check]]:
    """Send the segments, and compare the memory of the collector with the model of the side."""
    segments = make_segments(case, np.random.default_rng(run.seed))
    path = run.folder / "memory"
    writer = Writer(PEER, TCP, case.slots, path)
    responder = Responder(COLLECTOR_ADDR, [writer], receives=4096)
    name = f"{case.name}-{case.segments}-{side}".replace(",", "").replace(" ", "-")
    async with _writing(side, folder, responder.targets[0], name, run) as net:
        collector = net.run_application("h2", responder)
        receiver = net.run_application("h3", FrameRecorder())
        start_ns = run.clock.now_ns() + LEAD_NS
        times = (start_ns + np.arange(case.segments) * GAP_US * 1000).tolist()
        net.send_frames("h1", times, segments)
        await run.clock.sleep_until(times[-1] + SETTLE_NS)
    outcome: Outcome = collector.result
    memory = path.read_bytes()
    path.unlink()
    expected, written = ring(segments, case.slots), case.segments
    if side == PROTOTYPE:
        expected, written = prototype_memory(segments, case.slots)
    finding = Finding(
        case.name, side, case.segments, outcome.counts.accepted.total(), written,
        complete_records(memory, case, segments), complete_records(expected, case, segments),
        min(case.slots, case.segments),
        sum(a != b for a, b in zip(memory, expected, strict=True)),
        sum(a != b for a, b in zip(segments, receiver.result, strict=False))
        + abs(len(segments) - len(receiver.result)),
        sum(outcome.counts.refused[reason] for reason in FORMAT_REASONS),
    )  # fmt: skip
    return finding, PacketAccounting.from_network(net, {}).checks(f"{case.name}, {side}")


@asynccontextmanager
async def _writing(
    side: str, folder: str, target: Target, name: str, run: Run
) -> AsyncIterator[Network]:
    """Start the network, and the session of the switch with the collector."""
    topo = Site()
    program: str | Path = PROGRAM
    options: dict[str, list[str]] = cpu_ports(topo)
    if side == PROTOTYPE:
        program = Path(folder) / FILE
        compile_fetched(program, {}, run)
        options = {"s1": ["--cpu-port", str(COLLECTOR_PORT)]}
    with Network(
        topo, run, program=program, name=name, capture=False, switch_options=options,
        expected_drops=("ingress", "miss", "egress"),
    ) as net:  # fmt: skip
        async with connections(net) as switches:
            if side == PROTOTYPE:
                await switches["s1"].insert([prototype_entry(target)])
            else:
                session = Session(1, "h2", PEER, target, version=1, patience=0)
                flows = [RecordedFlow(any_, any_) for any_ in ("0.0.0.0/0", "::/0")]
                await configure(net, switches, {"s1": Reporter([session], flows)})
            yield net


def prototype_entry(target: Target) -> fy.P4TableEntry:
    """Return the only entry of the published program: queue pair, address and key."""
    action = fy.Action("set_qp_vr_rk_action", qp=target.qpn, vr=target.base, rk=target.rkey)
    match = fy.Match({"eg_intr_md.egress_port": COLLECTOR_PORT})
    return fy.P4TableEntry("set_qp_vr_rk", match=match, action=action)
