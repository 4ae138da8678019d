"""Network descriptions in a common format, which all readers return, and their Mininet topology."""

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

GRPC_PORT = 50051  # TCP port of the first switch, as in the tutorials; device ids start at 0


class TablePopulation(Protocol):
    """Initial state of a switch, such as a file of table entries."""

    async def write(self, switch: fy.Switch, net: Network) -> list[str]:
        """Write the state over P4Runtime; return messages for the user. Raises TestbedError."""


@dataclass(frozen=True)
class Task:
    """A command that starts on a host `at_s` seconds after the network has started."""

    at_s: float
    command: str


@dataclass(frozen=True)
class Host:
    """A host with one link.

    `neighbours` are static ARP entries: a map from IPv4 to MAC address. `commands` run sequentially
    in the host's shell after its start.
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
    """A switch and its initial table entries; a switch without entries waits for a controller."""

    name: str
    device_id: int
    grpc_port: int
    program: Path  # P4 source
    populations: Sequence[TablePopulation] = ()
    options: Sequence[str] = ()  # options of `minip4 switch`


@dataclass(frozen=True)
class Link:
    """A link, with properties of telemark.topology.links per direction.

    If a port is None, the next free port is used. `properties1` apply to traffic that node1 sends.
    """

    node1: str
    node2: str
    port1: int | None = None
    port2: int | None = None
    properties1: Mapping[str, Any] = field(default_factory=dict)
    properties2: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DescribedNetwork:
    """A network description; `messages` inform the user of converted units and unsupported parts.

    `scripts` are commands, such as controllers, that run alongside the network. Telemark writes the
    programs of switches without table entries into the folder `compiled` (NAME.json,
    NAME.p4.p4info.txtpb), where the user's controllers read them. Telemark also creates `folders`,
    into which the user's controllers write.
    """

    folder: Path  # working directory of host commands; other relative paths are relative to it
    hosts: Sequence[Host]
    switches: Sequence[Switch]
    links: Sequence[Link]
    messages: Sequence[str] = ()
    scripts: Sequence[str] = ()
    compiled: Path | None = None
    folders: Sequence[Path] = ()


class DescribedTopo(Topo):
    """Mininet topology of a network description, with its interface names and static neighbours."""

    def build(self, network: DescribedNetwork) -> None:
        """Build the topology; called by Topo. Raises TestbedError."""
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
    """Check that each host has one link, because it has only one interface name and address."""
    ends = Counter(node for link in network.links for node in (link.node1, link.node2))
    for host in network.hosts:
        if ends[host.name] != 1:
            raise TestbedError(f"host {host.name} has {ends[host.name]} links: expected one")
