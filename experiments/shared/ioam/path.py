"""Path of IOAM nodes: P4 switches alternate with Linux routers. Also its traffic."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from mininet.topo import Topo
from numpy.typing import NDArray
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from collectors.ioam.options import E2EType, TraceType
from controllers.ioam.domain import Domain, Namespace, Route, node_id, tunnel_address
from controllers.ioam.flows import DirectExportOption, IoamFlow, TraceOption
from controllers.ioam.linux import LinuxRouter
from telemark.network import Network

SOURCE, DESTINATION = "fd00::1", "fd00::2"
ANY_MAC = "02:00:00:00:ff:01"  # routers accept frames to any MAC address
NAMESPACE = Namespace(123, 0x00C0FFEE, 0x0123_4567_89AB_CDEF)
LINUX_NODE, LINUX_INTERFACE = 100, 1000  # ids of Linux routers begin here
SCHEMA = (0x777, "snapshot")  # opaque state snapshot of Linux routers
PAYLOAD_BYTES = 100
MAX_BURST = 8
KNOWN = TraceType(0xFFF000)  # the twelve defined fields
UNKNOWN = TraceType(0x000FFC)  # the undefined bits 12 to 21
SHORT = TraceType.HOP_NODE | TraceType.INTERFACES
TIMES = TraceType.SECONDS | TraceType.FRACTION | TraceType.TRANSIT_DELAY
ALL_E2E = E2EType.SEQUENCE64 | E2EType.SEQUENCE32 | E2EType.SECONDS | E2EType.FRACTION
EXPORTED = SHORT | TIMES | TraceType.QUEUE_DEPTH | TraceType.NAMESPACE_DATA


@dataclass(frozen=True)
class Kind:
    """A kind of packet: a flow with its own UDP port and its own options."""

    name: str
    option: TraceOption | DirectExportOption
    e2e: E2EType = E2EType(0)  # noqa: RUF009 (immutable)


# The last of five nodes has its data only in its report, so space for four nodes is enough.
KINDS = (
    Kind("all fields", TraceOption(KNOWN, nodes=4), ALL_E2E),
    Kind("undefined fields", TraceOption(UNKNOWN | TraceType.NAMESPACE_DATA, nodes=4)),
    Kind("opaque", TraceOption(SHORT | TraceType.OPAQUE, nodes=6), E2EType.SEQUENCE32),
    Kind("overflow", TraceOption(SHORT | TIMES, nodes=2)),
    Kind("incremental", TraceOption(SHORT | TIMES, nodes=4, is_incremental=True)),
    Kind("direct export", DirectExportOption(EXPORTED)),
)
FIRST_PORT = 5000  # UDP port of the first kind


class TracedPath(Topo):
    """h1 - s1 - r2 - s3 - r4 - s5 - h2. Without `has_linux`, the routers are switches (s2, s4).

    Each switch sK has a host cK, which receives its reports. `rates_bps` are the rates of the links
    after the nodes; the other link parameters apply to the whole path.
    """

    def build(self, *, has_linux: bool, rates_bps: Sequence[float], **link: float) -> None:
        nodes = [self.addHost("h1")]
        for number in range(1, 6):
            is_linux = has_linux and number % 2 == 0
            nodes.append(self.addHost(f"r{number}") if is_linux else self.addSwitch(f"s{number}"))
        self.addLink(*nodes[:2])
        for ends, rate_bps in zip(
            pairwise([*nodes[1:], self.addHost("h2")]), rates_bps, strict=True
        ):
            self.addLink(*ends, rate_bps=rate_bps, **link)
        for switch in self.switches():
            self.addLink(switch, self.addHost(f"c{switch[1:]}"))

    @property
    def path(self) -> list[str]:
        """Nodes between the hosts, in order."""
        return [f"s{n}" if f"s{n}" in self.switches() else f"r{n}" for n in range(1, 6)]

    @property
    def routers(self) -> list[str]:
        """Linux routers."""
        return [name for name in self.path if name.startswith("r")]


@dataclass(frozen=True)
class Packets:
    """Packets of a run: packet N has the IPv6 flow label N."""

    kinds: NDArray[np.int64]  # index into KINDS, for each packet
    due_ns: NDArray[np.int64]  # send times, relative to the first
    frames: Sequence[bytes]


def make_packets(count: int, rate_pps: float, seed: int) -> Packets:
    """Return packets of all kinds, in bursts of 1 to MAX_BURST packets."""
    rng = np.random.default_rng([seed, 0x104])
    kinds = rng.integers(len(KINDS), size=count)
    bursts = rng.integers(1, MAX_BURST + 1, size=count)  # more than needed
    starts = np.concatenate(([0], np.cumsum(bursts)))[:count]
    number = np.searchsorted(starts, np.arange(count), "right") - 1
    due_ns = (starts[number] * 1e9 / rate_pps).astype(np.int64)
    return Packets(kinds, due_ns, [_frame(label, int(kind)) for label, kind in enumerate(kinds)])


def _frame(label: int, kind: int) -> bytes:
    ip = IPv6(src=SOURCE, dst=DESTINATION, fl=label)
    udp = UDP(sport=4000, dport=FIRST_PORT + kind)
    payload = Raw(label.to_bytes(PAYLOAD_BYTES, "big"))
    return bytes(Ether(dst=ANY_MAC, src="02:00:00:00:ff:02") / ip / udp / payload)


def make_domain(net: Network, topo: TracedPath, *, has_tunnel: bool) -> Domain:
    """Return the domain: one flow per kind, and a route along the path."""
    last = topo.path[-1]
    flows = [
        IoamFlow(SOURCE, DESTINATION, 17, dst_port=FIRST_PORT + number, option=kind.option,
                 e2e=kind.e2e, namespace=NAMESPACE.number, tunnel_to=last if has_tunnel else None)
        for number, kind in enumerate(KINDS)
    ]  # fmt: skip
    addresses = [DESTINATION, tunnel_address(net, last)]
    routes = {}
    for switch, after in pairwise([*topo.path, "h2"]):
        if switch in topo.switches():
            mac = None if after in topo.switches() else _mac(net, after, switch)
            routes[switch] = [Route(f"{address}/128", after, mac) for address in addresses]
    return Domain(
        {switch: f"c{switch[1:]}" for switch in topo.switches()}, flows, [NAMESPACE],
        routers=topo.routers, addresses={"h1": SOURCE, "h2": DESTINATION}, routes=routes,
    )  # fmt: skip


def configure_routers(net: Network, topo: TracedPath) -> None:
    """Configure the Linux routers of the path."""
    last = topo.path[-1]
    for before, router, after in zip(topo.path, topo.path[1:], topo.path[2:], strict=False):
        if router in topo.routers:
            device = net.interface(router, after)
            routes = [Route(f"{address}/128", device, ANY_MAC)
                      for address in (DESTINATION, tunnel_address(net, last))]  # fmt: skip
            numbers = linux_ids(router)
            devices = (net.interface(router, before), device)
            LinuxRouter(
                numbers.node, numbers.node,
                dict(zip(devices, (numbers.ingress, numbers.egress), strict=True)), routes,
                [NAMESPACE], SCHEMA, net.host(router).enter(),
            ).configure()  # fmt: skip


@dataclass(frozen=True)
class NodeIds:
    """Ids of a node: its own, and those of the interfaces of the path."""

    node: int
    ingress: int
    egress: int


def linux_ids(router: str) -> NodeIds:
    """Return the ids that configure_routers() sets."""
    number = int(router[1:])
    return NodeIds(LINUX_NODE + number, LINUX_INTERFACE + 2 * number,
                   LINUX_INTERFACE + 2 * number + 1)  # fmt: skip


def ids(net: Network, before: str, node: str, after: str) -> NodeIds:
    """Return the ids of a node of the path."""
    if node.startswith("r"):
        return linux_ids(node)
    return NodeIds(node_id(net, node), net.port(node, before), net.port(node, after))


def _mac(net: Network, host: str, switch: str) -> str:
    """Return the MAC address of the host's interface to a switch."""
    found = net.host(host)
    if host.startswith("r"):
        return str(found.intf(net.interface(host, switch)).MAC())
    return str(found.MAC())


def unix_offset_ns() -> int:
    """Return Unix time minus CLOCK_MONOTONIC, in ns.

    Reads both clocks several times. The smallest difference is that of the two readings with the
    shortest pause between them.
    """
    return -max(time.monotonic_ns() - time.time_ns() for _ in range(10))
