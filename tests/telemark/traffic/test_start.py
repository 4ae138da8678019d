"""Start times and ports of traffic are the same in real and virtual time."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from loaded import StartExperiment
from virtual_networks import WIRE, Pair, virtually

from telemark.errors import TestbedError
from telemark.network import Network
from telemark.session.run import Run
from telemark.traffic.flows import Flow, Traffic

HEAD = f"""
import json
import numpy as np
from controllers.connection import connection
from controllers.routing import routing_entries
from telemark.network import Network
from telemark.traffic.flows import Flow, Traffic
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from topologies.leaf_spine import LeafSpine
from topologies.basic import Line
PROGRAM = {str(WIRE)!r}
"""

SPREAD = """
topo = LeafSpine(leaves=2, spines=3)
flows = [Flow(number, "h1", "h2", rate_pps=200, count=4) for number in range(40)]
flows += [Flow(90, "h1", "h2", rate_pps=200, count=4, source_port=7, port=8),
          Flow(91, "h1", "h2", rate_pps=200, count=4, source_port=8, port=7)]
with Network(topo, run, program="p4src/routing/router.p4") as net:
    for name in topo.switches():
        async with connection(net, name) as controller:
            entries = routing_entries(net, name, topo.routes(name))
            await controller.write([+entry for entry in entries])
    async with Traffic(net, flows) as traffic:
        records = await traffic.finish()
spines = [topo.switch("spine", 0, number) for number in range(3)]
ways = {flow.id: [len(pcap.read_flow(net.capture(spine, "s1", "in"), flow).sequence)
                  for spine in spines] for flow in flows}
frames = pcap.read_frames(net.capture("s1", "h1", "in"))[1]
return Report([], PacketAccounting.from_network(net, records).checks(), {
    "ways": ways,
    "ports": sorted({(int.from_bytes(f[34:36], "big"), int.from_bytes(f[36:38], "big"))
                     for f in frames}),
    "recorded": sorted((r.flow.source_port, r.flow.port) for r in records.values()),
    "early": [int(records[0].sent["sent_ns"][0]) < traffic.start_ns],
})
"""


def measure(start: StartExperiment, folder: Path, time: str) -> dict[str, Any]:
    process = start(SPREAD, "--time", time, "--out", str(folder), head=HEAD)
    output, errors = process.communicate()
    assert process.returncode == 0, output + errors
    metrics: dict[str, Any] = json.loads((folder / "summary.json").read_text())["metrics"]
    return metrics


def test_flows_take_the_same_of_several_paths_in_both_kinds_of_time(
    start_experiment: StartExperiment, tmp_path: Path
) -> None:
    """Each flow takes the same one of several paths in real and in virtual time.

    The router selects the path by a hash of addresses and ports, including the source port.
    """
    real, virtual = (
        measure(start_experiment, tmp_path / time, time) for time in ("real", "virtual")
    )
    assert real == virtual
    ports = [[49152 + number, 5000 + number] for number in range(40)]
    assert real["ports"] == real["recorded"] == sorted([*ports, [7, 8], [8, 7]])
    assert real["early"] == [False]
    ways = list(real["ways"].values())
    assert all(sorted(way) == [0, 0, 4] for way in ways)  # each flow uses one spine
    # Expected: 14 of 42 flows per spine, with a standard deviation of 3.
    assert min(sum(way) for way in zip(*ways, strict=True)) >= 5 * 4


def test_without_a_start_traffic_starts_when_all_is_ready(tmp_path: Path) -> None:
    async def main(run: Run) -> None:
        with Network(Pair(), run, program=WIRE) as net:
            start_ns = run.clock.now_ns() + 5_000
            await run.clock.sleep_until(start_ns)
            flows = [Flow(1, "h1", "h2", 1e6, 3), Flow(2, "h2", "h1", 1e6, 2, after_s=1e-6)]
            async with Traffic(net, flows) as traffic:
                assert traffic.start_ns == run.clock.now_ns() == start_ns
                records = await traffic.finish()
        assert list(records[1].sent["sent_ns"] - start_ns) == [0, 1_000, 2_000]
        assert list(records[2].sent["sent_ns"] - start_ns) == [1_000, 2_000]
        assert records[1].flow.source_port == 49153

    virtually(tmp_path, main)


def test_a_start_before_all_processes_are_ready_is_refused(
    start_experiment: StartExperiment,
) -> None:
    body = """
with Network(Line(), run, program=PROGRAM) as net:
    flows = [Flow(n, "h1", "h2", 100, 10, after_s=1 / n) for n in range(1, 21)]
    async with Traffic(net, flows, start_ns=run.clock.now_ns() - 60_000_000) as traffic:
        await traffic.finish()
"""
    process = start_experiment(body, head=HEAD)
    _output, errors = process.communicate()
    assert process.returncode == 2, errors
    told = r"flow 20 of h1: start time is \S+ s too early, before all 20 flows are ready; omit"
    assert re.match(f"example: error: {told} Traffic's start_ns", errors.splitlines()[-1])


@pytest.mark.parametrize("time", ["real", "virtual"])
def test_a_port_that_is_taken_is_named(start_experiment: StartExperiment, time: str) -> None:
    body = """
with Network(Line(), run, program=PROGRAM) as net:
    async with Traffic(net, [Flow(1, "h1", "h2", 100, 10)]):
        async with Traffic(net, [Flow(2, "h1", "h2", 100, 10, port=5001)]):
            pass
"""
    process = start_experiment(body, "--time", time, head=HEAD)
    _output, errors = process.communicate()
    assert process.returncode == 2, errors
    line = errors.splitlines()[-1]
    assert all(word in line for word in ("flow 2", "h2", "port 5001")), line


def test_a_source_port_that_is_taken_is_named(start_experiment: StartExperiment) -> None:
    body = """
with Network(Line(), run, program=PROGRAM) as net:
    async with Traffic(net, [Flow(1, "h2", "h1", 100, 10, port=49154)]):
        async with Traffic(net, [Flow(2, "h1", "h2", 100, 10)]):
            pass
"""
    process = start_experiment(body, head=HEAD)
    _output, errors = process.communicate()
    assert process.returncode == 2, errors
    assert errors.splitlines()[-1] == (
        "example: error: sender of flow 2 at h1, port 49154: source port: Address already in use"
    )


@pytest.mark.parametrize(
    ("flow", "words"),
    [
        (Flow(1, "h2", "h1", 1, 1), "^flow 1: two flows have this id; use unique ids$"),
        (
            Flow(2, "h1", "h2", 1, 1, port=5001),
            "^flows 1 and 2: both use destination port 5001 of h2; set another port$",
        ),
        (
            Flow(2, "h2", "h1", 1, 1, source_port=5001),
            "^flow 2: source port 5001 of h2 is the destination port of flow 1; set another so",
        ),
    ],
)
def test_flows_that_meet_at_a_port_are_refused(tmp_path: Path, flow: Flow, words: str) -> None:
    async def main(run: Run) -> None:
        with Network(Pair(), run, program=WIRE) as net:
            Traffic(net, [Flow(1, "h1", "h2", 1, 1), flow])

    with pytest.raises(TestbedError, match=words):
        virtually(tmp_path, main)
