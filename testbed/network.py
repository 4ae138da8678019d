"""The network of a run: a Mininet topology with P4 switches, up for the time of a `with` block."""

import contextlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import mininet.net
from mininet.cli import CLI
from mininet.link import Link
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.node import Node
from mininet.topo import Topo

from testbed import traffic
from testbed.errors import TestbedError
from testbed.isolation import DISABLE_IPV6, Run
from testbed.targets.minip4 import (
    LINK_PROPERTIES,
    Minip4Switch,
    Program,
    SwitchSettings,
    derived_seed,
)

REPOSITORY = Path(__file__).resolve().parent.parent
CAPTURES = ("in", "out", "lost")
MININET_PARAMETERS = {"port1", "port2", "intfName1", "intfName2", "addr1", "addr2", "params1",
                      "params2", "cls", "cls1", "cls2", "intf", "fast"}  # fmt: skip
# Kernel counters whose growth means that the kernel lost a datagram: /proc/net/snmp, by group.
UDP_LOSSES = ("InErrors", "RcvbufErrors", "SndbufErrors", "InCsumErrors")


@dataclass(frozen=True)
class LinkEnd:
    """Where a link is plugged in: `port` is the interface's number on its node."""

    node: str
    interface: str
    port: int


class Network:
    """Hosts, links and switches that all run one P4 program.

    `program` is a path, from here or from the repository's root. The properties of a topology's
    links, `addLink(a, b, loss=0.01, delay_us=500, rate_bps=10**8, queue=1000)`, hold behind the
    egress port of each end that is a switch: in both directions between two switches, and only
    towards the host on a host's link. One direction alone: `params1={...}`, `params2={...}`.
    `loss` is a probability; each end has dice of its own.

    After the `with` block, counters and captures are complete, and stay until the run ends.
    """

    def __init__(
        self,
        topo: Topo,
        run: Run,
        *,
        program: str | Path,
        name: str = "network",
        capture: bool = True,
        switch_options: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.topo = topo
        self.name = name
        self.folder = run.folder / name
        self.links: list[tuple[LinkEnd, LinkEnd]] = []
        self.counters: dict[str, dict[str, Any]] = {}  # switch -> what `minip4 switch` counted
        self.interface_counters: dict[str, dict[str, int]] = {}  # interface -> kernel's counters
        self.udp_losses: dict[str, int] = {}  # host -> datagrams that its kernel lost
        self._run = run
        here = Path(program).absolute()
        self._program_path = here if here.is_file() else REPOSITORY / program
        self._capture = capture
        self._switch_options = dict(switch_options or {})
        self._mininet: Mininet | None = None
        self._leaving = contextlib.ExitStack()

    def __enter__(self) -> "Network":
        with contextlib.ExitStack() as leaving:
            self._start(leaving)
            self._leaving = leaving.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        with self._leaving:
            if kind is None:
                if self._run.interactive:
                    self._command_line()
                self._finish()

    def switch(self, name: str) -> Minip4Switch:
        """A switch of the network: addresses, files, and after the `with` block its counters."""
        return self._node(name, self._net.switches)

    def host(self, name: str) -> Any:
        """A Mininet host."""
        return self._node(name, self._net.hosts)

    def interface(self, node: str, neighbour: str) -> str:
        """The name of a node's interface towards a neighbour, as in `s1-eth2`."""
        return self._end(node, neighbour).interface

    def port(self, switch: str, neighbour: str) -> int:
        """The number of a switch's port towards a neighbour."""
        return self._end(switch, neighbour).port

    def capture(self, switch: str, neighbour: str, what: str) -> Path:
        """The capture of a switch's port towards a neighbour.

        `what`: frames that came "in", went "out" (before the link), or were "lost" by the link.
        """
        if what not in CAPTURES:
            raise ValueError(f"{what!r} is none of {CAPTURES}")
        return self.folder / f"{self.interface(switch, neighbour)}_{what}.pcap"

    @property
    def _net(self) -> Mininet:
        if self._mininet is None:
            raise RuntimeError("the network is up only inside its with block")
        return self._mininet

    def _node(self, name: str, nodes: Sequence[Any]) -> Any:
        for node in nodes:
            if node.name == name:
                return node
        names = ", ".join(node.name for node in nodes)
        raise TestbedError(f"there is no {name} in network {self.name}: there are {names}")

    def _end(self, node: str, neighbour: str) -> "LinkEnd":
        for link in self.links:
            for near, far in (link, link[::-1]):
                if (near.node, far.node) == (node, neighbour):
                    return near
        raise TestbedError(f"there is no link from {node} to {neighbour} in network {self.name}")

    def _start(self, leaving: contextlib.ExitStack) -> None:
        if not sys.stdin.isatty() and self._run.interactive:
            raise TestbedError("--interactive needs a terminal")
        self._run.progress.update(f"{self.name}: compiling {self._program_path.name}")
        self.folder.mkdir()
        settings = SwitchSettings(
            program=Program.build(self._program_path, self.folder),
            folder=self.folder,
            seed=derived_seed(self._run.seed, self.name),
            capture=self._capture,
            options=self._switch_options,
        )
        for tool in ("send", "receive"):  # a schedule must not wait for the C compiler
            traffic.executable(tool)
        self._run.progress.update(f"{self.name}: starting the network")
        setLogLevel("error")
        mininet.net.fixLimits = lambda: None  # it writes settings of the whole machine
        self._mininet = Mininet(
            switch=partial(Minip4Switch, settings=settings), host=Host, link=ImpairedLink,
            controller=None, autoSetMacs=True, build=False,
        )  # fmt: skip
        leaving.callback(self._mininet.stop)
        self._mininet.topo = self.topo
        self._mininet.build()
        self.links = [(_end_of(link.intf1), _end_of(link.intf2)) for link in self._mininet.links]
        unknown = self._switch_options.keys() - {switch.name for switch in self._mininet.switches}
        if unknown:
            raise TestbedError(f"options for switches that are not there: {sorted(unknown)}")
        self._mininet.start()
        for host in self._mininet.hosts:
            host.settle(self._mininet.hosts)
        for switch in self._mininet.switches:
            switch.wait_ready()

    def _finish(self) -> None:
        """Stop the switches, and take all counters in."""
        self._run.progress.update(f"{self.name}: stopping")
        for switch in self._net.switches:
            switch.request_end()
        for switch in self._net.switches:
            switch.finish()
            self.counters[switch.name] = switch.counters
        self.interface_counters = _interface_counters(Path("/proc/self/net/dev"))
        for host in self._net.hosts:
            proc = Path(f"/proc/{host.pid}/net")
            self.interface_counters |= _interface_counters(proc / "dev")
            self.udp_losses[host.name] = _udp_losses(proc / "snmp")

    def _command_line(self) -> None:
        self._run.progress.pause()
        print(f"Network {self.name}: type `exit` to go on, `help` for what there is")
        setLogLevel("output")
        CLI(self._net)


class Host(Node):
    """A host that sends only what it is told to, in frames as they will be on the wire."""

    def startShell(self, mnopts: str | None = None) -> None:
        """Start the host's shell; IPv6 goes before an interface comes up and says hello."""
        super().startShell(mnopts)
        self.cmd(DISABLE_IPV6)

    def enter(self) -> list[str]:
        """The beginning of a command that is to run in the host's network namespace."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net"]

    def settle(self, hosts: "Sequence[Host]") -> None:
        """Turn offloads off, and tell the host every other's MAC address."""
        commands = [
            f"ethtool -K {interface} tx off rx off sg off tso off gso off gro off >/dev/null"
            for interface in self.intfNames()
        ]
        commands += [
            f"ip neigh replace {other.IP()} lladdr {other.MAC()} dev {self.defaultIntf()}"
            for other in hosts
            if other is not self
        ]
        done = subprocess.run(
            [*self.enter(), "sh", "-e"], input="\n".join(commands), text=True,
            capture_output=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise TestbedError(f"host {self.name} cannot be set up: {done.stderr.strip()}")


class ImpairedLink(Link):
    """A veth pair; its ends keep their link's properties for the switches to read."""

    def __init__(self, node1: Any, node2: Any, **params: Any) -> None:
        ends = [params.get("params1") or {}, params.get("params2") or {}]
        given = {*params, *ends[0], *ends[1]} - MININET_PARAMETERS
        if unknown := sorted(given - {*LINK_PROPERTIES}):
            raise TestbedError(
                f"link {node1}-{node2}: no property {', '.join(unknown)}: "
                f"there are {', '.join(LINK_PROPERTIES)}"
            )
        super().__init__(node1, node2, **params)


def _end_of(interface: Any) -> LinkEnd:
    return LinkEnd(interface.node.name, interface.name, interface.node.ports[interface])


def _interface_counters(path: Path) -> dict[str, dict[str, int]]:
    """Packets and drops by interface, from /proc/net/dev (netdevice's columns, see proc(5))."""
    counters = {}
    for line in path.read_text().splitlines()[2:]:
        name, _, text = line.partition(":")
        values = [int(word) for word in text.split()]
        if name.strip() != "lo":
            counters[name.strip()] = {
                "received": values[1],
                "sent": values[9],
                "dropped": values[2] + values[3] + values[10] + values[11],  # errors and drops
            }
    return counters


def _udp_losses(path: Path) -> int:
    """Datagrams that a kernel lost, from /proc/net/snmp: a line of names, then one of values."""
    lines = [line.split() for line in path.read_text().splitlines() if line.startswith("Udp:")]
    udp = dict(zip(*lines, strict=True))
    return sum(int(udp[name]) for name in UDP_LOSSES)
