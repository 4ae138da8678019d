"""Interface of both RoCE endpoints: a responder in software (softnic), or a real stack (verbs).

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
    """Transport of a queue pair: reliable connection (RC), which has ACKs, or unreliable (UC)."""

    RC = "rc"
    UC = "uc"


class Access(enum.IntFlag):
    """Access rights of peers to a region. WRITE includes WRITE WITH IMMEDIATE."""

    WRITE = 1
    ATOMIC = 2


WRITE_AND_ATOMIC = Access.WRITE | Access.ATOMIC


@dataclass(frozen=True)
class Peer:
    """Peer that writes, e.g. a switch. The parameters are those that its queue pair needs."""

    address: str  # IPv4 or IPv6 address; for RoCEv1, the GID in the form ::ffff:10.0.0.1
    qpn: int  # number of the peer's queue pair; responses are sent to it
    psn: int  # PSN of the first packet from the peer

    def __post_init__(self) -> None:
        """Raises TestbedError."""
        gid(self.address)
        for name in ("qpn", "psn"):
            if not 0 <= getattr(self, name) < 1 << 24:
                raise TestbedError(f"{name} {getattr(self, name)}: expected 24 bits")


@dataclass(frozen=True)
class Target:
    """Parameters that a peer must know before it can write to a region."""

    address: str  # see Peer.address
    qpn: int
    psn: int  # PSN of the packet that is expected first
    rkey: int
    base: int  # virtual address of the first byte in the region
    length: int  # length of the region in bytes
    path_mtu: int  # maximum payload of a packet in bytes
    transport: Transport


class Domain(NamedTuple):
    """Registered region in its own protection domain.

    Queue pairs of other domains cannot access it.
    """

    rkey: int
    base: int
    length: int


class Completion(NamedTuple):
    """A WRITE WITH IMMEDIATE that was executed, after all earlier requests of its queue pair."""

    qpn: int
    immediate: int  # immediate value (32 bits), as in the packet
    length: int  # number of bytes that were written


@dataclass
class Counts:
    """Numbers of accepted and rejected packets."""

    accepted: Counter[str] = field(default_factory=Counter)  # accepted packets by operation
    refused: Counter[str] = field(default_factory=Counter)  # rejected packets by reason


class Endpoint(ABC):
    """Endpoint that executes requests of peers. The requests write into registered regions."""

    @abstractmethod
    def register(self, region: Region, access: Access = WRITE_AND_ATOMIC) -> Domain:
        """Claim a region, and return a domain whose queue pairs can access this region.

        Raises TestbedError.
        """

    @abstractmethod
    def connect(
        self, domain: Domain, peer: Peer, *, transport: Transport = Transport.RC,
        access: Access = WRITE_AND_ATOMIC,
    ) -> Target:  # fmt: skip
        """Open a queue pair for a peer. Raises TestbedError."""

    @abstractmethod
    def disconnect(self, qpn: int) -> None:
        """Close a queue pair. Later packets of its peer are rejected. Raises TestbedError."""

    @abstractmethod
    def completions(self) -> list[Completion]:
        """Return the new completions in order. Does not block.

        The number of completions that an endpoint stores is limited. Above this limit, peers on RC
        get RNR NAKs, and packets of peers on UC are rejected.
        """

    @abstractmethod
    def counts(self) -> Counts:
        """Return the numbers of packets since the endpoint was opened."""

    @abstractmethod
    def close(self) -> None:
        """Reject all packets from now on. Regions keep their content."""


def gid(address: str) -> bytes:
    """Return an address as a GID, which has 16 bytes (IBTA A17.4.1). Raises TestbedError."""
    try:
        parsed = ip_address(address)
    except ValueError:
        raise TestbedError(f"address {address!r}: expected IPv4 or IPv6") from None
    if isinstance(parsed, IPv4Address):
        parsed = IPv6Address(f"::ffff:{address}")
    return parsed.packed
