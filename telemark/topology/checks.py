"""Checks of a Mininet topology: names, addresses, ports and device ids."""

import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Interface
from itertools import count, pairwise
from typing import Any

from mininet.topo import Topo

from minip4.engine.shared import DROP_PORT
from telemark.errors import TestbedError

# maximum number of ports per switch. A bmv2 switch has a panel switch (minip4, between bmv2 and the
# links), which needs twice as many ports.
PORTS = {"minip4": DROP_PORT, "bmv2": 256}
MAC = re.compile("[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}")
# Node names become parts of shell commands and of paths.
NAME = re.compile("[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
NAMES = "a name of up to 64 letters, digits, _, . and - that begins with a letter or digit"


def check_topology(topo: Topo) -> None:
    """Raise TestbedError if there is no switch, or if a name, an address or a link is invalid."""
    for name in topo.nodes(sort=False):  # Mininet cannot sort some invalid names
        if not NAME.fullmatch(name):
            raise TestbedError(f"node {name!r}: expected {NAMES}")
    if not topo.switches():
        raise TestbedError("topology: no switch; add one with addSwitch('s1') in build()")
    for name in topo.hosts():
        info = topo.nodeInfo(name)
        if "ip" in info and not _is_address(str(info["ip"])):
            raise TestbedError(f"host {name}: ip {info['ip']!r}: expected e.g. 10.0.0.1/8")
        if "mac" in info and not MAC.fullmatch(str(info["mac"])):
            raise TestbedError(f"host {name}: mac {info['mac']!r}: expected e.g. 00:00:00:00:00:01")
    for node1, node2 in topo.links():
        if node1 == node2:
            raise TestbedError(f"link {node1}-{node2}: connects {node1} to itself")


def device_ids(topo: Topo) -> dict[str, int]:
    """Return the device id of each switch.

    The device id is the dpid of the switch. Without a dpid, it is the first number in the name, as
    in Mininet.

    If several names have the same number (s1 and t1), the first name gets this number. The other
    names get numbers above all device ids. Raises TestbedError.
    """
    dpids = {name: topo.nodeInfo(name).get("dpid") for name in topo.switches()}
    found: dict[str, int] = {}
    owners: dict[int, str] = {}
    # explicit dpids are assigned first
    for name in sorted(dpids, key=lambda name: dpids[name] is None):
        number = _number(name, dpids[name])
        owner = owners.setdefault(number, name)
        if owner == name:
            found[name] = number
        elif dpids[name] is not None:
            raise TestbedError(
                f"switch {name}: dpid {dpids[name]} is used by {owner}; expected a unique dpid"
            )
    above = count(1 + max(owners))
    return {name: found[name] if name in found else next(above) for name in dpids}


def _number(name: str, dpid: object) -> int:
    if dpid is not None:
        return int(str(dpid).replace(":", ""), 16)
    digits = re.search(r"\d+", name)
    if digits is None:
        raise TestbedError(
            f"switch {name}: cannot derive a device id; use a name such as s1, or set dpid"
        )
    return int(digits.group())


def check_addresses(hosts: Sequence[Any]) -> None:
    """Raise TestbedError if two hosts have the same IPv4 or MAC address."""
    for kind, address_of in (("ip", lambda host: host.IP()), ("mac", lambda host: host.MAC())):
        owners: dict[str, str] = {}
        for host in hosts:
            address = address_of(host)
            owner = owners.setdefault(address.lower(), host.name)
            if owner != host.name:
                raise TestbedError(
                    f"host {host.name}: {kind} {address} is used by {owner}; expected a unique one"
                )


def check_ports(topo: Topo, target: str) -> None:
    """Raise TestbedError for a link at an invalid port, or for two links at the same port."""
    taken: set[tuple[str, int]] = set()
    for _, _, info in topo.links(sort=True, withInfo=True):
        for end in "12":
            switch, port = info[f"node{end}"], info[f"port{end}"]
            if not topo.isSwitch(switch):
                continue
            if not 0 <= port < PORTS[target]:
                raise TestbedError(
                    f"switch {switch}: port {port}: with --target {target} expected 0 to "
                    f"{PORTS[target] - 1}"
                )
            if (switch, port) in taken:
                raise TestbedError(f"switch {switch}: port {port} is used by two links")
            taken.add((switch, port))


def check_cpu_ports(
    topo: Topo, options: Mapping[str, Sequence[str]], architectures: Mapping[str, str]
) -> None:
    """Raise TestbedError for links at the CPU port, except in TNA."""
    for _, _, info in topo.links(sort=True, withInfo=True):
        for end in "12":
            switch, port = info[f"node{end}"], info[f"port{end}"]
            if ("--cpu-port", str(port)) not in pairwise(options.get(switch, ())):
                continue
            if architectures[switch] != "tna":
                raise TestbedError(
                    f"switch {switch}: port {port} is the CPU port but has a link; use another "
                    f"port, e.g. addLink(..., port{end}={port + 1})"
                )


def _is_address(text: str) -> bool:
    if "/" not in text:  # Mininet needs a prefix length
        return False
    try:
        IPv4Interface(text)
    except ValueError:
        return False
    return True
