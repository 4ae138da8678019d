"""Reports of each INT mode, and the packets that leave the INT domain.

The path is h1 - s1 - s2 - s3 - h2, and the collector is at s1. Each mode has one flow. Packets of
these flows alternate.
"""

import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from controllers.connection import connections
from controllers.int.domain import Domain, configure
from controllers.int.watch import Denied, Instruction, Mode, WatchedFlow
from experiments.shared.both_targets.outputs import Outputs, Part, count_sent, send
from experiments.shared.int.on_bmv2 import read_ahead
from experiments.shared.int.reports import expected_path
from experiments.shared.int.truth import around, read_queue
from experiments.shared.roce.reporting import FrameRecorder
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow
from topologies.basic import ParkingLot

PROGRAM = "p4src/int/int.p4"
PATH, DENIES = ("s1", "s2", "s3"), "s2"
EMBEDDED, DROPPED = (Mode.DATA, Mode.INSTRUCTIONS, Mode.EXPORT), Mode.DROPS
NAMES = {Mode.DATA: "MD", Mode.INSTRUCTIONS: "MX", Mode.EXPORT: "XD", Mode.DROPS: "drops"}
WANTED = (Instruction.NODE_ID | Instruction.LEVEL_1 | Instruction.LATENCY | Instruction.QUEUE
          | Instruction.INGRESS_TIME | Instruction.EGRESS_TIME)  # fmt: skip
OF_DROPS = Instruction.LEVEL_1 | Instruction.INGRESS_TIME
# metadata fields of 8 bytes; all other fields have 4 bytes
EIGHT_BYTES = Instruction.INGRESS_TIME | Instruction.EGRESS_TIME
TIMED = EIGHT_BYTES | Instruction.LATENCY | Instruction.QUEUE  # values that depend on time
UDP_PROTOCOL, PAYLOADS = 17, (18, 100, 300)
# Offsets in the frame of a report. The metadata of the reporting switch comes first, then the
# reported packet. The reported packet consists of IPv4, UDP, shim and INT header, and the metadata
# stack of the earlier switches.
NUMBER, NODE, METADATA_BITS = slice(42, 46), slice(46, 50), slice(54, 56)
METADATA_WORDS, METADATA, STACK, STACK_HOP = 52, 62, 44, 32
DST_PORT, CHECKSUM = slice(22, 24), 26  # offsets in the reported packet

Hop = dict[Instruction, slice]
"""Byte ranges of a switch's metadata in a frame."""


async def measure(packets: int, run: Run) -> Outputs:
    """Send packets for each INT mode; return the reports and the packets that left the domain."""
    each = packets // len(NAMES)
    flows = {mode: Flow(n, "h1", "h2", 1, each) for n, mode in enumerate(NAMES, start=1)}
    topo = ParkingLot(len(PATH))
    with Network(topo, run, program=PROGRAM, name="int", expected_drops=["ingress"]) as net:
        collector = net.run_application("collector", FrameRecorder())
        receiver = net.run_application("h2", FrameRecorder())
        frames = make_frames(net, [*flows.values()], run.seed)
        watched = [
            WatchedFlow(net.host("h1").IP(), net.host("h2").IP(), UDP_PROTOCOL, mode=mode,
                        dst_port=flow.port, instructions=WANTED)
            for mode, flow in flows.items()
        ]  # fmt: skip
        denied = Denied(dst_port=flows[DROPPED].port, switches=(DENIES,))
        domain = Domain("collector", watched, drops=OF_DROPS, denied=[denied])
        async with connections(net) as switches:
            await configure(net, switches, domain)
            await send(net, "h1", frames, run.clock)
    reports = sorted(collector.result, key=lambda frame: (frame[NODE], frame[NUMBER]))
    of_mode = {mode: [r for r in reports if port_of(r) == flow.port]
               for mode, flow in flows.items()}  # fmt: skip
    embedded = {flows[mode]: of_mode[mode] for mode in EMBEDDED}
    links = [("s1", "s2"), ("s2", "s3"), ("s3", "h2"), ("s3", "s2"), ("s2", "s1"),
             ("s1", "collector")]  # fmt: skip
    return Outputs(
        "INT",
        {
            **{f"reports, {NAMES[mode]}": Part([*map(clear_times, found)])
               for mode, found in of_mode.items()},
            "forwarded packets": Part(
                receiver.result, [f for n, f in enumerate(frames) if n % len(NAMES) < len(EMBEDDED)]
            ),
        },
        {
            "reports": (len(reports), each * (1 + 2 * len(PATH) + 1)),
            "hops with wrong node or ports": (count_wrong_hops(net, embedded), 0),
            "max queue above packets in the switch (packets)": (queue_excess(net, embedded), 0),
        },
        count_sent(net, links),
        PacketAccounting.from_network(net, {}),
    )  # fmt: skip


