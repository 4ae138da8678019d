"""Flows whose packets get IOAM options. P4: p4src/ioam/watch.p4."""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

import finsy as fy

from collectors.ioam.options import DexFlag, E2EType, TraceType, node_words
from controllers.flow_keys import known_bits, match, networks
from telemark.errors import TestbedError
from telemark.network import Network

ALL = (1 << 32) - 1  # sampling of all packets
MAX_WORDS = 61  # an IPv6 option has at most 255 bytes: (255 - 10) // 4


@dataclass(frozen=True)
class TraceOption:
    """Trace option with space for the data of `nodes` nodes.

    With `is_active`, the last node of the domain drops the packets (active flag, RFC 9322). With
    `is_loopback`, each transit node sends a copy back to the encapsulating node, which reports it
    (loopback flag). The nodes on the way back need space, too.
    """

    trace_type: TraceType
    nodes: int
    is_incremental: bool = False
    is_active: bool = False
    is_loopback: bool = False

    @property
    def words(self) -> int:
        """Length of the node data list in words of four bytes."""
        return self.nodes * (node_words(self.trace_type) + bool(self.trace_type & TraceType.OPAQUE))

    def problem(self) -> str:
        """Return what is wrong with the option, or an empty string."""
        if not 0 < self.trace_type < 1 << 24 or self.trace_type & TraceType.RESERVED:
            return f"trace type {self.trace_type:#x}: expected 24 bits, not 0, last bit 0"
        if self.is_loopback and self.trace_type != TraceType.HOP_NODE:
            return "loopback: expected trace type HOP_NODE (RFC 9322)"
        if self.nodes < 1:
            return f"{self.nodes} nodes: expected at least 1"
        if self.words > MAX_WORDS:
            return (f"{self.nodes} nodes need {self.words} words; an option has at most "
                    f"{MAX_WORDS}: use fewer nodes or fields")  # fmt: skip
        return ""

    def action(self) -> tuple[str, dict[str, int]]:
        """Return name and parameters of the action that inserts the option."""
        return "insert_trace", {
            "trace_type": int(self.trace_type), "option": int(self.is_incremental),
            "words": self.words, "active": int(self.is_active),
            "loopback": int(self.is_loopback),
        }  # fmt: skip


@dataclass(frozen=True)
class DirectExportOption:
    """DEX option: each node of the domain reports these fields to the collector."""

    trace_type: TraceType
    extensions: DexFlag = DexFlag.FLOW | DexFlag.SEQUENCE

    def problem(self) -> str:
        """Return what is wrong with the option, or an empty string."""
        if not 0 <= self.trace_type < 1 << 24 or self.trace_type & TraceType.RESERVED:
            return f"trace type {self.trace_type:#x}: expected 24 bits, last bit 0"
        if self.extensions & ~(DexFlag.FLOW | DexFlag.SEQUENCE):
            return f"extensions {self.extensions:#x}: expected only FLOW and SEQUENCE"
        return ""

    def action(self) -> tuple[str, dict[str, int]]:
        """Return name and parameters of the action that inserts the option."""
        return "insert_direct_export", {
            "trace_type": int(self.trace_type), "extensions": int(self.extensions)
        }  # fmt: skip


@dataclass(frozen=True)
class IoamFlow:
    """A flow and its IOAM options: `option` and, if `e2e` is not 0, an edge-to-edge option.

    Addresses are IPv6 addresses, and may be prefixes; None matches anything. If a packet matches
    several flows, the most specific flow applies. The encapsulating node inserts options into a
    fraction `share` of the packets. `sources` are the encapsulating nodes. None means the switches
    with a host whose address in `Domain.addresses` matches `src_addr`. With `tunnel_to`, packets
    get an outer IPv6 header (RFC 2473), which ends at this switch. Without it, options are inserted
    in place. The loopback flag needs a tunnel, whose source address is the encapsulating node.

    Raises ValueError for invalid parameters.
    """

    src_addr: str
    dst_addr: str
    protocol: int | None = None
    src_port: int | None = None
    dst_port: int | None = None
    option: TraceOption | DirectExportOption | None = None
    e2e: E2EType = E2EType(0)  # noqa: RUF009 (immutable)
    namespace: int = 0
    share: float = 1.0
    sources: tuple[str, ...] | None = None
    tunnel_to: str | None = None

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise ValueError(f"IOAM flow {self.src_addr} -> {self.dst_addr}: {problem}")

    def _problem(self) -> str:
        if any(network.version != 6 for network in networks(self)):
            return "expected IPv6 addresses"
        if not 0 < self.share <= 1:
            return f"share {self.share}: expected more than 0 and at most 1"
        if not 0 <= self.namespace <= 0xFFFF:
            return f"namespace {self.namespace}: expected 16 bits"
        if not 0 <= self.e2e <= 0xFFFF or self.e2e & 0x0FFF:
            return f"edge-to-edge type {self.e2e:#x}: expected only defined bits"
        if self.option is None and not self.e2e:
            return "set `option` or `e2e`"
        if self.is_loopback and self.tunnel_to is None:
            return "loopback: set `tunnel_to`, so that copies have the address of the first switch"
        return self.option.problem() if self.option else ""

    @property
    def is_loopback(self) -> bool:
        """Whether the option has the loopback flag."""
        return isinstance(self.option, TraceOption) and self.option.is_loopback

    def enters(self, switch: str, hosts: Sequence[str]) -> bool:
        """Return whether a switch inserts the options; `hosts` are the addresses of its hosts."""
        if self.sources is not None:
            return switch in self.sources
        return any(ip_address(host) in ip_network(self.src_addr) for host in hosts)

    def entry(self, number: int) -> fy.P4TableEntry:
        """Return the entry of table `flows` for flow number `number`."""
        name, parameters = self.option.action() if self.option else ("insert_edge_to_edge", {})
        action = fy.Action(
            name, flow=number, namespace_id=self.namespace, e2e_type=int(self.e2e),
            sampling=round(self.share * ALL), **parameters,
        )  # fmt: skip
        return fy.P4TableEntry(
            "flows", match=match(self, "ipv6", "next_header"), priority=known_bits(self) + 1,
            action=action,
        )  # fmt: skip


def check_sources(net: Network, flow: IoamFlow, found: Sequence[str]) -> None:
    """Raise TestbedError if no switch inserts the options of a flow, or ends its tunnel."""
    where = f"IOAM flow {flow.src_addr} -> {flow.dst_addr}"
    if not found:
        raise TestbedError(
            f"{where}: no host of {net.name} has a matching source address; set `sources` to the "
            "switches where the flow enters"
        )
    if flow.tunnel_to and flow.tunnel_to not in net.topo.switches():
        raise TestbedError(
            f"{where}: {net.name} has no switch {flow.tunnel_to}; set `tunnel_to` to a switch"
        )
