"""TCP: does the loss per block and direction equal the packets that the links dropped?

A connection is two flows over the same switches, one with the reversed path. Retransmissions and
acknowledgements are counted like all other packets. Runs in real and virtual time.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import asyncio
from itertools import pairwise

import numpy as np

from controllers.ampm.collector import Collector
from controllers.ampm.records import Point
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Bounds, Hop, WatchedFlow
from controllers.connection import connection, cpu_ports
from controllers.forwarding import forwarding_entries
from telemark.accounting import pcap
from telemark.errors import InvalidRunError
from telemark.network import Network
from telemark.results.report import Check, Report
from telemark.session import cli
from telemark.traffic.flows import Traffic
from telemark.traffic.tcp import TcpFlow
from topologies.basic import Line

PATH = ("s1", "s2", "s3")
TCP = 6  # protocol number
FLOW = TcpFlow(1, "h1", "h2", size_bytes=6_000_000, rate_bps=16e6)


async def experiment(options, run):
    schedule, topo = Schedule(2**20), Line(loss_probability=0.02, delay_us=1000)
    with Network(topo, run, program="p4src/ampm/ampm.p4", switch_options=cpu_ports(topo)) as net:
        hops = [Hop(connection(net, name), forwarding_entries(net, name)) for name in PATH]
        h1, h2 = net.host("h1"), net.host("h2")
        there = WatchedFlow(1, h1.IP(), h2.IP(), TCP, dst_port=FLOW.port)
        back = WatchedFlow(2, h2.IP(), h1.IP(), TCP, src_port=FLOW.port)
        flows = {there: hops, back: hops[::-1]}
        async with Collector(
            flows, schedule, run.clock, bounds=Bounds(0, 22_000), metrics=run.metrics
        ) as collector:
            await collector.watch()
            first = schedule.block_at(run.clock.now_ns() // 1000) + 2
            reports = []
            async with Traffic(net, [FLOW], start_ns=1000 * schedule.start_us(first)) as traffic:
                sending = asyncio.create_task(traffic.finish())
                async for report in collector.blocks(first, first + 200):
                    reports.append(report)
                    if sending.done():
                        break
                record = (await sending)[FLOW.id]
    problems = [problem for report in reports for problem in report.problems]
    if problems:
        raise InvalidRunError(problems[0])
    samples: list[dict] = []
    checks = [Check("bytes received", record.received_bytes, FLOW.size_bytes)]
    for flow, path in ((1, PATH), (2, PATH[::-1])):
        for near, far in pairwise(path):
            frames = pcap.read(net.capture(near, far, "lost"))
            colour = frames.bytes[:, 15] >> 2 & 1  # lowest bit of the DSCP
            blocks = schedule.attribute(frames.time_ns.astype(np.int64) // 1000, colour)
            for report in reports:
                points = report.known_records(flow)
                sent = points[Point(near, "departures")].packets
                lost = sent - points[Point(far, "arrivals")].packets
                dropped = int((blocks == report.block).sum())
                samples.append({"from": near, "to": far, "block": report.block, "sent": sent,
                                "lost": lost, "true": dropped})  # fmt: skip
            errors = [s["lost"] - s["true"] for s in samples if (s["from"], s["to"]) == (near, far)]
            checks.append(
                Check(f"{near}-{far}: max loss error per block (packets)", max(map(abs, errors)), 0)
            )
    rtt_ms = record.progress["rtt_us"].max() / 1000
    # single RTTs may be longer than the mean RTT and exceed L / 2
    if rtt_ms > 50 and not all(check.passed for check in checks):
        raise InvalidRunError(f"mean RTT of {rtt_ms:.0f} ms is too long for blocks of 1 s")
    return Report(samples, checks)


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, cli.add_metrics_option)
