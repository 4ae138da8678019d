"""Alerts: the detected threat, the evidence for it, and the time."""

from dataclasses import dataclass
from enum import Enum

from ebpf.statistics.flows import format_address


class Kind(Enum):
    """The kind of threat."""

    HEAVY_HITTER = "heavy_hitter"
    SUPERSPREADER = "superspreader"
    PORT_SCAN = "port_scan"
    SYN_FLOOD = "syn_flood"
    AMPLIFICATION = "amplification"


@dataclass(frozen=True)
class Evidence:
    """Evidence for an alert: counts in a window, and the hosts, ports and protocol involved.

    Addresses have 16 bytes; IPv4 addresses are mapped into IPv6. Fields that have no meaning for
    the kind of alert are zero.
    """

    source: bytes
    destination: bytes
    source_port: int  # UDP port of a service that amplifies
    destination_port: int
    protocol: int
    packets: int
    bytes: int
    distinct: float  # estimated number of distinct destinations, ports or sources
    returned: int  # number of packets that continue handshakes, or number of bytes of requests
    share: float  # fraction of all packets in the window


@dataclass(frozen=True)
class Alert:
    """A threat that was detected in a window. The window ended at `when_ns` (CLOCK_MONOTONIC)."""

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
