"""What a network is made of, in real or in virtual time: the seam below class Network."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from ipaddress import IPv4Interface
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mininet.topo import Topo

from minip4.engine.shared import DROP_PORT
from testbed.errors import TestbedError
from testbed.programs import Program
from testbed.truth.refused import RefusedFrames

if TYPE_CHECKING:
    from testbed.application import Application, Running
    from testbed.traffic import AnyFlow, Carrier, Schedule

PORTS = {"minip4": DROP_PORT, "bmv2": 256}  # of a switch; on bmv2 its panel has as many again
MAC = re.compile("[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}")
# Of nodes: Mininet and we put names into shells' commands, and into paths.
NAME = re.compile("[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
NAMES = "a name of up to 64 letters, digits, _, . and -, of which the first is a letter or digit"


@dataclass(frozen=True)
class LinkEnd:
    """Where a link is plugged in: `port` is the interface's number on its node."""

    node: str
    interface: str
    port: int


@dataclass(frozen=True)
class Settings:
    """What a network is to be."""

    topo: Topo
    name: str
    folder: Path  # logs, counters, captures
    programs: Mapping[str, Program]  # of each switch
    seed: int
    mtu_bytes: int  # of hosts
    capture: bool
    snaplen: int  # bytes of each frame in captures
    target: str  # what runs it: minip4 or bmv2
    switch_options: Mapping[str, Sequence[str]]  # switch -> further options of `minip4 switch`
    device_ids: Mapping[str, int]  # of each switch
    control_delay_ns: int  # of messages between controllers and switches, each way
    threads: int  # that run it; more than one in virtual time only
    stamp_log: bool  # capture when switches handled frames; in real time only
    tell: Callable[[str], None]  # what is being done


@dataclass
class Outcome:
    """What was counted, once the network has ended."""

    counters: dict[str, dict[str, Any]] = field(default_factory=dict)
    interface_counters: dict[str, dict[str, int]] = field(default_factory=dict)
    udp_losses: dict[str, int] = field(default_factory=dict)
    refused: list[RefusedFrames] = field(default_factory=list)
    applications: "list[Running]" = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)  # to be told the user


class Plant(Protocol):
    """The nodes and links of one network that is up."""

    @property
    def switches(self) -> Sequence[Any]:
        """Each with .name .device_id .grpc_address .p4info_path .blob_path."""

    @property
    def hosts(self) -> Sequence[Any]:
        """Each with .name .IP() .MAC()."""

    @property
    def links(self) -> Sequence[tuple[LinkEnd, LinkEnd]]:
        """The two ends of each."""

    def start(self, leaving: ExitStack) -> None:
        """Bring everything up; what undoes it goes into `leaving`."""

    def carrier(self, flows: "Sequence[AnyFlow]", schedules: "Mapping[int, Schedule]") -> "Carrier":
        """What sends and receives flows, each (by its id) at its times."""

    def send_frames(self, host: str, times_ns: Sequence[int], frames: Sequence[bytes]) -> None:
        """Send frames as they are, each at its time; times ascend."""

    def run_application(self, host: str, application: "Application") -> "Running":
        """Return when the application runs there."""

    def command_line(self) -> None:
        """Let the user type commands until `exit`."""

    async def obey(self, script: Path) -> None:
        """Do the commands of a script."""

    def check_alive(self) -> None:
        """Raise TestbedError for a switch or an application that ended by itself."""

    def refused_frames(self) -> list[RefusedFrames]:
        """Frames that hosts have dropped so far for a fault of the network."""

    def finish(self) -> Outcome:
        """Empty queues and links, stop the switches, and take all counters in."""


