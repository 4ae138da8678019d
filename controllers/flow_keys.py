"""Match keys for flows in the watch lists of switches.

A flow key has two prefixes, a protocol and two ports. A field that is None matches anything.
"""

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Protocol

import finsy as fy


class FlowKey(Protocol):
    """Fields of a flow key. Addresses may be prefixes such as `10.1.0.0/16`."""

    @property
    def src_addr(self) -> str: ...
    @property
    def dst_addr(self) -> str: ...
    @property
    def protocol(self) -> int | None: ...
    @property
    def src_port(self) -> int | None: ...
    @property
    def dst_port(self) -> int | None: ...


def networks(flow: FlowKey) -> tuple[IPv4Network | IPv6Network, IPv4Network | IPv6Network]:
    """Return the source and destination networks. Raises ValueError."""
    return ip_network(flow.src_addr), ip_network(flow.dst_addr)


def known_bits(flow: FlowKey) -> int:
    """Return how many key bits are not wildcards.

    If several entries match a packet, the entry with the most such bits applies.
    """
    return (
        sum(network.prefixlen for network in networks(flow))
        + 8 * (flow.protocol is not None)
        + 16 * sum(port is not None for port in (flow.src_port, flow.dst_port))
    )


def match(flow: FlowKey, header: str, protocol: str) -> fy.Match:
    """Return the ternary key for a watch list.

    `header` and `protocol` are names in the P4 program.
    """
    src, dst = networks(flow)
    values = {
        f"hdr.{header}.src_addr": src,
        f"hdr.{header}.dst_addr": dst,
        f"hdr.{header}.{protocol}": flow.protocol,
        "hdr.ports.src_port": flow.src_port,
        "hdr.ports.dst_port": flow.dst_port,
    }
    # P4Runtime leaves out key fields that match anything.
    return fy.Match({k: v for k, v in values.items() if v not in OPEN})


OPEN = (None, ip_network("0.0.0.0/0"), ip_network("::/0"))
