"""Watch lists and access lists of INT switches. P4: p4src/int/watch.p4, ingress.p4."""

from dataclasses import dataclass
from enum import Enum, IntEnum, IntFlag
from ipaddress import ip_address, ip_network

import finsy as fy

from controllers.flow_keys import known_bits, match, networks
from telemark.errors import TestbedError
from telemark.network import Network

UDP = 17
ALL = (1 << 32) - 1  # full sampling


class Instruction(IntFlag):
    """Bits of INT instructions. docs/reference/int.md lists the units."""

    NODE_ID = 0x8000
    LEVEL_1 = 0x4000
    LATENCY = 0x2000
    QUEUE = 0x1000
    INGRESS_TIME = 0x0800
    EGRESS_TIME = 0x0400
    LEVEL_2 = 0x0200
    UTILISATION = 0x0100
    BUFFER = 0x0080
    COMPLEMENT = 0x0001


class Mode(Enum):
    """INT mode of a flow. The values are names of actions of the watch list."""

    DATA = "embed_data"  # INT-MD
    INSTRUCTIONS = "embed_instructions"  # INT-MX
    EXPORT = "export_data"  # INT-XD
    DROPS = "watch_drops"  # reports of drops only


class Mark(IntEnum):
    """Mark that indicates INT in a packet (docs/reference/int.md). A domain uses one mark."""

    DSCP = 0
    PORT = 1
    NEW_UDP = 2
    PROBE = 3


@dataclass(frozen=True)
class WatchedFlow:
    """A flow on the watch list: its match key, and its INT mode.

    Addresses may be prefixes; None matches anything. If a packet matches several flows, the most
    specific flow applies. `max_hops` is the maximum number of switches that push metadata,
    including the source. Switches sample a fraction `share` of the packets. All switches use the
    same hash, so they sample the same packets. `sources` are the switches that embed INT. None
    means the switches with a host whose address matches `src_addr`.

    Raises ValueError for invalid parameters.
    """

    src_addr: str
    dst_addr: str
    protocol: int | None = None
    src_port: int | None = None
    dst_port: int | None = None
    mode: Mode = Mode.DATA
    instructions: Instruction = Instruction.NODE_ID | Instruction.LATENCY | Instruction.QUEUE
    mark: Mark = Mark.DSCP
    max_hops: int = 255
    share: float = 1.0
    sources: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            raise ValueError(f"watched flow {self.src_addr} -> {self.dst_addr}: {problem}")

    def _problem(self) -> str:
        src, dst = networks(self)
        if src.version != dst.version:
            return "the addresses have different IP versions"
        if not 1 <= self.max_hops <= 255:
            return f"max_hops {self.max_hops}: expected 1 to 255"
        if not 0 < self.share <= 1:
            return f"share {self.share}: expected more than 0 and at most 1"
        if not 0 <= self.instructions <= 0xFFFF:
            return f"instructions {self.instructions:#x}: expected 16 bits"
        if self.mark is Mark.PORT and self.protocol != UDP:
            return "Mark.PORT rewrites the UDP port; set protocol=17 or use Mark.NEW_UDP"
        return ""

    def is_at(self, net: Network, switch: str) -> bool:
        """Return whether the flow is on the watch list of a switch. Raises TestbedError."""
        if self.mode in (Mode.EXPORT, Mode.DROPS):
            return True
        if self.sources is not None:
            return switch in self.sources
        hosts = [h for h in net.topo.hosts() if _is_in(net.host(h).IP(), self.src_addr)]
        if not hosts:
            raise TestbedError(
                f"no host has an address in {self.src_addr}; set `sources` to the switches where "
                f"the flow enters"
            )
        return any(host in net.neighbours(switch) for host in hosts)

    def entry(self) -> fy.P4TableEntry:
        """Return the entry of the flow for a switch's watch list."""
        action = fy.Action(self.mode.value, **self._parameters())
        table, *names = ("int_list", "ipv4", "protocol")
        if networks(self)[0].version == 6:
            table, *names = ("int_list_ipv6", "ipv6", "next_header")
        return fy.P4TableEntry(
            table, match=match(self, *names), priority=known_bits(self) + 1, action=action
        )

    def _parameters(self) -> dict[str, int]:
        if self.mode is Mode.DROPS:
            return {}
        parameters = {"instructions": int(self.instructions), "sampling": round(self.share * ALL)}
        if self.mode in (Mode.DATA, Mode.INSTRUCTIONS):
            parameters["mark"] = int(self.mark)
        if self.mode is Mode.DATA:
            parameters["hops"] = self.max_hops
        return parameters


def _is_in(address: str, prefix: str) -> bool:
    return ip_address(address) in ip_network(prefix)


@dataclass(frozen=True)
class Denied:
    """IPv4 packets that switches drop.

    The drop reports contain the reason "access list".

    Addresses may be prefixes; None matches anything. The key matches packets as they are between
    switches, where INT may have replaced the port. `switches` are the switches that drop these
    packets; None means all. Raises ValueError for invalid parameters.
    """

    src_addr: str = "0.0.0.0/0"
    dst_addr: str = "0.0.0.0/0"
    protocol: int | None = None
    src_port: int | None = None
    dst_port: int | None = None
    switches: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if any(network.version != 4 for network in networks(self)):
            raise ValueError(f"denied {self.src_addr} -> {self.dst_addr}: expected IPv4 addresses")

    def is_at(self, switch: str) -> bool:
        """Return whether this entry is on the access list of a switch."""
        return self.switches is None or switch in self.switches

    def entry(self) -> fy.P4TableEntry:
        """Return the entry for a switch's access list."""
        return fy.P4TableEntry(
            "access_list", match=match(self, "ipv4", "protocol"), priority=known_bits(self) + 1,
            action=fy.Action("deny"),
        )  # fmt: skip
