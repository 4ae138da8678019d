"""A network of two hosts and two switches: its traffic, ground truth, accounting and errors."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from loaded import StartExperiment

HEAD = f"""
import numpy as np
from mininet.topo import Topo
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.network import Network
from telemark.traffic.flows import Flow, Traffic

PROGRAM = {str(Path(__file__).parent / "programs" / "wire.p4")!r}

class Pair(Topo):
    def build(self, **link):
        s1, s2 = self.addSwitch("s1"), self.addSwitch("s2")
        self.addLink(self.addHost("h1"), s1)
        self.addLink(s1, s2, **link)
        self.addLink(s2, self.addHost("h2"))
"""

MEASURE = """
with Network(Pair(loss_probability=0.05, delay_us=2000), run, program=PROGRAM) as net:
    flows = [Flow(1, "h1", "h2", rate_pps=2000, count=1000, dscp=5),
             Flow(2, "h2", "h1", rate_pps=1000, count=500, size=1400)]
    async with Traffic(net, flows) as traffic:
        records = await traffic.finish()
accounting = PacketAccounting.from_network(net, records)
there, back = records[1], records[2]
out = pcap.read_flow(net.capture("s1", "s2", "out"), flows[0])
lost = pcap.read_flow(net.capture("s1", "s2", "lost"), flows[0])
lost_back = pcap.read_flow(net.capture("s2", "s1", "lost"), flows[1])
delay_us = (there.received["received_ns"] - there.received["sent_ns"]) / 1000
return Report(
    samples=[{"sequence": number} for number in lost.sequence],
    checks=accounting.checks(),
    metrics={
        "sent": len(there.sent), "received": len(there.received), "out": len(out.sequence),
        "dscp": np.unique(out.dscp), "changed": there.dscp_changed,
        "lost": lost.sequence, "lost_by_hosts": there.lost_sequences,
        "lost_back": lost_back.sequence, "lost_back_by_hosts": back.lost_sequences,
        "delay_us": delay_us.min(), "port": net.port("s1", "s2"),
        "interface": net.interface("s2", "s1"), "lost_by_links": accounting.lost_by_links,
        "kernel": net.interface_counters.get("s2-eth1", {}).get("received"),
    },
)
"""


def measure(start: StartExperiment, folder: Path, *arguments: str) -> dict[str, Any]:
    process = start(MEASURE, "--out", str(folder), *arguments, head=HEAD)
    output, errors = process.communicate()
    assert process.returncode == 0, output + errors
    metrics: dict[str, Any] = json.loads((folder / "summary.json").read_text())["metrics"]
    return metrics


def test_books_balance_and_losses_are_known_by_name(
    start_experiment: StartExperiment, tmp_path: Path
) -> None:
    metrics = measure(start_experiment, tmp_path / "a", "--seed", "1")
    assert metrics["sent"] == metrics["out"] == 1000
    assert metrics["dscp"] == [5]
    assert metrics["changed"] == 0
    assert 20 < len(metrics["lost"]) < 100
    assert sorted(metrics["lost"]) == metrics["lost_by_hosts"]
    assert sorted(metrics["lost_back"]) == metrics["lost_back_by_hosts"]
    assert metrics["delay_us"] >= 2000
    assert (metrics["port"], metrics["interface"]) == (2, "s2-eth1")
    assert metrics["lost_by_links"]["s1-eth2"] == len(metrics["lost"])
    assert metrics["lost_by_links"]["s1-eth1"] == 0
    virtual = ("--time", "virtual", "--seed")
    again = measure(start_experiment, tmp_path / "b", *virtual, "1")
    other = measure(start_experiment, tmp_path / "c", *virtual, "2")
    assert again["lost"] == metrics["lost"]  # the same seed loses the same frames
    assert other["lost"] != metrics["lost"]


def test_both_kinds_of_wires_give_the_same_results(
    start_experiment: StartExperiment, tmp_path: Path
) -> None:
    memory, veth = (
        measure(start_experiment, tmp_path / wires, "--seed", "1", "--wires", wires)
        for wires in ("memory", "veth")
    )
    assert memory["kernel"] == 0  # no frame between the switches passed the kernel
    assert veth["kernel"] == 1000 - len(veth["lost"])
    for name in ("lost", "lost_back", "lost_by_hosts", "lost_by_links"):
        assert memory[name] == veth[name]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--time", "virtual"], "--wires: no effect in virtual time"),
        (["--target", "bmv2"], "--wires: no effect on bmv2"),
    ],
)
def test_wires_without_effect_are_refused(
    start_experiment: StartExperiment, arguments: list[str], words: str
) -> None:
    process = start_experiment("pass", *arguments, "--wires", "memory", head=HEAD)
    _output, errors = process.communicate()
    assert process.returncode == 2
    assert words in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize(
    ("network", "words"),
    [
        ("Network(Pair(los=0.1), run, program=PROGRAM)", "link s1-s2: unknown parameter los"),
        ("Network(Pair(loss=101), run, program=PROGRAM)", "link s1-s2: loss 101: expected a perc"),
        (
            "Network(Pair(loss_probability=2), run, program=PROGRAM)",
            "loss_probability: 2: expected",
        ),
        (
            "Network(Pair(), run, program=PROGRAM, wires='memroy')",
            "wires 'memroy': expected memory or veth",
        ),
        ("Network(Pair(), run, program='no/such.p4')", "no P4 program"),
        ("Network(Pair(), run, program=__file__)", "example.py:1:1"),
        (
            "Network(Pair(), run, program=PROGRAM, switch_options={'s2': ['--colour']})",
            "switch s2 exited with status 2",
        ),
        (
            "Network(Pair(), run, program=PROGRAM, switch_options={'s9': []})",
            "switch_options: no switches s9",
        ),
    ],
)
def test_a_network_that_cannot_be_is_refused(
    start_experiment: StartExperiment, network: str, words: str
) -> None:
    process = start_experiment(f"with {network}:\n    pass", head=HEAD)
    _output, errors = process.communicate()
    assert process.returncode == 2, errors
    assert words in errors
    assert "Traceback" not in errors


def test_a_rate_too_high_is_refused(start_experiment: StartExperiment) -> None:
    body = """
