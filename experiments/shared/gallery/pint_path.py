"""Path of a flow from PINT's digests: how many packets does the receiver need?"""

from dataclasses import dataclass

import numpy as np

from controllers.connection import connections
from controllers.forwarding import forwarding_entries
from experiments.shared.gallery import pint
from experiments.shared.gallery.pint import Hash, Query, field
from experiments.shared.gallery.switch import replay
from experiments.shared.gallery.traces import NUMBER_AT
from experiments.shared.xdp.streams import Stream, random_flows
from telemark.accounting import pcap
from telemark.errors import note_invalid
from telemark.network import Network
from telemark.session.run import Run
from topologies.basic import Line

FRAME_BYTES = 64


@dataclass(frozen=True)
class Sample:
    """Result of one run."""

    hops: int
    bits: int
    instances: int
    baseline: float
    xor: float
    seed: int
    paths: int  # how many times the receiver inferred the path
    mean_packets: float  # mean number of packets from which the receiver inferred the path
    median_packets: float
    wrong: int  # number of inferred paths that differ from the real one
    different: int  # number of digests that differ from the model
    lost: int  # number of lost packets

    @property
    def query(self) -> Query:
        """The query of this run."""
        return Query(self.bits, self.instances, self.baseline, self.xor)


async def measure(
    hops: int, query: Query, packets: int, program: str, run: Run
) -> Sample:  # fmt: skip
    """Send a flow over a line of switches, and infer the path."""
    rng = np.random.default_rng([run.seed, hops])
    numbers = np.zeros(packets, np.int64)
    stream = Stream(numbers, random_flows(1, rng), np.full(packets, FRAME_BYTES))
    hash_, switches = Hash(run.seed), range(1, hops + 1)
    path = rng.permutation(hops)
    name = f"{hops}-{query.bits}-{query.instances}-{query.xor:.2f}-{run.seed}"
    defines = {"BITS": query.bits, "INSTANCES": query.instances, "LATENCY": 0}
    with Network(Line(hops), run, program=program, defines=defines, name=name) as net:
        async with connections(net) as connected:
            for (switch, connection), at in zip(connected.items(), path, strict=True):
                await connection.insert(forwarding_entries(net, switch))
                await connection.modify([hash_.entry(switches[at], query)])
            await replay(net, run, stream)
    frames = pcap.read(net.capture(f"s{hops}", "h2", "out")).bytes
    arrived = field(frames, NUMBER_AT + pint.HEADER_BYTES, ">u4")
    digests = field(frames, pint.DIGEST_AT, ">u2")
    if len(frames) < packets and run.target == "bmv2":
        note_invalid(f"{name}: bmv2 did not forward {packets - len(frames)} packets")
    identities = int(stream.flows["source_port"][0]) << 16 | arrived & 0xFFFF
    known = pint.receiver(hash_, query, identities, hops, switches)
    decoded = [*pint.packets_to_decode(known, query, digests, hops)]
    needed = [count for count, _ in decoded]
    return Sample(
        hops, query.bits, query.instances, query.baseline, query.xor, run.seed, len(decoded),
        float(np.mean(needed)), float(np.median(needed)),
        sum(found != path.tolist() for _, found in decoded),
        int((pint.model(known, query, path.tolist()) != digests).sum()), packets - len(frames),
    )  # fmt: skip
