"""Described networks: the format-independent result of the readers, and its Mininet topology."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any, Protocol

import finsy as fy
from mininet.topo import Topo

from telemark.errors import TestbedError
from telemark.network import Network

GRPC_PORT = 50051  # of the first switch, as tutorials count; device ids begin at 0


class TablePopulation(Protocol):
    """What is written into a switch before the network is used: a file of table entries, say."""

    async def write(self, switch: fy.Switch, net: Network) -> list[str]:
        """Write it, over P4Runtime; return what there is to tell of it. Raises TestbedError."""


@dataclass(frozen=True)
class Task:
    """A command that runs at a host from `at_s` seconds after the network's start on."""

    at_s: float
    command: str


@dataclass(frozen=True)
class Host:
    """A host with one link.

    `neighbours` are IPv4 addresses with the MAC addresses that the host knows them to have; the
    others it finds by ARP. `commands` run in its shell, one after the other, once it is up.
    """

    name: str
    address: IPv4Interface
    mac: str
    gateway: str | None = None  # IPv4 address
    neighbours: Mapping[str, str] = field(default_factory=dict)
    commands: Sequence[str] = ()
    tasks: Sequence[Task] = ()
    interface: str = "eth0"  # its name


@dataclass(frozen=True)
class Switch:
    """A switch, and what it is to hold at first; without fillings a controller is to come."""

    name: str
    device_id: int
    grpc_port: int
    program: Path  # P4 source
    fillings: Sequence[TablePopulation] = ()
    options: Sequence[str] = ()  # of `minip4 switch`


@dataclass(frozen=True)
class Link:
    """A link; its ends have properties of telemark.topology.links. A port of None is the next one.

    `properties1` hold for what node1 sends into it.
    """

    node1: str
    node2: str
    port1: int | None = None
    port2: int | None = None
    properties1: Mapping[str, Any] = field(default_factory=dict)
    properties2: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DescribedNetwork:
    """All of it; `told` are lines for the user: units that were carried over, and what was not.

    `scripts` are commands that run beside the network, from when it is up, until it ends: its
    controllers, say.
    In `compiled`, a folder, controllers of theirs look for the program that a switch without
    fillings runs: NAME.json and NAME.p4.p4info.txtpb. They expect `folders`, too, to write into.
    """

    folder: Path  # where commands of hosts run, and what relative paths are relative to
    hosts: Sequence[Host]
    switches: Sequence[Switch]
    links: Sequence[Link]
    told: Sequence[str] = ()
    scripts: Sequence[str] = ()
    compiled: Path | None = None
    folders: Sequence[Path] = ()


class DescribedTopo(Topo):
    """Hosts whose interface has the name, and who know of the others, what the description says."""

    def build(self, network: DescribedNetwork) -> None:
        """Called by Topo with what the constructor got. Raises TestbedError."""
        _check_hosts(network)
        for switch in network.switches:
            self.addSwitch(
                switch.name, dpid=f"{switch.device_id:x}", grpc_port=switch.grpc_port,
                pushes_back=True,
            )  # fmt: skip
        for host in network.hosts:
            route = {} if host.gateway is None else {"defaultRoute": f"via {host.gateway}"}
            self.addHost(
                host.name, ip=str(host.address), mac=host.mac, neighbours=dict(host.neighbours),
                **route,
            )  # fmt: skip
        interfaces = {host.name: host.interface for host in network.hosts}
        for link in network.links:
            names = {"intfName1": link.node1, "intfName2": link.node2}
            self.addLink(
                link.node1, link.node2, port1=link.port1, port2=link.port2,
                params1=dict(link.properties1), params2=dict(link.properties2),
                **{key: interfaces[node] for key, node in names.items() if node in interfaces},
            )  # fmt: skip


def _check_hosts(network: DescribedNetwork) -> None:
    """Each host has one link: its interface has one name, and its switch one address for it."""
    ends = Counter(node for link in network.links for node in (link.node1, link.node2))
    for host in network.hosts:
        if ends[host.name] != 1:
            raise TestbedError(f"host {host.name} has {ends[host.name]} links: expected one")