with Network(Pair(), run, program=PROGRAM, capture=False) as net:
    flows = [Flow(1, "h1", "h2", rate_pps=20_000_000, count=100_000_000)]
    async with Traffic(net, flows) as traffic:
        await traffic.finish()
"""
    process = start_experiment(body, head=HEAD)
    _output, errors = process.communicate()
    assert process.returncode == 2, errors
    words = "flow 1 of h1: rate too high for this machine: requested 20000000 packets/s, sent"
    assert words in errors
    assert errors.count("\n") == 1


def test_an_interrupt_ends_switches_and_traffic(start_experiment: StartExperiment) -> None:
    body = """
with Network(Pair(), run, program=PROGRAM) as net:
    async with Traffic(net, [Flow(1, "h1", "h2", 10, 10_000)]) as traffic:
        print("sending", run.folder, flush=True)
        await traffic.finish()
"""
    process = start_experiment(body, head=HEAD)
    line = next(line for line in process.stdout if line.startswith("sending"))
    process.send_signal(signal.SIGINT)
    _output, errors = process.communicate()
    assert process.returncode == 130
    assert errors.splitlines() == ["", "example: interrupted"]
    assert not Path(line.split()[1]).exists()


def test_an_interrupt_amid_a_command_of_a_node_is_one(start_experiment: StartExperiment) -> None:
    body = """
with Network(Pair(), run, program=PROGRAM, capture=False) as net:
    print("at a command", flush=True)
    net.switch("s1").cmd("sleep 600")
"""
    process = start_experiment(body, head=HEAD)
    next(line for line in process.stdout if line.startswith("at a command"))
    process.send_signal(signal.SIGINT)
    _output, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors
    assert errors.splitlines() == ["", "example: interrupted"]
