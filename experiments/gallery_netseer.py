"""NetSeer: does it report every flow event, and how much traffic do the reports cause?

Flows with sizes of a web search workload pass two switches that run NetSeer. One flow in 50 has no
route. The first link loses one packet in 1000, and its queue is sometimes full. In the middle of
the run, the controller moves half of the flows to a second link. Each switch reports drops, losses,
congestion and path changes to a collector. Captures show the events that took place.

Paper: Zhou, Sun, Liu, Miao, Bai, Li, Zheng, Zhu, Shen, Xi, Zhang, Cai, Zhang and Xu: Flow Event
Telemetry on Programmable Data Plane. SIGCOMM 2020.

Claim: The reports equal those of a model, which computes event detection and group caching from the
captures. If the ring is large enough, the flow of each lost packet is found.

Published: NetSeer aims to discover and record all performance-critical events of the data plane.
Its monitoring traffic is only 0.01 % of all traffic (abstract). This number follows from the rates
of events, which are not in the abstract; so only the coverage is compared.

Differences: The rates of events above are ours; with them, the traffic of events is about 0.01 %. A
P4 program of v1model cannot read packets that a full queue drops. So packets are numbered in front
of the queue, and the next switch notices these drops as losses. There are no pause frames. Notices
to the previous switch are never lost. Each report is a packet of its own, but the paper's switches
send many events in one packet. So only 24 bytes per event count as monitoring traffic. On bmv2, the
links are outside of the switch, so there is no congestion. The trace is short there, so the first
link loses one packet in 100.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from controllers.connection import connections
from experiments.shared.gallery import netseer, traces
from experiments.shared.gallery.netseer import KINDS, Sample
from telemark.network import Network
from telemark.results import plots
from telemark.results.report import Check, Report, Reproduction, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep_seeds

PROGRAM = "p4src/gallery/netseer.p4"
SLOTS, PATHS, EVERY = 1024, 1 << 16, 100
FEW_RING, FEW_SLOTS = 16, 16  # sizes for a run in which packets and flows overwrite each other
RINGS, FULL_RING = (4, 16, 64, 1024), 1024
PACKETS, SMALL_PACKETS, BMV2_PACKETS = 100_000, 20_000, 2_000
# last packets, and their interval, so that the switches notice each loss
LAST_PACKETS, LAST_GAP_NS = 20, 10_000_000
RATES_PPS = {"virtual": 50_000, "real": 5_000, "bmv2": 500}
LOSS_PROBABILITY, BMV2_LOSS_PROBABILITY, UNROUTED = 0.001, 0.01, 50
LOAD = 0.98  # load of the first link, before flows move to the second link
QUEUE_PACKETS, CONGESTED_PACKETS = 40, 25
LEAD_NS, SETTLE_NS = 100_000_000, 500_000_000
SEEDS = 5


def add_options(parser: argparse.ArgumentParser) -> None:
    cli.add_program_option(parser, PROGRAM)


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    is_small = options.quick or options.time == "real"
    rings = (FULL_RING,) if is_small else RINGS
    seeds = [run.seed + number for number in range(1 if is_small else SEEDS)]
    settings = [*((ring, SLOTS, options) for ring in rings), (FEW_RING, FEW_SLOTS, options)]
    results = await sweep_seeds(measure, settings, seeds, run)
    found = [sample for samples in results for sample in samples]
    full = [each for each in found if each.ring == FULL_RING]
    coverage = Reproduction("fraction of flow events that are reported", "abstract", "all",
                            (1.0, 1.0), [each.coverage for each in full])  # fmt: skip
    different, wrong = (sum(getattr(each, name) for each in found)
                        for name in ("different", "wrong_notices"))  # fmt: skip
    return Report(
        samples=[asdict(each) for each in found],
        checks=[
            Check("reports that differ from the model", different, 0),
            Check("notices that differ from the gaps", wrong, 0),
            *coverage.checks(),
        ],
        figure=draw([each for each in found if each.slots == SLOTS]),
        caption=caption(options),
        tables=[summary(full)],
        metrics={"overhead": [each.overhead for each in full]},
        reproductions=[coverage],
    )  # fmt: skip


async def measure(ring: int, slots: int, options: argparse.Namespace, run: Run) -> Sample:
    """Send the trace, and compare the reports with the model."""
    is_bmv2 = run.target == "bmv2"
    is_small = options.quick or options.time == "real"
    packets = BMV2_PACKETS if is_bmv2 else SMALL_PACKETS if is_small else PACKETS
    rate_pps = RATES_PPS["bmv2" if is_bmv2 else options.time]
    stream = traces.workload("web search", packets, run.seed)
    frame_us = 1e6 * LOAD / rate_pps  # transmission time of a frame on the first link
    first = {"loss_probability": BMV2_LOSS_PROBABILITY if is_bmv2 else LOSS_PROBABILITY}
    # never: on bmv2, the links are outside of the switch, so there is no congestion
    congested_us = 10**9
    if not is_bmv2:
        first["rate_bps"] = round(8e6 * stream.lengths[0] / frame_us)
        first["queue_packets"] = QUEUE_PACKETS
        congested_us = round(CONGESTED_PACKETS * frame_us)
    topo = netseer.TwoSwitches(**first)
    defines = {"SLOTS": slots, "PATHS": PATHS, "RING": ring, "EVERY": EVERY,
               "CONGESTED_US": congested_us}  # fmt: skip
    with Network(
        topo, run, program=options.program, defines=defines, name=f"{ring}-{slots}-{run.seed}",
        expected_drops=("ingress", "egress", "no_queue"),
    ) as net:  # fmt: skip
        async with connections(net) as switches:
            await netseer.configure(net, switches)
            frames, is_routed = netseer.make_frames(net, stream, UNROUTED, LAST_PACKETS)
            gaps_ns = np.random.default_rng([run.seed, 2]).exponential(1e9 / rate_pps, packets)
            gaps_ns[-LAST_PACKETS:] = LAST_GAP_NS
            times = run.clock.now_ns() + LEAD_NS + np.cumsum(gaps_ns).astype(np.int64)
            net.send_frames("h1", times.tolist(), frames)
            await run.clock.sleep_until(int(times[packets // 2]))
            await switches["s1"].modify([netseer.route(net, "h3", netseer.SECOND)])
            await run.clock.sleep_until(int(times[-1]) + SETTLE_NS)
    keys = traces.flow_keys(stream)
    given = netseer.Setting([keys[flow] for flow in stream.numbers.tolist()], is_routed, slots,
                            PATHS, ring, EVERY, congested_us)  # fmt: skip
    found = netseer.read_captures(net)
    return netseer.compare(found, netseer.expect(found, given), given, run.seed)


def summary(found: Sequence[Sample]) -> Table:
    """Return a table of event packets and reports, by kind."""
    rows = [
        (kind, *(sum(getattr(each, name).get(kind, 0) for each in found)
                 for name in ("packets", "reports")))
        for kind in KINDS.values()
    ]  # fmt: skip
    return table("Packets with events, and reports", ("event", "packets", "reports"), rows)


def draw(found: Sequence[Sample]) -> Figure:
    """Draw coverage against the size of the ring, and the numbers of event packets and reports."""
    figure, (left, right) = plots.figure(2)
    rings = sorted({each.ring for each in found})
    for name, label in (("coverage", "flow events"), ("losses_found", "lost packets")):
        values = [[getattr(each, name) for each in found if each.ring == ring] for ring in rings]
        plots.median_and_range(left, rings, values, label)
    plots.ring(left, [FULL_RING], [1.0], "published")
    left.set_xscale("log", base=2)
    left.set(xlabel="Ring (packets)", ylabel="Reported (ratio)", ylim=(0, 1.05))
    full = [each for each in found if each.ring == FULL_RING]
    kinds = list(KINDS.values())
    for shift, name, label in ((-0.2, "packets", "packets"), (0.2, "reports", "reports")):
        means = [np.mean([getattr(each, name).get(kind, 0) for each in full]) for kind in kinds]
        right.bar(np.arange(len(kinds)) + shift, means, 0.4, label=label)
    right.set_xticks(range(len(kinds)), [kind.replace(" ", "\n") for kind in kinds])
    right.set(yscale="log", ylabel="Number per run")
    plots.legend(left)
    plots.legend(right)
    return figure


def caption(options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    return (
        f"NetSeer at two switches, {options.time} time. (a) Fraction of the flow events that are "
        "reported, and of the lost packets whose flow is found, by the size of the ring. (b) "
        f"Packets with an event, and reported events, with a ring of {FULL_RING} packets."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
