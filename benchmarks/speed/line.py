"""Does a line of switches sustain 100,000 small packets/s, and what does each packet cost?

h1 sends a paced flow to h2 over a line of switches that run an AM-PM program. Every packet must
arrive, the packet accounting must balance, and no kernel may drop a packet. The cost of a switch is
the CPU time of its data-plane thread, including kernel time, per received packet.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from pathlib import Path

import finsy as fy
import numpy as np

from controllers.forwarding import forwarding_entries
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.network import Network
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.traffic.flows import Flow, FlowRecord, Traffic
from topologies.basic import Line

START_NS = 500_000_000  # lead time for the senders


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rate", type=cli.positive_int, default=100_000, metavar="PPS",
        help="packets/s (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--size", type=cli.positive_int, default=64, metavar="BYTES",
        help="frame length without FCS (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--seconds", type=cli.positive_int, metavar="S", help="duration (default: 10)"
    )
    parser.add_argument(
        "--switches", type=cli.positive_int, default=3, metavar="N",
        help="length of the line (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--program", default="p4src/ampm/ampm.p4", metavar="P4",
        help="P4 program of the switches (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--capture", action="store_true", help="capture all ports of all switches")


@dataclass(frozen=True)
class Cost:
    """Packets and CPU time of one switch."""

    switch: str
    packets: int  # received
    cpu_s: float
    cpu_ns_per_packet: float
    kernel_drops: int


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    seconds = options.seconds or (2 if options.quick else 10)
    topo = Line(switches=options.switches, delay_us=0)
    with Network(topo, run, program=options.program, capture=options.capture) as net:
        flow = Flow(1, "h1", "h2", options.rate, options.rate * seconds, options.size)
        await fill_tables(net)
        start_ns = run.clock.now_ns() + START_NS
        async with Traffic(net, [flow], start_ns) as traffic, countdown(run, seconds):
            records = await traffic.finish()
    return report(net, records[flow.id], PacketAccounting.from_network(net, records))


async def fill_tables(net: Network) -> None:
    """Install forwarding entries to both hosts in all switches."""
    for name in net.topo.switches():
        switch = net.switch(name)
        settings = fy.SwitchOptions(
            p4info=switch.p4info_path, p4blob=switch.blob_path, device_id=switch.device_id
        )
        async with fy.Switch(name, switch.grpc_address, settings) as connection:
            await connection.write([+entry for entry in forwarding_entries(net, name)])


@contextlib.asynccontextmanager
async def countdown(run: Run, seconds: int) -> AsyncIterator[None]:
    """Show the remaining time while the traffic flows."""

    async def show_time() -> None:
        for left in range(seconds, 0, -1):
            run.progress.update(f"sending: {left} s left")
            await asyncio.sleep(1)

    task = asyncio.create_task(show_time())
    try:
        yield
    finally:
        task.cancel()


def report(net: Network, record: FlowRecord, accounting: PacketAccounting) -> Report:
    """Compare received with sent packets and report the cost per switch."""
    costs = [cost_of(net, name) for name in net.topo.switches()]
    latency_us = (record.received["received_ns"] - record.received["sent_ns"]) / 1000
    p50, p99, worst = (float(np.percentile(latency_us, q)) for q in (50, 99, 100))
    sent, received = len(record.sent), len(record.received)
    span_s = float(record.sent["sent_ns"][-1] - record.sent["sent_ns"][0]) / 1e9
    summary = table(
        f"{sent:,} frames of {record.flow.size} bytes",
        ("sent, packets/s", "lost", "one-way latency p50, us", "p99, us", "largest, us"),
        [(round((sent - 1) / span_s), sent - received, p50, p99, worst)],
    )
    by_switch = table(
        "Cost by switch",
        ("switch", "packets", "CPU, ns/packet", "CPU, % of a core"),
        [(c.switch, c.packets, c.cpu_ns_per_packet, 100 * c.cpu_s / span_s) for c in costs],
    )
    return Report(
        samples=[asdict(cost) for cost in costs],
        checks=[
            Check("packets sent", sent, record.flow.count),
            Check("packets lost", sent - received, 0),
            Check(
                "packets dropped by the kernel at switches",
                sum(c.kernel_drops for c in costs),
                0,
            ),
            *accounting.checks(),
        ],
        metrics={
            "sent_pps": (sent - 1) / span_s,
            "latency_us": {"p50": p50, "p99": p99, "max": worst},
            "cpu_ns_per_packet": {c.switch: c.cpu_ns_per_packet for c in costs},
        },
        tables=[summary, by_switch],
    )


def cost_of(net: Network, name: str) -> Cost:
    """Return the cost of one switch; the network must have ended."""
    counters = net.counters[name]
    packets = counters["engine"]["received"]
    cpu_ns = counters["driver"]["cpu_ns"]
    drops = sum(sum(port["kernel"].values()) for port in counters["ports"].values())
    return Cost(name, packets, cpu_ns / 1e9, cpu_ns / max(packets, 1), drops)


if __name__ == "__main__":
    cli.main(f"benchmark_{Path(__file__).name}", __doc__, experiment, add_options)
