"""Ports, addresses, gateways and device ids, compared with p4-utils if it is installed."""

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from importers.cli import read
from importers.network import DescribedNetwork
from telemark.backends.real.p4utils.environment import interpreter
from telemark.errors import TestbedError

NETWORKS = 100
SWITCHES = ["s1", "s2", "s3", "s10", "s20", "a", "zz"]
HOSTS = ["h1", "h2", "h3", "h10", "h12", "client", "server", "web", "b7", "h200"]
# script for p4-utils' environment: reads one topology per line, prints its result or null
THEIRS = """
import json, sys
from p4utils.mininetlib.network_API import NetworkAPI

def made(topology):
    net = NetworkAPI()
    net.setLogLevel("critical")
    for host in topology["hosts"]:
        net.addHost(host)
    for switch, options in topology["switches"].items():
        net.addP4Switch(switch)
        if options.get("cpu_port"):
            net.enableCpuPort(switch)
    for node1, node2, options in topology["links"]:
        net.addLink(node1, node2, **options)
    strategy = topology.get("assignment_strategy")
    if strategy:
        getattr(net, strategy)()
    net.auto_assignment()
    found = {"ids": {s: net.getNode(s)["device_id"] for s in topology["switches"]},
             "gateways": {h: net.getNode(h).get("defaultRoute") for h in topology["hosts"]}}
    for _, _, _, link in net.links(withKeys=True, withInfo=True):
        if "sw-cpu" in (link["node1"], link["node2"]):
            found["CPU of " + link["node1"]] = link["port1"]
            continue
        ends = found[link["node1"] + " " + link["node2"]] = []
        for end in "12":
            is_host = net.isHost(link["node" + end])
            address = (link.get("params" + end) or {}).get("ip") if is_host else None
            ends.append([link["port" + end], link["addr" + end] if strategy and is_host else None,
                         address])
    return found

for line in sys.stdin:
    try:
        print(json.dumps(made(json.loads(line))), flush=True)
    except Exception:
        print("null", flush=True)
"""


@pytest.fixture
def p4utils() -> str:
    """Return the interpreter of p4-utils."""
    try:
        return interpreter()
    except TestbedError as error:
        pytest.skip(str(error))


def topology(chance: random.Random) -> dict[str, Any]:
    """Return a topology: each host has one link, and some switches are linked.

    Some links specify their port numbers.
    """
    switches = chance.sample(SWITCHES, chance.randint(1, 5))
    hosts = chance.sample(HOSTS, chance.randint(1, 7))
    pairs = [(host, chance.choice(switches)) for host in hosts]
    pairs += [(a, b) for i, a in enumerate(switches) for b in switches[i + 1 :]
              if chance.random() < 0.5]  # fmt: skip
    links = [[*chance.sample(pair, 2), {}] for pair in chance.sample(pairs, len(pairs))]
    for link in links:
        for end in (1, 2):
            if link[end - 1] in switches and chance.random() < 0.1:
                link[2][f"port{end}"] = chance.randint(1, 7)
    strategy = chance.choice(["l2", "mixed", "l3", None])
    return {
        "hosts": {host: {} for host in hosts},
        "switches": {name: {"cpu_port": chance.random() < 0.3} for name in switches},
        "links": links,
    } | ({"assignment_strategy": strategy} if strategy else {})


def ours(net: DescribedNetwork, *, has_macs: bool) -> dict[str, Any]:
    """Return the values of a network in the format of THEIRS."""
    hosts = {host.name: host for host in net.hosts}

    def end(node: str, port: int | None) -> list[Any]:
        host = hosts.get(node)
        if host is None:
            return [port, None, None]
        return [port or 0, host.mac if has_macs else None, str(host.address)]

    found: dict[str, Any] = {
        "ids": {switch.name: switch.device_id for switch in net.switches},
        "gateways": {name: f"via {host.gateway}" if host.gateway else None
                     for name, host in hosts.items()},
    }  # fmt: skip
    for link in net.links:
        found[f"{link.node1} {link.node2}"] = [
            end(link.node1, link.port1), end(link.node2, link.port2),
        ]  # fmt: skip
    for switch in net.switches:
        if "--cpu-port" in switch.options:
            port = switch.options[switch.options.index("--cpu-port") + 1]
            found[f"CPU of {switch.name}"] = int(port)
    return found


def test_networks_made_by_chance(p4utils: str, tmp_path: Path) -> None:
    chance = random.Random(5)
    topologies = [topology(chance) for _ in range(NETWORKS)]
    done = subprocess.run(
        [p4utils, "-c", THEIRS], input="\n".join(map(json.dumps, topologies)), text=True,
        capture_output=True, check=True, timeout=300, cwd=tmp_path,
    )  # fmt: skip
    path = tmp_path / "p4app.json"
    (tmp_path / "x.p4").touch()
    theirs = [json.loads(line) for line in done.stdout.splitlines() if line[0] in "{n"]
    refused = 0
    for made, expected in zip(topologies, theirs, strict=True):
        path.write_text(json.dumps({"p4_src": "x.p4", "topology": made}))
        if expected is None:
            refused += 1
            with pytest.raises(TestbedError, match="has two links"):
                read(path, None)
        else:
            # otherwise, p4-utils assigns random MAC addresses
            has_macs = "assignment_strategy" in made
            assert ours(read(path, None), has_macs=has_macs) == expected, made
    assert refused < NETWORKS / 10
