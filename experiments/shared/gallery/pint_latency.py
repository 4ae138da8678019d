"""Latency of each hop from PINT's digests: eight bits for a latency, next to eight for the path.

The packets arrive in bursts, and each link is slower than the one before. So there are queues at
all switches but the last one.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import finsy as fy
import numpy as np
from mininet.topo import Topo
from numpy.typing import NDArray

from controllers.connection import connections
from controllers.forwarding import forwarding_entries
from experiments.shared.gallery import pint
from experiments.shared.gallery.pint import Hash, Query
from experiments.shared.gallery.switch import LEAD_NS, SETTLE_NS
from experiments.shared.gallery.traces import make_frames
from experiments.shared.xdp.streams import Stream, random_flows
from telemark.accounting import pcap
from telemark.network import Network
from telemark.session.run import Run

PATH = Query(8)
# bits of a code -> error: a code stands for values within a factor of 1 + error (authors' program)
ERRORS = {4: 0.42, 8: 0.022}
QUANTILES = {"median": 0.5, "99th percentile": 0.99}
RATES_BPS = (100e6, 80e6, 64e6, 51e6)  # rates of the links between switches
FRAME_BYTES, BURST = 594, 40  # bytes of a frame; mean number of packets in a burst
GAP_NS = 6_000_000  # mean time between bursts


@dataclass(frozen=True)
class Latencies:
    """Latencies of one run. Rows are hops with a queue, columns are QUANTILES."""

    bits: int
    seed: int
    true_us: NDArray[np.float64]  # latencies of all packets
    # latencies of the packets whose digests have a latency of the hop
    sampled_us: NDArray[np.float64]
    estimated_us: NDArray[np.float64]  # latencies according to the digests
    different: int  # number of digests that differ from the model


class Slowing(Topo):
    """Line of switches with hosts h1 and h2, where each link is slower than the one before."""

    def build(self) -> None:
        names = [self.addSwitch(f"s{number}") for number in range(1, len(RATES_BPS) + 2)]
        self.addLink(self.addHost("h1"), names[0])
        for (left, right), rate_bps in zip(pairwise(names), RATES_BPS, strict=True):
            self.addLink(left, right, rate_bps=rate_bps, queue_packets=100_000)
        self.addLink(names[-1], self.addHost("h2"))


def encode(latency_us: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """Return the code of each latency: its logarithm, rounded."""
    logarithms = np.log(np.maximum(latency_us, 1)) / (2 * math.log1p(ERRORS[bits]))
    return np.minimum(np.rint(logarithms), 2**bits - 1).astype(np.int64)


def decode(codes: NDArray[np.float64], bits: int) -> NDArray[np.float64]:
    """Return the latencies that codes stand for, in us."""
    return np.power(1 + ERRORS[bits], 2 * codes)


def entries(bits: int) -> list[fy.P4TableEntry]:
    """Return the entries that translate a latency into a code."""
    limits = np.ceil(decode(np.arange(2**bits - 1) + 0.5, bits)).astype(int).tolist()
    ranges = zip([0, *limits], [*(limit - 1 for limit in limits), 2**32 - 1], strict=True)
    return [
        fy.P4TableEntry("codes", match=fy.Match({"latency_us": f"{first}...{last}"}), priority=1,
                        action=fy.Action("set_code", new_code=code))
        for code, (first, last) in enumerate(ranges) if first <= last
    ]  # fmt: skip


async def measure(bits: int, packets: int, program: str, run: Run) -> Latencies:
    """Send a flow in bursts, and compare the latencies in its digests with captures."""
    rng = np.random.default_rng([run.seed, 9])
    stream = Stream(
        np.zeros(packets, np.int64), random_flows(1, rng), np.full(packets, FRAME_BYTES)
    )
    hops, hash_ = len(RATES_BPS) + 1, Hash(run.seed)
    defines = {"BITS": PATH.bits, "LATENCY": 1}
    with Network(
        Slowing(), run, program=program, defines=defines, name=f"latency-{bits}-{run.seed}"
    ) as net:
        async with connections(net) as connected:
            for number, (switch, connection) in enumerate(connected.items(), 1):
                await connection.insert([*forwarding_entries(net, switch), *entries(bits)])
                await connection.modify([hash_.entry(number, PATH)])
            frames = make_frames(stream, net.host("h1").MAC(), net.host("h2").MAC())
            gaps = np.where(rng.random(packets) < 1 / BURST, rng.exponential(GAP_NS, packets), 0)
            times = run.clock.now_ns() + LEAD_NS + np.cumsum(gaps).astype(np.int64)
            net.send_frames("h1", times.tolist(), frames)
            await run.clock.sleep_until(int(times[-1]) + SETTLE_NS)
    nodes = ["h1", *net.topo.switches(), "h2"]
    true_us = np.array([
        pcap.read(net.capture(switch, after, "out")).time_ns.astype(np.int64) // 1000
        - pcap.read(net.capture(switch, before, "in")).time_ns.astype(np.int64) // 1000
        for before, switch, after in zip(nodes, nodes[1:-1], nodes[2:], strict=False)
    ])  # fmt: skip
    digests = pint.field(
        pcap.read(net.capture(nodes[-2], "h2", "out")).bytes, pint.DIGEST_AT, ">u2"
    )
    identities = int(stream.flows["source_port"][0]) << 16 | np.arange(packets) & 0xFFFF
    writers = hash_.last_writers(identities, pint.LATENCIES, hops) - 1
    own_us, codes = true_us[writers, np.arange(packets)], digests >> PATH.bits
    known = pint.receiver(hash_, PATH, identities, hops, range(1, hops + 1))
    path_differs = pint.model(known, PATH, list(range(hops))) != digests & 0xFF
    with_queue, fractions = range(hops - 1), [*QUANTILES.values()]
    return Latencies(
        bits, run.seed,
        np.array([np.quantile(true_us[hop], fractions) for hop in with_queue]),
        np.array([np.quantile(own_us[writers == hop], fractions, method="nearest")
                  for hop in with_queue]),
        np.array([np.quantile(decode(codes[writers == hop].astype(float), bits), fractions,
                              method="nearest")
                  for hop in with_queue]),
        int(((encode(own_us, bits) != codes) | path_differs).sum()),
    )  # fmt: skip
