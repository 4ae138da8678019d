"""A described network as a Mininet topology, as class Network takes it."""

from collections import Counter

from mininet.topo import Topo

from importers.network import DescribedNetwork
from telemark.errors import TestbedError


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
