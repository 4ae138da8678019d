"""Text form of flow keys: addresses, protocol and ports of a KEY."""

from ipaddress import IPv4Address, IPv6Address
from typing import Any


def address(octets: bytes, ip_version: int) -> str:
    """Return an address of a KEY as text."""
    return str(IPv4Address(octets[:4]) if ip_version == 4 else IPv6Address(octets))


def endpoints(key: Any) -> dict[str, str | int]:
    """Return the fields of a KEY as labels for exporters."""
    version = int(key["ip_version"])
    return {
        "source": address(key["source"].tobytes(), version),
        "destination": address(key["destination"].tobytes(), version),
        "protocol": int(key["protocol"]),
        "source_port": int(key["source_port"]),
        "destination_port": int(key["destination_port"]),
    }
