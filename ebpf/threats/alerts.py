"""Alerts: the detected threat, its evidence and its time."""

from dataclasses import dataclass
from enum import Enum

from ebpf.statistics.flows import format_address


class Kind(Enum):
    """What an alert is of."""

    HEAVY_HITTER = "heavy_hitter"
    SUPERSPREADER = "superspreader"
    PORT_SCAN = "port_scan"
    SYN_FLOOD = "syn_flood"
    AMPLIFICATION = "amplification"


@dataclass(frozen=True)
class Evidence:
    """What was counted in a window, of the hosts that it is about.

    Addresses have 16 bytes, IPv4's mapped into IPv6's; those that an alert is not about are zero,
    and so are its ports and protocol.
    """

    source: bytes
    destination: bytes
    source_port: int  # of services that amplify
    destination_port: int
    protocol: int
    packets: int
    bytes: int
    distinct: float  # destinations, ports or sources, estimated
    returned: int  # packets that went on with handshakes, or bytes of questions
    share: float  # of all packets of the window


@dataclass(frozen=True)
class Alert:
    """A threat, of a window that ended at `when_ns` (CLOCK_MONOTONIC)."""

    kind: Kind
    evidence: Evidence
    when_ns: int

    def __str__(self) -> str:
        seen = self.evidence
        source = format_address(seen.source) if any(seen.source) else "many"
        destination = format_address(seen.destination) if any(seen.destination) else "many"
        source += f" port {seen.source_port}" if seen.source_port else ""
        destination += f" port {seen.destination_port}" if seen.destination_port else ""
        return (
            f"{self.kind.value}: {source} to {destination}: {seen.packets} packets, "
            f"{seen.bytes} bytes, {seen.distinct:.0f} distinct"
        )