def check_topology(topo: Topo) -> None:
    """Raise TestbedError for what is missing or cannot be: switches, names, addresses, links."""
    for name in topo.nodes(sort=False):  # Mininet's sorting stumbles over some that are refused
        if not NAME.fullmatch(name):
            raise TestbedError(f"node {name!r}: expected {NAMES}")
    if not topo.switches():
        raise TestbedError("the topology has no switch: build() adds one with addSwitch('s1')")
    for name in topo.hosts():
        info = topo.nodeInfo(name)
        if "ip" in info and not _is_address(str(info["ip"])):
            raise TestbedError(f"host {name}: ip {info['ip']!r}: expected as in 10.0.0.1/8")
        if "mac" in info and not MAC.fullmatch(str(info["mac"])):
            raise TestbedError(
                f"host {name}: mac {info['mac']!r}: expected as in 00:00:00:00:00:01"
            )
    for node1, node2 in topo.links():
        if node1 == node2:
            raise TestbedError(f"link {node1}-{node2}: both its ends are {node1}")


def device_ids(topo: Topo) -> dict[str, int]:
    """The number of each switch: that of its dpid, or the first one in its name, as Mininet has it.

    Of several names with one number (s1 and t1) the first has it, and the others those above all.
    Raises TestbedError.
    """
    dpids = {name: topo.nodeInfo(name).get("dpid") for name in topo.switches()}
    found: dict[str, int] = {}
    owners: dict[int, str] = {}
    for name in sorted(dpids, key=lambda name: dpids[name] is None):  # a dpid stays what it is
        number = _number(name, dpids[name])
        owner = owners.setdefault(number, name)
        if owner == name:
            found[name] = number
        elif dpids[name] is not None:
            raise TestbedError(
                f"switch {name}: dpid {dpids[name]} is {owner}'s: expected one of its own"
            )
    above = count(1 + max(owners))
    return {name: found[name] if name in found else next(above) for name in dpids}


def _number(name: str, dpid: object) -> int:
    if dpid is not None:
        return int(str(dpid).replace(":", ""), 16)
    digits = re.search(r"\d+", name)
    if digits is None:
        raise TestbedError(f"switch {name}: its name needs a number, as in s1, or give it a dpid")
    return int(digits.group())


def check_addresses(hosts: Sequence[Any]) -> None:
    """Raise TestbedError for hosts that share an address, their own or one that they were given."""
    for kind, address_of in (("ip", lambda host: host.IP()), ("mac", lambda host: host.MAC())):
        owners: dict[str, str] = {}
        for host in hosts:
            address = address_of(host)
            owner = owners.setdefault(address.lower(), host.name)
            if owner != host.name:
                raise TestbedError(
                    f"host {host.name}: {kind} {address} is {owner}'s: expected one of its own"
                )


def check_ports(topo: Topo, options: Mapping[str, Sequence[str]], target: str) -> None:
    """Raise TestbedError for links at ports that the target has not, that are CPU ports, or that
    have another link."""
    taken: set[tuple[str, int]] = set()
    for _, _, info in topo.links(sort=True, withInfo=True):
        for end in "12":
            switch, port = info[f"node{end}"], info[f"port{end}"]
            if not topo.isSwitch(switch):
                continue
            own = options.get(switch, ())
            if ("--cpu-port", str(port)) in pairwise(own):
                raise TestbedError(
                    f"switch {switch}: port {port} has a link, and is the CPU port: give the link "
                    f"another one, as in addLink(..., port{end}={port + 1})"
                )
            if not 0 <= port < PORTS[target]:
                raise TestbedError(
                    f"switch {switch}: port {port}: on --target {target} expected 0 to "
                    f"{PORTS[target] - 1}"
                )
            if (switch, port) in taken:
                raise TestbedError(f"switch {switch}: port {port} is given to two links")
            taken.add((switch, port))


def _is_address(text: str) -> bool:
    if "/" not in text:  # without a prefix's length Mininet cannot set it
        return False
    try:
        IPv4Interface(text)
    except ValueError:
        return False
    return True


def derived_seed(seed: int, *names: str) -> int:
    """A seed of its own for each thing that is random, all following from one."""
    digest = hashlib.sha256("/".join([str(seed), *names]).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
