"""Edge programs on the hosts of an INT domain.

Edge programs report the same flows as the switches, in the mode INT-XD.
"""

from collections.abc import Mapping
from contextlib import ExitStack

from controllers.flow_keys import known_bits, networks
from controllers.int.domain import Domain
from controllers.int.watch import ALL, Mode, WatchedFlow
from ebpf.edge.postcards import PostcardEdge
from ebpf.edge.watch_list import Key
from telemark.errors import TestbedError
from telemark.network import Network


def edge_node_id(net: Network, host: str) -> int:
    """Return the INT node ID of the edge program on a host.

    The IDs of edge programs follow the IDs of the switches.
    """
    return len(net.topo.switches()) + 1 + net.topo.hosts().index(host)


def postcard_edges(
    net: Network, hosts: Mapping[str, str], domain: Domain, opened: ExitStack
) -> dict[str, PostcardEdge]:
    """Open edge programs at the interfaces of hosts, with the configuration of `domain`.

    `opened` closes the edge programs. They report each sampled packet of the flows with
    Mode.EXPORT. Works only in real time. Raises TestbedError.
    """
    if domain.changes is not None or domain.grouping is not None:
        raise TestbedError("edge programs send one datagram per sampled packet; use a domain "
                           "without changes and grouping")  # fmt: skip
    flows = {_key(flow): _fields(flow) for flow in domain.flows if flow.mode is Mode.EXPORT}
    collector = net.host(domain.collector).IP(), domain.port
    edges = {}
    for host, switch in hosts.items():
        namespace = f"/proc/{net.host(host).pid}/ns/net"
        device = net.interface(host, switch)
        edge = PostcardEdge(device, edge_node_id(net, host), collector, namespace)
        edges[host] = opened.enter_context(edge)
        edge.watch(flows)
    return edges


def _key(flow: WatchedFlow) -> Key:
    return Key(*networks(flow), flow.protocol, flow.src_port, flow.dst_port)


def _fields(flow: WatchedFlow) -> dict[str, int]:
    return {
        "priority": known_bits(flow) + 1, "share": round(flow.share * ALL),
        "instructions": int(flow.instructions),
    }  # fmt: skip
