"""Common format of network descriptions, which all readers return, and its Mininet topology."""

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

GRPC_PORT = 50051  # TCP port of the first switch, as in p4lang/tutorials


class TablePopulation(Protocol):
    """Initial state of a switch, e.g. a file of table entries."""

    async def write(self, switch: fy.Switch, net: Network) -> list[str]:
        """Write the state over P4Runtime. Return messages for the user. Raises TestbedError."""


@dataclass(frozen=True)
class Task:
    """A command that starts on a host `at_s` seconds after the start of the network."""

    at_s: float
    command: str


@dataclass(frozen=True)
class Host:
    """A host with one link.

    `neighbours` are static ARP entries, as a map from IPv4 to MAC address. `commands` run one after
    the other in the host's shell, after the shell has started.
    """

    name: str
    address: IPv4Interface
    mac: str
    gateway: str | None = None  # IPv4 address
    neighbours: Mapping[str, str] = field(default_factory=dict)
    commands: Sequence[str] = ()
    tasks: Sequence[Task] = ()
    interface: str = "eth0"  # name of the interface


@dataclass(frozen=True)
class Switch:
    """A switch and its initial table entries. A switch without entries waits for a controller."""

    name: str
    device_id: int
    grpc_port: int
    program: Path  # path of the P4 source
    populations: Sequence[TablePopulation] = ()
    options: Sequence[str] = ()  # options of `minip4 switch`


@dataclass(frozen=True)
class Link:
    """A link. Its properties are those of telemark.topology.links, per direction.

    If a port is None, the next free port is used. `properties1` apply to the traffic that node1
    sends.
    """

    node1: str
    node2: str
    port1: int | None = None
    port2: int | None = None
    properties1: Mapping[str, Any] = field(default_factory=dict)
    properties2: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DescribedNetwork:
    """A network description.

    `messages` inform the user about converted units and unsupported parts.

    `scripts` are commands that run while the network runs, e.g. controllers. If a switch has no
    table entries, Telemark writes its program into the folder `compiled` (NAME.json,
    NAME.p4.p4info.txtpb). The user's controllers read the program there. Telemark also creates
    `folders`, into which the user's controllers write.
    """

    folder: Path  # working directory of commands on hosts; other relative paths start there, too
    hosts: Sequence[Host]
    switches: Sequence[Switch]
    links: Sequence[Link]
    messages: Sequence[str] = ()
    scripts: Sequence[str] = ()
    compiled: Path | None = None
    folders: Sequence[Path] = ()


class DescribedTopo(Topo):
    """Mininet topology of a network description.

    The topology has the interface names and the static neighbours of the description.
    """

    def build(self, network: DescribedNetwork) -> None:
        """Build the topology. Topo calls this method. Raises TestbedError."""
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
    """Check that each host has exactly one link.

    A host has only one interface name and one address.
    """
    ends = Counter(node for link in network.links for node in (link.node1, link.node2))
    for host in network.hosts:
        if ends[host.name] != 1:
            raise TestbedError(f"host {host.name} has {ends[host.name]} links: expected one")
