"""A description of traffic gives the same packets at the same times in real and virtual time."""

import json
from pathlib import Path
from typing import Any

import pytest
from loaded import StartExperiment

HEAD = f"""
import asyncio
from pathlib import Path

import numpy as np
from mininet.topo import Topo
from scapy.layers.inet import ICMP, IP
from scapy.layers.l2 import Ether
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.network import Network
from telemark.results.report import Check
from telemark.traffic.patterns import OnOff, Poisson, heavy_tailed
from telemark.traffic.flows import Flow, Schedule, Traffic

PROGRAM = {str(Path(__file__).parents[1] / "programs" / "wire.p4")!r}

class Wire(Topo):
    def build(self):
        switch = self.addSwitch("s1")
        self.addLink(self.addHost("h1"), switch)
        self.addLink(switch, self.addHost("h2"))
"""

PATTERNS = """
flows = [
    Flow(1, "h1", "h2", rate_pps=1000, count=300, dscp=9, ttl=7),
    Flow(2, "h2", "h1", rate_pps=1000, count=300, size=900, pattern=Poisson()),
    Flow(3, "h1", "h2", rate_pps=2000, count=300, pattern=OnOff(on_s=0.01, off_s=0.02)),
    *heavy_tailed([("h1", "h2")] * 5, flows_per_s=50, mean_count=20, rate_pps=2000, seed=run.seed,
                  first_id=10),
]
with Network(Wire(), run, program=PROGRAM) as net:
    async with Traffic(net, flows) as traffic:
        start_ns, records = traffic.start_ns, await traffic.finish()
checks = PacketAccounting.from_network(net, records).checks()
came = pcap.read(net.capture("s1", "h1", "in")).bytes
ports = came[:, 36].astype(int) << 8 | came[:, 37]
ttls = {flow.port: sorted({*came[ports == flow.port, 22].tolist()}) for flow in flows}
metrics = {"ttls": ttls, "counts": [flow.count for flow in flows], "received": [], "due": [],
           "late": []}
for flow in flows:
    sent, schedule = records[flow.id].sent, Schedule.from_flow(flow, net.seed)
    due = (np.arange(flow.count) * 1e9 / flow.rate_pps if schedule.due_ns is None
           else schedule.due_ns.astype(float)).astype(np.int64)
    late = sent["sent_ns"].astype(np.int64) - start_ns - schedule.after_ns - due
    metrics["received"].append(len(records[flow.id].received))
    metrics["due"].append([schedule.after_ns, *due])
    metrics["late"] += [late.min(), np.median(late)]
return Report(samples=[], checks=checks, metrics=metrics)
"""

SUBNETS = """
class Subnets(Topo):
    def build(self):
        switch = self.addSwitch("s1")
        self.addLink(self.addHost("h1", ip="10.0.1.1/24"), switch)
        self.addLink(switch, self.addHost("h2", ip="192.168.0.1/30"))

flows = [Flow(1, "h1", "h2", rate_pps=1000, count=20), Flow(2, "h2", "h1", rate_pps=1000, count=20)]
with Network(Subnets(), run, program=PROGRAM) as net:
    async with Traffic(net, flows) as traffic:
        records = await traffic.finish()
addresses = [(net.host(name).IP(), net.host(name).MAC()) for name in ("h1", "h2")]
received = [len(records[number].received) for number in (1, 2)]
checks = PacketAccounting.from_network(net, records).checks()
return Report([], checks, {"to": addresses, "received": received})
"""

