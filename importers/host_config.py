"""Interpreter of commands that configure a host's routes and neighbours.

The interpreter supports the syntax of iproute2 and of net-tools (`route add default gw ...`, `arp
-s ...`), but needs neither of them. net-tools is often not installed. The settings also apply in
virtual time, where hosts have no shell.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

from telemark.topology.checks import MAC


@dataclass
class HostSettings:
    """Settings from the commands of a host, and the commands that are not supported."""

    gateway: str | None = None
    neighbours: dict[str, str] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)


def parse_commands(commands: Iterable[str], address: IPv4Interface) -> HostSettings:
    """Interpret the commands of a host.

    `address` is the address of the host.
    """
    settings = HostSettings()
    for command in commands:
        words = _without_interface(command.split())
        match words:
            case ["route", "add", "default", "gw", gateway] if _is_address(gateway):
                settings.gateway = gateway
            case ["ip", "route", "add", "default", "via", gateway] if _is_address(gateway):
                settings.gateway = gateway
            case ["arp", "-s", neighbour, mac] if _is_address(neighbour) and MAC.fullmatch(mac):
                settings.neighbours[neighbour] = mac
            case ["ip", "neigh", "add" | "replace", neighbour, "lladdr", mac] if _is_address(
                neighbour
            ) and MAC.fullmatch(mac):
                settings.neighbours[neighbour] = mac
            case ["ip", "route", "add", network] if _is_own(network, address):
                pass  # the kernel adds this route itself when the interface gets its address
            case _:
                settings.others.append(command)
    return settings


def _without_interface(words: list[str]) -> list[str]:
    """Remove `dev eth0` or `-i eth0` from a command.

    A host has only this interface.
    """
    kept = list(words)
    for option in ("dev", "-i"):
        if option in kept[:-1] and kept[kept.index(option) + 1] == "eth0":
            at = kept.index(option)
            del kept[at : at + 2]
    return kept


def _is_address(text: str) -> bool:
    try:
        IPv4Address(text)
    except ValueError:
        return False
    return True


def _is_own(network: str, address: IPv4Interface) -> bool:
    try:
        return IPv4Network(network) == address.network
    except ValueError:
        return False
