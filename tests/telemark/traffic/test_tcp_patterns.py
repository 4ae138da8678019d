"""Requests, off periods and flow sizes over TCP are the same in real and virtual time."""

import json
from pathlib import Path

import numpy as np
import pytest
from loaded import StartExperiment
from virtual_networks import WIRE

from telemark.errors import TestbedError
from telemark.traffic.patterns import heavy_tailed_tcp

HEAD = f"""
import numpy as np
from telemark.network import Network
from telemark.traffic.tcp import TcpFlow
from telemark.traffic.flows import Traffic
from telemark.accounting.packet_accounting import PacketAccounting
from topologies.basic import Line
PROGRAM = {str(WIRE)!r}
"""
BOTH = """
talks = TcpFlow(1, "h1", "h2", size_bytes=200, requests=8, response_bytes=30_000, think_s=0.05)
turns = TcpFlow(2, "h2", "h1", duration_s=1.0, on_s=0.25, off_s=0.25, rate_bps=4e6)
with Network(Line(switches=2, delay_us=5000), run, program=PROGRAM) as net:
    async with Traffic(net, [talks, turns]) as traffic:
        records = await traffic.finish()
one, two = records[1], records[2]
asked, answered = one.answers["asked_ns"], one.answers["answered_ns"]
late = (two.received["time_ns"] - np.uint64(two.began_ns)) / 1e9
between = (late > 0.3) & (late < 0.5)
return Report([], PacketAccounting.from_network(net, records).checks(), {
    "answers": len(one.answers), "min_s": one.answered_s.min(),
    "min_think_s": (asked[1:] - answered[:-1]).min() / 1e9,
    "received": [one.received_bytes, two.received_bytes], "in_silence": int(between.sum()),
    "rtt_ms": two.progress["rtt_us"].max() / 1e3,
    "stood_ms": np.diff(two.progress["time_ns"]).max() / 1e6,
})
"""


@pytest.mark.parametrize("time", ["virtual", "real"])
def test_requests_and_silences(
    time: str, start_experiment: StartExperiment, tmp_path: Path
) -> None:
    process = start_experiment(BOTH, "--time", time, "--out", str(tmp_path / "out"), head=HEAD)
    output, errors = process.communicate()
    assert process.returncode == 0, output + errors
    found = json.loads((tmp_path / "out" / "summary.json").read_text())["metrics"]
    assert found["answers"] == 8
    assert found["min_s"] >= 0.01  # one RTT
    assert found["min_think_s"] >= 0.05
    assert found["received"][0] == 8 * 200
    is_right = found["received"][1] == pytest.approx(4e6 / 8 * 0.5, rel=0.1)
    if time == "real" and (found["in_silence"] or not is_right):
        # the sender checks every 10 ms, and the RTT is 10 ms
        stood_ms = max(found["rtt_ms"], found["stood_ms"])
        assert stood_ms < 15, f"{stood_ms:.0f} ms nothing went on; reduce the load on the machine"
    assert found["in_silence"] == 0
    assert is_right, found["received"]


def test_few_connections_carry_most() -> None:
    pairs = [("h1", "h2"), ("h3", "h4")] * 2000
    flows = heavy_tailed_tcp(pairs, flows_per_s=100, mean_bytes=50_000, seed=3, congestion="reno")
    assert [(flow.source, flow.destination) for flow in flows] == pairs
    assert {flow.congestion for flow in flows} == {"reno"}
    assert len({flow.id for flow in flows}) == len(flows)
    sizes = np.sort([flow.size_bytes for flow in flows])
    assert sizes[-len(sizes) // 10 :].sum() > 0.5 * sizes.sum()
    assert sizes[0] >= 50_000 * 0.2 / 1.2  # the minimum of a Pareto distribution with this mean
    gaps = np.diff([flow.after_s for flow in flows])
    assert gaps.mean() == pytest.approx(0.01, rel=0.1)
    assert heavy_tailed_tcp(pairs, flows_per_s=100, mean_bytes=50_000, seed=3) != heavy_tailed_tcp(
        pairs, flows_per_s=100, mean_bytes=50_000, seed=4
    )
    with pytest.raises(TestbedError, match="shape 1: expected above 1"):
        heavy_tailed_tcp(pairs, flows_per_s=1, mean_bytes=1000, seed=1, shape=1)
