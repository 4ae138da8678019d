"""Rules of the DDoS filter: match fields, and format in maps."""

import socket
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network

import numpy as np
from numpy.typing import NDArray

TCP, UDP = socket.IPPROTO_TCP, socket.IPPROTO_UDP
MAPPED = 0xFFFF << 32  # ::ffff:0:0/96: prefix of IPv4 addresses that are mapped into IPv6
TUPLE = np.dtype(
    [("source", "u1", 16), ("destination", "u1", 16), ("source_port", ">u2"),
     ("destination_port", ">u2"), ("protocol", "u1"), ("is_fragment", "u1"), ("mask", "u2")]
)  # fmt: skip

Network = IPv4Network | IPv6Network


class Action(Enum):
    """Action of a rule. The numbers are those of ddos_filter.bpf.c."""

    DROP = 1
    PASS = 2
    REPEAT = 3  # passes TCP SYNs only when they are retransmitted (openings.h)


class Kind(Enum):
    """Kinds of rules, in the order in which they are looked up."""

    TUPLE = "tuple"
    PREFIX = "prefix"
    PORT = "port"


@dataclass(frozen=True)
class Rule:
    """Match fields of a rule. None matches any value.

    Two rules with the same match fields are equal.

    Ports are those of TCP, UDP and similar protocols. Only the first fragment of a packet has
    ports. Raises ValueError if the rule would match all packets, or no packet.
    """

    source: Network | None = None
    destination: Network | None = None
    source_port: int | None = None
    destination_port: int | None = None
    protocol: int | None = None
    is_fragment: bool | None = None
    action: Action = field(default=Action.DROP, compare=False)

    def __post_init__(self) -> None:
        matched = [getattr(self, each.name) for each in fields(self) if each.name != "action"]
        if all(each is None for each in matched):
            raise ValueError("the rule matches every packet; set an address, a port, ...")
        for port in (self.source_port, self.destination_port):
            if port is not None and not 0 <= port < 65536:
                raise ValueError(f"port {port}: expected 0 to 65535")
        if self.protocol is not None and not 0 <= self.protocol < 256:
            raise ValueError(f"protocol {self.protocol}: expected 0 to 255")
        ends = [each.version for each in (self.source, self.destination) if each is not None]
        if len({*ends}) > 1:
            raise ValueError(f"source {self.source} and destination {self.destination}: one is "
                             "IPv4, the other IPv6")  # fmt: skip

    @cached_property
    def kind(self) -> Kind:
        """Return the kind of the rule: only a source, only one port of TCP or UDP, or any other."""
        of = {each.name for each in fields(self)
              if each.name != "action" and getattr(self, each.name) is not None}  # fmt: skip
        if of == {"source"}:
            return Kind.PREFIX
        if self.protocol in (TCP, UDP) and of in (
            {"protocol", "source_port"}, {"protocol", "destination_port"}
        ):  # fmt: skip
            return Kind.PORT
        return Kind.TUPLE

    @cached_property
    def mask(self) -> bytes:
        """Return the mask of this rule's tuple for the filter's maps.

        All bits that are matched are ones.
        """
        ones = np.zeros(1, TUPLE)
        for name in ("source", "destination"):
            ones[name] = _bytes(_bits(length_of(getattr(self, name))))
        for name in ("source_port", "destination_port", "protocol", "is_fragment"):
            if getattr(self, name) is not None:
                ones[name] = (1 << 8 * TUPLE[name].itemsize) - 1
        return ones.tobytes()

    def tuple_under(self, mask: int) -> bytes:
        """Return this rule's tuple as a map key. `mask` is the number of the rule's mask."""
        wanted = np.zeros(1, TUPLE)
        for name in ("source", "destination"):
            wanted[name] = _bytes(address_of(getattr(self, name)))
        for name in ("source_port", "destination_port", "protocol", "is_fragment"):
            wanted[name] = getattr(self, name) or 0
        wanted["mask"] = mask
        return wanted.tobytes()

    def numbered(self, number: int) -> int:
        """Return the map value of this rule: its number and its action."""
        return number << 2 | self.action.value


def length_of(network: Network | None) -> int:
    """Return the prefix length in IPv6 (0 to 128). IPv4 networks are mapped into IPv6."""
    if network is None:
        return 0
    return network.prefixlen + (96 if network.version == 4 else 0)


def address_of(network: Network | None) -> int:
    """Return the address of a network as an IPv6 number. An IPv4 address is mapped into IPv6."""
    if network is None:
        return 0
    return int(network.network_address) | (MAPPED if network.version == 4 else 0)


def _bits(length: int) -> int:
    return (1 << 128) - (1 << (128 - length))


def _bytes(address: int) -> NDArray[np.uint8]:
    return np.frombuffer(address.to_bytes(16, "big"), np.uint8)
