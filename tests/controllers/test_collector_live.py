"""The collector under traffic, while a switch process is killed and restarted."""

import json
from pathlib import Path

import pytest
from loaded import StartExperiment

from telemark.errors import IDLE_MACHINE

# The test is valid up to this time of a restart (s) and this delay of packets (us); see
# check_limits().
LONG_S, LIMIT_US = 2, 2**19 // 4
HEAD = """
import asyncio
import time
from controllers.ampm.collector import Collector
from controllers.ampm.records import Point
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Bounds, Hop, Method, WatchedFlow
from controllers.connection import connection, cpu_ports
from controllers.forwarding import forwarding_entries
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.errors import TestbedError
from telemark.network import Network
from telemark.traffic.flows import Flow, Traffic
from topologies.basic import Line
PATH, SCHEDULE, BLOCKS = ("s1", "s2", "s3"), Schedule(2**19), 12

def start_again(switch):
    began_s = time.monotonic()
    switch.stop(deleteIntfs=False)
    switch.start(None)
    switch.wait_ready()
    return time.monotonic() - began_s
"""

RESTART = """
topo = Line()
with Network(
    topo, run, program="p4src/ampm/ampm.p4", switch_options=cpu_ports(topo), capture=False
) as net:
    hops = [Hop(connection(net, n), forwarding_entries(net, n)) for n in PATH]
    flow = WatchedFlow(1, net.host("h1").IP(), net.host("h2").IP(), methods=Method.DOUBLE)
    bounds = Bounds(delay_us=25_000)
    async with Collector({flow: hops}, SCHEDULE, run.clock, bounds=bounds) as collector:
        await collector.watch()
        first = SCHEDULE.block_at(run.clock.now_ns() // 1000) + 3
        count = 500 * (BLOCKS + 1) * SCHEDULE.block_us // 1_000_000
        start_ns = 1000 * (SCHEDULE.start_us(first) - SCHEDULE.block_us // 2)
        async with Traffic(net, [Flow(1, "h1", "h2", 500, count)], start_ns) as traffic:
            reports, restart = [], None
            async for report in collector.blocks(first, first + BLOCKS - 1):
                reports.append(report)
                if len(reports) == 2:
                    restart = asyncio.create_task(asyncio.to_thread(start_again, net.switch("s2")))
            restart_s = await restart
            records = await traffic.finish()
try:
    PacketAccounting.from_network(net, records)
    overloaded = ""
except TestbedError as error:
    overloaded = str(error)
known = [
    {f"{p.switch} {p.name}": r.packets for p, r in report.records[1].items() if r is not None}
    for report in reports
]
problems = [problem for report in reports for problem in report.problems]
return Report([], [Check("ran", 1, 1)], metrics={
    "known": known, "problems": problems, "overloaded": overloaded, "restart_s": restart_s,
    "longest_us": (records[1].received["received_ns"] - records[1].received["sent_ns"]).max() / 1e3,
})
"""


def test_a_killed_switch_is_found_again_and_counts_right(
    start_experiment: StartExperiment, tmp_path: Path
) -> None:
    process = start_experiment(RESTART, "--out", str(tmp_path / "out"), head=HEAD)
    output, errors = process.communicate()
    assert process.returncode == 0, output + errors
    metrics = json.loads((tmp_path / "out" / "summary.json").read_text())["metrics"]
    known = metrics["known"]
    print(*known, *metrics["problems"], sep="\n")
    if metrics["overloaded"]:
        pytest.skip(metrics["overloaded"])
    if metrics["restart_s"] > LONG_S or metrics["longest_us"] > LIMIT_US:
        pytest.fail(
            f"s2 began again after {metrics['restart_s']:.1f} s, packets took up to "
            f"{metrics['longest_us']:.0f} us; {IDLE_MACHINE}"
        )
    unknown = [number for number, block in enumerate(known) if "s2 arrivals" not in block]
    assert 2 in unknown
    assert any(number > 2 and "s2 arrivals" in block for number, block in enumerate(known))
    assert any("s2 restarted" in problem for problem in metrics["problems"])
    for number, block in enumerate(known):
        if number not in unknown:  # links lose no packets in this network
            assert len(set(block.values())) == 1, metrics
