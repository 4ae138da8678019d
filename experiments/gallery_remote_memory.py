"""Remote memory: can a switch use the memory of a server, without the server's processor?

A switch uses the memory of a server by RDMA, with three primitives. Counters: each packet
increments the counter of its flow. Lookup table: an entry in the memory of the server decides where
a packet is forwarded. Packet buffer: packets of a burst that do not fit into a queue wait in the
memory of the server.

Paper: Kim, Zhu, Kim, Lee and Seshan: Generic External Memory for Switch Data Planes. HotNets 2018.

Claim: The memory and the packets that hosts receive equal those of models. No packet of a burst is
lost or reordered while the ring in the server has room.

Published: The paper designs three remote memory primitives, and shows that a switch can access
remote memory purely from the data plane (abstract).

Differences: The abstract has no other numbers. The server is software: Telemark's RoCE responder,
and an RDMA READ in Python. Reads have a queue pair of their own, and the server executes all
requests in the order of their arrival. RDMA packets are not lost. Frames have 64 bytes, because a
program must parse the bytes that the iCRC of a request covers. On bmv2, the links are outside of
the switch, so queues do not overflow, and the packet buffer is left out.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest

import numpy as np
from matplotlib.figure import Figure

from controllers.connection import connection
from experiments.shared.gallery import remote_memory, traces
from experiments.shared.gallery.remote_memory import (
    BUFFER,
    COUNTERS,
    MODES,
    TABLE,
    Entries,
    MemoryServer,
)
from experiments.shared.xdp.streams import Stream, zipf
from telemark.accounting import pcap
from telemark.network import Network
from telemark.results import plots
from telemark.results.report import Check, Report, Reproduction
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep_seeds

PROGRAM = "p4src/gallery/remote_memory.p4"
CELLS = 1024  # number of counters, or of table entries
RING, SMALL_RING = 1 << 14, 1 << 10  # sizes of the ring in packets
FRAME_BYTES = 64
# Bursts arrive at BURST_PPS; the queue of h2 sends OUT_PPS, and has room for QUEUE packets.
BURSTS, SMALL_BURSTS = (50, 100, 200, 500, 1000, 2000, 5000), (500,)
QUEUE, HIGH, LOW, NEVER = 64, 48, 8, 1 << 30
PACKETS, SMALL_PACKETS, BMV2_PACKETS = 20_000, 2_000, 500
FLOWS = 2_000
RATES_PPS = {"virtual": 100_000, "real": 1_000, "bmv2": 200}
SLOWER = 4  # rate of a burst / rate of the queue
LEAD_NS, SETTLE_NS = 100_000_000, 500_000_000
SEEDS = 5


@dataclass(frozen=True)
class Sample:
    """Result of one run."""

    mode: str
    packets: int
    is_remote: bool  # if False, the switch does not use the buffer
    seed: int
    wrong_memory: int  # number of cells that differ from the model
    # number of packets that hosts did not get, or that differ, or that are out of order
    wrong_packets: int
    delivered: float  # fraction of the packets that hosts received
    refused: int  # number of requests that the server rejected
    server_bytes: float  # bytes between switch and server per packet, in both directions


def add_options(parser: argparse.ArgumentParser) -> None:
    cli.add_program_option(parser, PROGRAM)


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    is_small, is_bmv2 = options.quick or options.time == "real", run.target == "bmv2"
    packets = BMV2_PACKETS if is_bmv2 else SMALL_PACKETS if is_small else PACKETS
    settings = [(mode, packets, True, options) for mode in (COUNTERS, TABLE)]
    if not is_bmv2:
        settings += [(BUFFER, burst, is_remote, options)
                     for is_remote in ((True,) if options.quick else (False, True))
                     for burst in (SMALL_BURSTS if is_small else BURSTS)]  # fmt: skip
    seeds = [run.seed + number for number in range(1 if is_small else SEEDS)]
    results = await sweep_seeds(measure, settings, seeds, run)
    found = [sample for samples in results for sample in samples]
    remote = [each for each in found if each.is_remote]
    modes = dict.fromkeys(each.mode for each in remote)
    wrong = {(each.mode, each.seed) for each in remote
             if each.wrong_memory or each.wrong_packets or each.refused}  # fmt: skip
    right = [sum((mode, seed) not in wrong for mode in modes) for seed in seeds]
    published = Reproduction(
        "primitives that work in the data plane", "abstract", "3", (3, 3), right,
        "the packet buffer is left out" if is_bmv2 else "",
    )  # fmt: skip
    return Report(
        samples=[asdict(each) for each in found],
        checks=[
            *(Check(f"{mode}: {what}",
                    sum(getattr(each, name) for each in remote if each.mode == mode), 0)
              for mode in modes
              for what, name in (("cells of the memory that differ from the model", "wrong_memory"),
                                 ("packets that are lost, wrong or out of order", "wrong_packets"),
                                 ("rejected requests", "refused"))),
            *published.checks(),
        ],
        figure=draw(found),
        caption=caption(options),
        reproductions=[published],
    )  # fmt: skip


async def measure(
    mode: str, packets: int, is_remote: bool, options: argparse.Namespace, run: Run
) -> Sample:
    """Send packets, and compare the memory and the received packets with the model."""
    rng = np.random.default_rng([run.seed, 3])
    stream = zipf(packets, FLOWS, rng)
    stream = Stream(stream.numbers, stream.flows, np.full(packets, FRAME_BYTES))
    cells = (traces.flow_hashes(stream) % CELLS).astype(np.int64)[stream.numbers]
    rate_pps = RATES_PPS["bmv2" if run.target == "bmv2" else options.time]
    out = {}
    if mode == BUFFER:
        out = {"rate_bps": round(8 * FRAME_BYTES * rate_pps / SLOWER), "queue_packets": QUEUE}
    ring = SMALL_RING if options.quick or options.time == "real" else RING
    defines = {"MODE": MODES.index(mode) + 1, "CELLS": ring if mode == BUFFER else CELLS,
               "HIGH": HIGH if is_remote else NEVER, "LOW": LOW}  # fmt: skip
    with Network(
        remote_memory.Server(**out), run, program=options.program, defines=defines,
        name=f"{mode}-{packets}-{is_remote}-{run.seed}".replace(" ", "-").lower(),
        expected_drops=("ingress", "no_queue"),
    ) as net:  # fmt: skip
        h2, h3 = (bytes.fromhex(net.host(host).MAC().replace(":", "")) for host in ("h2", "h3"))
        entries = Entries(mode, defines["CELLS"], (h2, h3), run.seed)
        server = MemoryServer(net.host("m").IP(), entries)
        running = net.run_application("m", server)
        async with connection(net, "s1") as switch:
            await switch.insert(remote_memory.configuration(net, server))
            frames = traces.make_frames(stream, net.host("h1").MAC(), net.host("h2").MAC())
            start_ns = run.clock.now_ns() + LEAD_NS
            times = (start_ns + np.arange(packets) * (1e9 / rate_pps)).astype(np.int64)
            net.send_frames("h1", times.tolist(), frames)
            drain_ns = round(packets * SLOWER * 1e9 / rate_pps) if mode == BUFFER else 0
            await run.clock.sleep_until(int(times[-1]) + drain_ns + SETTLE_NS)
    wrong_cells = remote_memory.count_wrong_cells(entries, running.result, cells, frames)
    expected = remote_memory.expected_packets(entries, cells, frames)
    got = {host: [each.bytes for each in pcap.iterate_frames(net.capture("s1", host, "out"))]
           for host in ("h2", "h3")}  # fmt: skip
    sizes = [pcap.read(net.capture("s1", "m", way), 64).length.sum() for way in ("in", "out")]
    return Sample(
        mode, packets, is_remote, run.seed,
        wrong_cells,
        sum(a != b for host in got for a, b in zip_longest(expected[host], got[host])),
        sum(map(len, got.values())) / packets,
        len(running.result.refused),
        float(sum(sizes)) / packets,
    )  # fmt: skip


def draw(found: Sequence[Sample]) -> Figure:
    """Draw delivered packets against the length of a burst, and the cost of each primitive."""
    figure, (left, right) = plots.figure(2)
    for is_remote, label in ((False, "queue only"), (True, "queue and remote buffer")):
        own = [each for each in found if each.mode == BUFFER and each.is_remote == is_remote]
        bursts = sorted({each.packets for each in own})
        delivered = [np.median([each.delivered for each in own if each.packets == burst])
                     for burst in bursts]  # fmt: skip
        left.plot(bursts, delivered, label=label)
    left.set(xscale="log", xlabel="Burst (packets)", ylabel="Delivered packets (ratio)",
             ylim=(0, 1.05))  # fmt: skip
    modes = list(dict.fromkeys(each.mode for each in found))
    right.bar(range(len(modes)), [
        max(each.server_bytes for each in found if each.mode == mode) for mode in modes
    ])  # fmt: skip
    right.set_xticks(range(len(modes)), [mode.replace(" ", "\n") for mode in modes])
    right.set(ylabel="RDMA traffic (B/packet)")
    plots.legend(left)
    return figure


def caption(options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    return (
        f"Remote memory, {options.time} time. (a) Packets of a burst that are delivered; the burst "
        f"arrives at {SLOWER} times the rate of the link, whose queue has room for {QUEUE} packets."
        " (b) Traffic between switch and server per packet of 64 bytes, in both directions."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
