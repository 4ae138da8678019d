"""Outputs of RoCE: frames with a record per TCP segment, and the memory with these records."""

from dataclasses import replace

import numpy as np
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from collectors.roce.endpoint import gid
from controllers.roce.running import events
from experiments.shared.both_targets.outputs import Outputs, Part, count_sent, send
from experiments.shared.roce.reporting import Collection, reporting
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.session.cli import MAX_SNAPLEN
from telemark.session.run import Run

RATE_BPS = 10_000_000  # rate of the link to the collector
FILE = "records"
MACS = ("00:00:00:00:00:01", "00:00:00:00:00:03")  # MAC addresses of h1 and h3
LINKS = [("s1", "s2"), ("s1", "h3"), ("s2", "h2")]


async def measure(version: int, packets: int, run: Run) -> Outputs:
    """Send TCP segments; return the written memory, the RoCE frames and the forwarded segments.

    The queue pair has no retransmission timeout, because a timeout would add probes that depend on
    time.
    """
    segments = make_segments(packets, run.seed)
    session = ("version", version), ("patience", 0)
    collection = Collection(packets, session=session, file=FILE)
    whole = replace(run, snaplen=MAX_SNAPLEN)
    async with reporting(whole, f"roce-v{version}", collection, RATE_BPS) as running:
        net = running.net
        await send(net, "h1", segments, run.clock)
        counts = await events(running.switch, running.session)
    path = run.folder / FILE
    memory = path.read_bytes()
    path.unlink()
    frames = pcap.read_frames(net.capture("s2", "h2", "out"))[1]
    return Outputs(
        f"RoCEv{version}",
        {
            "frames": Part(frames),
            "memory": Part([memory], [b"".join(map(make_record, segments))]),
            "forwarded packets": Part(net.applications[1].result, segments),
        },
        {
            "frames": (len(frames), packets),
            "records counted by the switch": (counts["sent"], packets),
            "rejected frames": (net.applications[0].result.counts.refused.total(), 0),
        },
        count_sent(net, LINKS),
        PacketAccounting.from_network(net, {}),
    )


def make_segments(count: int, seed: int) -> list[bytes]:
    """Return TCP segments with random fields from h1 to h3."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(count):
        src, dst = rng.bytes(4), rng.bytes(4)
        sport, dport = (int(rng.integers(1 << 16)) for _ in range(2))
        seq, ack = (int(rng.integers(1 << 32)) for _ in range(2))
        ip = IP(src=".".join(map(str, src)), dst=".".join(map(str, dst)))
        tcp = TCP(sport=sport, dport=dport, seq=seq, ack=ack, flags="PA")
        ether = Ether(src=MACS[0], dst=MACS[1])
        found.append(bytes(ether / ip / tcp / Raw(rng.bytes(int(rng.integers(100))))))
    return found


def make_record(segment: bytes) -> bytes:
    """Return the expected record of a segment: addresses, ports and sequence numbers."""
    src, dst = (".".join(map(str, segment[at : at + 4])) for at in (26, 30))
    return gid(src) + gid(dst) + segment[34:46]