FRAMES = """
def ping(number):
    return bytes(Ether(src="00:00:00:00:00:01", dst="00:00:00:00:00:02")
                 / IP(src="10.0.0.1", dst="10.0.0.2") / ICMP(id=7, seq=number) / (b"x" * number))

async def answers(name, times_ns, frames):
    with Network(Wire(), run, program=PROGRAM, name=name) as net:
        start_ns = run.clock.now_ns() + 50_000_000
        net.send_frames("h1", [start_ns + time_ns for time_ns in times_ns], frames)
        port, answers = str(net.port("s1", "h1")), 0
        while answers < len(frames):
            await asyncio.sleep(0.001)
            answers = net.switch("s1").read_counters()["ports"][port]["transmitted_packets"]
    arrived_ns = pcap.read(net.capture("s1", "h1", "in")).time_ns.astype(int)
    late_ns.append(int((arrived_ns - start_ns - times_ns).min()))
    sent_ns, sent = pcap.read_frames(net.capture("s1", "h1", "in"))
    assert sent == frames
    answered = pcap.read_frames(net.capture("s1", "h1", "out"))[1]
    return sent_ns, [frame[34:35].hex() + frame[40:42].hex() for frame in answered], net

late_ns = []
times_ns = [0, 0, 1_000_000, 50_000_000, 50_000_001, 200_000_000]
first_ns, first, net = await answers("first", times_ns, [ping(n) for n in range(6)])
recorded = pcap.read_frames(net.capture("s1", "h1", "in"))
again_ns, again, _ = await answers("again", *recorded)
checks = [Check("pings without answer", 12 - len(first) - len(again), 0)]
return Report(samples=[], checks=checks, metrics={
    "first": first, "again": again, "first_late_ns": late_ns[0], "again_late_ns": late_ns[1],
    "gaps_ns": [a - b for a, b in zip((*first_ns, *again_ns), (*times_ns, *first_ns))],
})
"""


def measure(start: StartExperiment, body: str, folder: Path, *options: str) -> dict[str, Any]:
    process = start(body, "--out", str(folder), *options, head=HEAD)
    output, errors = process.communicate()
    assert process.returncode == 0, output + errors
    metrics: dict[str, Any] = json.loads((folder / "summary.json").read_text())["metrics"]
    return metrics


def test_flows_have_the_same_schedules(start_experiment: StartExperiment, tmp_path: Path) -> None:
    real = measure(start_experiment, PATTERNS, tmp_path / "real")
    virtual = measure(start_experiment, PATTERNS, tmp_path / "virtual", "--time", "virtual")
    assert real["counts"] == virtual["counts"] == real["received"] == virtual["received"]
    assert real["due"] == virtual["due"]
    ttls = {str(5000 + number): [7 if number == 1 else 64] for number in (1, 3, *range(10, 15))}
    # Flow 2 has no packets here, because they arrived by the other port.
    assert real["ttls"] == virtual["ttls"] == ttls | {"5002": []}
    assert set(virtual["late"]) == {0}
    assert min(real["late"]) >= 0  # a loaded machine may send late, but never early


@pytest.mark.parametrize("time", ["real", "virtual"])
def test_hosts_of_different_subnets_reach_each_other(
    start_experiment: StartExperiment, tmp_path: Path, time: str
) -> None:
    metrics = measure(start_experiment, SUBNETS, tmp_path / "out", "--time", time)
    addresses = [["10.0.1.1", "00:00:00:00:00:01"], ["192.168.0.1", "00:00:00:00:00:02"]]
    assert metrics == {"to": addresses, "received": [20, 20]}


def test_frames_as_they_are_and_captures(start_experiment: StartExperiment, tmp_path: Path) -> None:
    """Frames that a test builds and frames of a capture get the same replies in both modes.

    A host sends six pings, and then replays the capture of these pings. The other host replies to
    all of them.
    """
    real = measure(start_experiment, FRAMES, tmp_path / "real")
    virtual = measure(start_experiment, FRAMES, tmp_path / "virtual", "--time", "virtual")
    answers = [f"00{number:04x}" for number in range(6)]  # echo replies, by sequence number
    for metrics in (real, virtual):
        assert metrics["first"] == metrics["again"] == answers
    assert set(virtual["gaps_ns"]) == {virtual["first_late_ns"], virtual["again_late_ns"]} == {0}
    # The frames are never early. They are late only on a loaded machine.
    assert min(real["first_late_ns"], real["again_late_ns"]) >= 0


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        ('[2, 1], [b"x" * 60] * 2', "ascending time"),
        ('[1], [b"x" * 60] * 2', "ascending time"),
        ('[1, 2], [b"x" * 60, b"x" * 1515]', "frame 2 has 1515 bytes: expected 14 to 1514 for Net"),
        ('[1], [b"short"]', "frame 1 has 5 bytes"),
    ],
)
def test_frames_that_cannot_be_sent_are_refused(
    frames: str, words: str, start_experiment: StartExperiment
) -> None:
    body = f"""
with Network(Wire(), run, program=PROGRAM) as net:
    net.send_frames("h1", {frames})
"""
    process = start_experiment(body, "--time", "virtual", head=HEAD)
    _output, errors = process.communicate()
    assert process.returncode == 2
    assert words in errors
