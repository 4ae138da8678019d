"""What both endpoints are: the software responder (softnic) and a real stack (verbs).

region = Region(TCP, 1 << 16, Path("records"))
endpoint = ...                                  # SoftNic or Verbs
domain = endpoint.register(region)
target = endpoint.connect(domain, Peer("10.0.0.1", qpn=0x100, psn=0))
...                                             # a controller gives the target to its switch
for completion in endpoint.completions(): ...
"""

import enum
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

from collectors.roce.region import Region
from telemark.errors import TestbedError


class Transport(enum.Enum):
    """Of a queue pair: reliable connection, which answers, or unreliable connection."""

    RC = "rc"
    UC = "uc"


class Access(enum.IntFlag):
    """What peers may do to a region; WRITE also lets them write with an immediate value."""

    WRITE = 1
    ATOMIC = 2


WRITE_AND_ATOMIC = Access.WRITE | Access.ATOMIC


@dataclass(frozen=True)
class Peer:
    """Who writes, as a switch: all that a queue pair has to know of it."""

    address: str  # IPv4 or IPv6; of RoCEv1 its GID, as ::ffff:10.0.0.1
    qpn: int  # queue pair number, to which answers go
    psn: int  # of its first packet

    def __post_init__(self) -> None:
        """Raises TestbedError."""
        gid(self.address)
        for name in ("qpn", "psn"):
            if not 0 <= getattr(self, name) < 1 << 24:
                raise TestbedError(f"{name} {getattr(self, name)}: expected 24 bits")


@dataclass(frozen=True)
class Target:
    """All that a peer has to know to write."""

    address: str  # as that of Peer
    qpn: int
    psn: int  # of the first packet that is expected
    rkey: int
    base: int  # virtual address of the region's first byte
    length: int  # bytes of the region
    path_mtu: int  # bytes of payload that a packet may have
    transport: Transport


class Domain(NamedTuple):
    """A registered region, in a protection domain of its own: no other queue pair reaches it."""

    rkey: int
    base: int
    length: int


class Completion(NamedTuple):
    """A WRITE WITH IMMEDIATE was carried out, and all that came before it."""

    qpn: int
    immediate: int  # 32 bits, as in the packet
    length: int  # bytes that were written


@dataclass
class Counts:
    """What became of packets."""

    accepted: Counter[str] = field(default_factory=Counter)  # by operation
    refused: Counter[str] = field(default_factory=Counter)  # by reason


class Endpoint(ABC):
    """Takes what peers write into registered regions."""

    @abstractmethod
    def register(self, region: Region, access: Access = WRITE_AND_ATOMIC) -> Domain:
        """Let queue pairs of this domain reach a region, which is claimed. Raises TestbedError."""

    @abstractmethod
    def connect(
        self, domain: Domain, peer: Peer, *, transport: Transport = Transport.RC,
        access: Access = WRITE_AND_ATOMIC,
    ) -> Target:  # fmt: skip
        """Open a queue pair for a peer. Raises TestbedError."""

    @abstractmethod
    def disconnect(self, qpn: int) -> None:
        """Close a queue pair: what its peer still sends is refused. Raises TestbedError."""

    @abstractmethod
    def completions(self) -> list[Completion]:
        """Those that were not taken yet, in order; never waits.

        An endpoint holds a bounded number. Beyond it RC peers are told to try again later
        (RNR NAK), and what UC peers send is refused.
        """

    @abstractmethod
    def counts(self) -> Counts:
        """What became of packets, since it was opened."""

    @abstractmethod
    def close(self) -> None:
        """Refuse all from now on; regions stay as they are."""


def gid(address: str) -> bytes:
    """The 16 bytes of an address as a GID (IBTA A17.4.1). Raises TestbedError."""
    try:
        parsed = ip_address(address)
    except ValueError:
        raise TestbedError(f"address {address!r}: expected IPv4 or IPv6") from None
    if isinstance(parsed, IPv4Address):
        parsed = IPv6Address(f"::ffff:{address}")
    return parsed.packed
