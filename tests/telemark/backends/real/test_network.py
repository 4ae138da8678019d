"""A network in real time: memory for receive rings, and trains (minip4/ports/c/train.h)."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from loaded import StartExperiment

from minip4.ports.driver import ALL_RINGS_BYTES, MAX_RING_BYTES, MIN_RING_BYTES, Workers
from telemark.backends.real.network import receiving_interfaces
from topologies.basic import Line

HEAD = f"""
from telemark.accounting import pcap
from telemark.accounting.packet_accounting import PacketAccounting
from telemark.network import Network
from telemark.traffic.flows import Traffic
from telemark.traffic.tcp import TcpFlow
from topologies.basic import Line

PROGRAM = {str(Path(__file__).parents[2] / "programs" / "wire.p4")!r}
"""


@pytest.mark.parametrize(
    ("target", "wires", "expected"),
    [("minip4", "memory", 2), ("minip4", "veth", 6), ("bmv2", "memory", 12)],
)
def test_interfaces_that_receive_from_the_kernel(target: str, wires: str, expected: int) -> None:
    settings: Any = SimpleNamespace(topo=Line(3), target=target, wires=wires)
    assert receiving_interfaces(settings) == expected


@pytest.mark.parametrize(
    ("interfaces", "ring_bytes"),
    [
        (0, MAX_RING_BYTES),
        (64, MAX_RING_BYTES),
        (100, ALL_RINGS_BYTES // 100),
        (10_000, MIN_RING_BYTES),
    ],
)
def test_interfaces_share_the_memory_for_rings(interfaces: int, ring_bytes: int) -> None:
    workers = Workers(interfaces=interfaces)
    assert workers.ring_bytes == ring_bytes
    workers.close()


@pytest.mark.parametrize("wires", ["memory", "veth"])
def test_tcp_is_sent_in_trains(
    start_experiment: StartExperiment, tmp_path: Path, wires: str
) -> None:
    body = f"""
with Network(Line(switches=2), run, program=PROGRAM, wires={wires!r}) as net:
    async with Traffic(net, [TcpFlow(1, "h1", "h2", size_bytes=20_000_000)]) as traffic:
        records = await traffic.finish()
accounting = PacketAccounting.from_network(net, records)
sockets = {{port["interface"]: port["socket"] for name in net.counters
           for port in net.counters[name]["ports"].values()}}
longest = pcap.read(net.capture("s2", "h2", "out")).length.max()
return Report([], accounting.checks(), {{
    "trains": {{name: each["transmitted_in_trains"] for name, each in sockets.items()}},
    "sent": {{name: each["transmitted_packets"] for name, each in sockets.items()}},
    "longest": int(longest)}})
"""
    process = start_experiment(body, "--out", str(tmp_path / "out"), head=HEAD)
    output, errors = process.communicate()
    assert process.returncode == 0, output + errors
    metrics = json.loads((tmp_path / "out" / "summary.json").read_text())["metrics"]
    assert metrics["longest"] == 1514
    for interface in ("s2-eth2", *(("s1-eth2",) if wires == "veth" else ())):
        # most segments; an acknowledgement that arrives at the same time may separate some
        assert metrics["trains"][interface] > metrics["sent"][interface] / 2
    if wires == "memory":
        assert metrics["trains"]["s1-eth2"] == 0
