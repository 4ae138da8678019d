"""Session of a switch with a queue pair of a collector. P4: p4src/roce/.

Subclasses of QueuePair define which data the switch writes, and where in the region it writes them.
"""

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Protocol

import finsy as fy

SESSIONS = 256


class Peer(Protocol):
    """Parameters of the switch, which is the peer of the collector's queue pair."""

    @property
    def address(self) -> str: ...
    @property
    def qpn(self) -> int: ...
    @property
    def psn(self) -> int: ...


class Target(Protocol):
    """A queue pair of the collector, and its memory region."""

    @property
    def address(self) -> str: ...
    @property
    def qpn(self) -> int: ...
    @property
    def rkey(self) -> int: ...
    @property
    def base(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def path_mtu(self) -> int: ...
    @property
    def transport(self) -> enum.Enum: ...


def mac_of(peer: Peer) -> str:
    """Return the MAC address of a switch as a peer. It is derived from the IP address."""
    low = int(ip_address(peer.address)) & 0xFFFFFFFF
    return "06:00:" + ":".join(f"{byte:02x}" for byte in low.to_bytes(4, "big"))


@dataclass(frozen=True)
class QueuePair(ABC):
    """A session of a switch with a queue pair of the collector at `host`.

    `number`, 1 to 255, is unique among the queue pairs that a switch writes to. One of `ack_every`
    requests (a power of 2) asks for an ACK. If there is no response to `patience` requests, the
    switch asks the collector for the expected PSN; 0 means never.

    Raises ValueError for invalid parameters.
    """

    number: int
    host: str
    peer: Peer
    target: Target
    version: int = 2  # RoCE version
    ack_every: int = 64
    patience: int = 256

    def __post_init__(self) -> None:
        problem = self._problem_of_queue_pair() or self._problem()
        if problem:
            raise ValueError(f"session {self.number} with {self.host}: {problem}")

    @property
    @abstractmethod
    def has_atomics(self) -> bool:
        """True if the session uses RDMA FETCH ADD instead of RDMA WRITE."""

    @property
    def slots(self) -> int:
        """Number of slots of the ring, or 0 if there is no ring.

        The PSN of a record determines its slot.
        """
        return 0

    @property
    def mac(self) -> str:
        """MAC address of the switch in this session."""
        return mac_of(self.peer)

    @property
    def is_reliable(self) -> bool:
        """True if the collector acknowledges requests."""
        return self.target.transport.name == "RC"

    def entries(self, collector_mac: str) -> list[fy.P4TableEntry]:
        """Return the table entries.

        `collector_mac` is the MAC address of the collector or of the next router.
        """
        number = fy.Match({"session": self.number})
        return [
            fy.P4TableEntry("collectors", match=number, action=self._ends(collector_mac)),
            fy.P4TableEntry("queue_pairs", match=number, action=self._queue_pair()),
            self._answers(),
        ]

    def _ends(self, collector_mac: str) -> fy.Action:
        macs = {"src_mac": self.mac, "dst_mac": collector_mac}
        if self.version == 1:
            gids = {"src_gid": _gid(self.peer.address), "dst_gid": _gid(self.target.address)}
            return fy.Action("over_v1", **macs, **gids)
        # ports from 0xC000 on provide entropy for load balancing (A17.4.6)
        source_port = 0xC000 | self.number
        over = "over_v2" if ip_address(self.peer.address).version == 4 else "over_v2_ipv6"
        return fy.Action(over, **macs, src_addr=self.peer.address,
                         dst_addr=self.target.address, src_port=source_port)  # fmt: skip

    def _queue_pair(self) -> fy.Action:
        target = self.target
        common = {
            "qpn": target.qpn, "rkey": target.rkey, "base": target.base,
            "length": target.length, "patience": self.patience if self.is_reliable else 0,
        }  # fmt: skip
        if self.has_atomics:
            return fy.Action("fetch_add", **common)
        return fy.Action("write", **common, unreliable=int(not self.is_reliable),
                         ack_mask=self.ack_every - 1, **self._ring())  # fmt: skip

    def _ring(self) -> dict[str, int]:
        """Return the parameters that the ring adds to the action `write`."""
        return {}

    def _answers(self) -> fy.P4TableEntry:
        key = {
            "version": self.version, "hdr.bth.dst_qp": self.peer.qpn,
            "src_gid": _gid(self.target.address), "dst_gid": _gid(self.peer.address),
        }  # fmt: skip
        action = fy.Action("answer", session_number=self.number, slots_of_ring=self.slots)
        return fy.P4TableEntry("answers", match=fy.Match(key), action=action)

    def _problem(self) -> str:
        """Return why the region is unsuitable; "" if it is suitable."""
        return ""

    def _problem_of_queue_pair(self) -> str:
        if not 1 <= self.number < SESSIONS:
            return f"expected numbers 1 to {SESSIONS - 1}"
        if self.version not in (1, 2):
            return f"RoCE version {self.version}: expected 1 or 2"
        here, there = (ip_address(end.address) for end in (self.peer, self.target))
        if self.version == 2 and here.version != there.version:
            return f"{here} and {there}: expected addresses of one IP version"
        if problem := not_a_period("ack_every", self.ack_every):
            return problem
        if 0 < self.patience < 2 * self.ack_every and not self.has_atomics:
            return (f"patience {self.patience}: expected 0, or at least twice ack_every "
                    f"({self.ack_every})")  # fmt: skip
        if self.has_atomics and not self.is_reliable:
            return "counters need a reliable connection: UC has no atomics"
        return ""


def not_a_period(what: str, every: int) -> str:
    """Return an error message if `every` is no power of two or is too large; else ""."""
    if every.bit_count() != 1 or every > 1 << 24:
        return f"{what} {every}: expected a power of 2 up to 2^24"
    return ""


def _gid(address: str) -> int:
    """Return an address as a GID. An IPv4 address has the form ::ffff:a.b.c.d."""
    parsed = ip_address(address)
    return int(IPv6Address(f"::ffff:{parsed}") if isinstance(parsed, IPv4Address) else parsed)