def make_frames(net: Network, flows: Sequence[Flow], seed: int) -> list[bytes]:
    """Return packets with random content; consecutive packets belong to different flows."""
    rng, found = np.random.default_rng(seed), []
    ether = Ether(src=net.host("h1").MAC(), dst=net.host("h2").MAC())
    for number in range(flows[0].count):
        for flow in flows:
            # If a packet has an IPv4 identification, its report does not contain the payload.
            ip = IP(src=net.host("h1").IP(), dst=net.host("h2").IP(), id=number + 1)
            udp = UDP(sport=int(rng.integers(1024, 1 << 16)), dport=flow.port)
            found.append(bytes(ether / ip / udp / Raw(rng.bytes(int(rng.choice(PAYLOADS))))))
    return found


def metadata_end(frame: bytes) -> int:
    """Return the offset at which the metadata of the reporting switch end."""
    return METADATA + 4 * frame[METADATA_WORDS]


def port_of(frame: bytes) -> int:
    """Return the destination port of the reported packet."""
    return int.from_bytes(frame[metadata_end(frame) :][DST_PORT], "big")


def hops_of(frame: bytes) -> list[Hop]:
    """Return the metadata of the reporting switch, then of the stack, last switch first."""
    bits = Instruction(int.from_bytes(frame[METADATA_BITS], "big"))
    stack = range(metadata_end(frame) + STACK, len(frame), STACK_HOP)
    return [_places(METADATA, bits), *(_places(at, WANTED) for at in stack)]


def _places(begin: int, instructions: Instruction) -> Hop:
    found: Hop = {}
    for each in sorted(Instruction, reverse=True):
        if each & instructions:
            found[each] = slice(begin, begin := begin + (8 if each & EIGHT_BYTES else 4))
    return found


def clear_times(frame: bytes) -> bytes:
    """Return a report without values that depend on time.

    The UDP checksum of the reported packet covers the time values in the stack, so this function
    updates the checksum.
    """
    cleared, (own, *stack) = bytearray(frame), hops_of(frame)
    timed = [[at for field, at in hop.items() if field & TIMED] for hop in (own, *stack)]
    for place in chain.from_iterable(timed):
        cleared[place] = bytes(place.stop - place.start)
    if stack:
        begin = metadata_end(frame) + CHECKSUM
        covered = b"".join(frame[place] for place in chain.from_iterable(timed[1:]))
        checksum = int.from_bytes(frame[begin : begin + 2], "big")
        checksum += sum(word for (word,) in struct.iter_unpack(">H", covered))
        cleared[begin : begin + 2] = (checksum % 0xFFFF).to_bytes(2, "big")
    return bytes(cleared)


def count_wrong_hops(net: Network, reports: Mapping[Flow, Sequence[bytes]]) -> int:
    """Return how many hops have a node id or ports that differ from those of the path."""
    wrong = 0
    for flow, frames in reports.items():
        path = {hop["node"]: hop for hop in expected_path(net, flow, PATH)}
        for frame in frames:
            node = int.from_bytes(frame[NODE], "big")
            for number, hop in enumerate(hops_of(frame)):
                expected = path.get(node - number, {"node": 0, "ingress": 0, "egress": 0})
                ports = expected["ingress"] << 16 | expected["egress"]
                wrong += frame[hop[Instruction.LEVEL_1]] != ports.to_bytes(4, "big")
                if number:
                    own = frame[hop[Instruction.NODE_ID]]
                    wrong += own != expected["node"].to_bytes(4, "big")
    return wrong


def queue_excess(net: Network, reports: Mapping[Flow, Sequence[bytes]]) -> int:
    """Return how far reported queue lengths exceed the number of packets ahead: the maximum.

    Captures show which packets were ahead.
    """
    excess = 0
    for flow, frames in reports.items():
        queued = defaultdict(list)
        for frame in frames:
            node = int.from_bytes(frame[NODE], "big")
            for number, hop in enumerate(hops_of(frame)):
                waiting = int.from_bytes(frame[hop[Instruction.QUEUE]][1:], "big")
                queued[node - number].append(waiting)
        for node, (_, switch, after) in enumerate(around(flow, PATH), start=1):
            if net.has_panels:
                ahead = read_ahead(net, switch, after, flow)
            else:
                ahead = read_queue(net, switch, after, stamped=False).passage(flow).max_queued
            for waiting, most in zip(queued[node], ahead.tolist(), strict=False):
                excess = max(excess, waiting - most)
    return excess
