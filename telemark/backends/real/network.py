"""Network in real time: nodes are Mininet's namespaces, and the switches share a process."""

import contextlib
import itertools
import resource
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path
from typing import Any

import mininet.net
import numpy as np
from mininet.link import Intf, Link
from mininet.log import lg, setLogLevel
from mininet.net import Mininet
from mininet.node import Node
from mininet.topo import Topo

from minip4.engine.engine import Engine
from telemark.accounting import pcap
from telemark.accounting.rejected import Fault, RejectedFrames, first_example
from telemark.apps.application import Application, HostInfo, RunningApplication
from telemark.backends.backend import LinkEnd, Outcome, Settings
from telemark.backends.real.applications import ApplicationProcess
from telemark.backends.real.bmv2_thrift.client import ThriftCalls
from telemark.backends.real.flow_processes import build_program
from telemark.backends.real.isolation import DISABLE_IPV6
from telemark.backends.real.mininet_cli import end_command, run_cli
from telemark.backends.real.scheduling import SWITCH_PRIORITY, set_priority
from telemark.backends.real.shell import Shell
from telemark.backends.real.switch_group import SwitchGroup
from telemark.backends.real.targets.bmv2 import PANEL, Bmv2Switch, panel_interface
from telemark.backends.real.targets.minip4 import Minip4Switch, SwitchSettings
from telemark.backends.real.traffic import FrameSender, ProcessTrafficDriver
from telemark.errors import InvalidRunError, TestbedError
from telemark.programs import Program, Source, compiled
from telemark.topology import links
from telemark.topology.links import ETHERNET_BYTES, SWITCH_MTU, VLAN_TAG_BYTES
from telemark.traffic.flows import AnyFlow, Schedule
from telemark.watch.announcement import announced

# maximum number of characters of an interface name (IFNAMSIZ of <linux/if.h> - 1)
MAX_INTERFACE = 15
# Upper bounds of the open files, of the process of the switches and of this process: per process,
# per switch, per host, and per port without its captures.
SPARE_FILES, SWITCH_FILES, HOST_FILES, PORT_FILES = 64, 11, 5, 2
FRAMES_S = 1.0  # max time for which frames are still sent after the `with` block
# Counters of /proc/net/snmp and /proc/net/netstat. NO_ROOM and FULL_BUFFERS are counters of
# datagrams that were dropped because a buffer was full. MALFORMED are counters of frames with a
# wrong checksum or length. UDP has no such counter: InErrors also counts FULL_BUFFERS.
NO_ROOM = (("Udp", "RcvbufErrors"), ("Udp", "SndbufErrors"), ("Udp", "MemErrors"))
MALFORMED = (("Ip", "InHdrErrors"), ("IpExt", "InTruncatedPkts"), ("Icmp", "InCsumErrors"),
             ("Tcp", "InCsumErrors"), ("Udp", "InErrors"))  # fmt: skip
FULL_BUFFERS = (("Udp", "RcvbufErrors"), ("Udp", "MemErrors"))


class MininetBackend:
    """NetworkBackend in the namespaces of a run."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._mininet: Mininet
        self.switches: Sequence[Minip4Switch] = []
        self.hosts: Sequence[Host] = []
        self.links: list[tuple[LinkEnd, LinkEnd]] = []
        self._flow_ports: set[int] = set()  # destination ports of all flows
        self._frame_senders: list[FrameSender] = []
        self._applications: list[ApplicationProcess] = []

    def start(self, exit_stack: contextlib.ExitStack) -> None:
        """Build Mininet's network, and wait until all switches are ready."""
        settings = self._settings
        linked = {name for link in settings.topo.links() for name in link}
        if unlinked := sorted({*settings.topo.hosts()} - linked):
            raise TestbedError(
                f"host {unlinked[0]}: has no link; in real time, each host needs a link"
            )
        check_interfaces(settings.topo, settings.target)
        check_open_files(settings)
        # The process imports its modules while this process compiles programs.
        group = SwitchGroup(
            settings.folder / "switches.log",
            interfaces=receiving_interfaces(settings),
            sanitize=any("--sanitize" in each for each in settings.switch_options.values()),
        )
        exit_stack.callback(group.close)
        set_priority(group.pid, SWITCH_PRIORITY)
        switch_settings = SwitchSettings(
            programs=settings.programs,
            folder=settings.folder,
            seed=settings.seed,
            capture=settings.capture,
            snaplen=settings.snaplen,
            stamp_log=settings.stamp_log,
            options=dict(settings.switch_options),
            device_ids=settings.device_ids,
            group=group,
            wires=settings.wires,
        )
        for program in {*settings.programs.values()}:
            # compile the program to machine code once, before several switches need it
            Engine(program.compiled.bmv2_json).close()
        for tool in ("send", "receive", "tcp_send", "tcp_receive", "send_frames"):
            build_program(tool)  # must not take time after the traffic has started
        settings.report_progress("starting the network")
        setLogLevel("error")
        # Mininet's function would change settings that affect the whole machine
        mininet.net.fixLimits = lambda: None
        self._mininet = Mininet(
            switch=_switch_maker(settings, switch_settings, exit_stack),
            host=partial(Host, mtu_bytes=settings.mtu_bytes), link=ImpairedLink,
            controller=None, autoSetMacs=True, build=False,
        )  # fmt: skip
        exit_stack.callback(self._stop_mininet, group)
        exit_stack.callback(self._stop_processes)
        self._mininet.topo = settings.topo
        self._mininet.build()
        self.switches, self.hosts = self._mininet.switches, self._mininet.hosts
        self.links = [(_end_of(link.intf1), _end_of(link.intf2)) for link in self._mininet.links]
        is_switch = settings.topo.isSwitch
        _widen([end.interface for link in self.links for end in link if is_switch(end.node)])
        self._mininet.start()
        for host in self.hosts:
            host.configure(self.hosts)
        for switch in self.switches:
            switch.wait_ready()
        exit_stack.enter_context(
            announced(settings.folder, settings.name, settings.topo, self.switches)
        )

    def traffic_driver(
        self, flows: Sequence[AnyFlow], schedules: Mapping[int, Schedule]
    ) -> ProcessTrafficDriver:
        """Create sender and receiver processes in the hosts' namespaces."""
        hosts = {host.name: host for host in self.hosts}
        self._flow_ports |= {flow.port for flow in flows}
        publisher = self._settings.publisher
        counts = -1 if publisher is None else publisher.flow_counts
        return ProcessTrafficDriver(
            hosts, self._settings.folder, flows, schedules, counts, check_alive=self.check_alive
        )

    def send_frames(self, host: str, times_ns: Sequence[int], frames: Sequence[bytes]) -> None:
        """Start a process in the host's namespace that sends raw frames."""
        name = f"frames-{len(self._frame_senders)}"
        node = next(node for node in self.hosts if node.name == host)
        sender = FrameSender(node, self._settings.folder / name, times_ns, frames)
        self._frame_senders.append(sender)

    def run_application(self, host: str, application: Application) -> RunningApplication:
        """Start a process in the host's namespace."""
        node = next(node for node in self.hosts if node.name == host)
        log = self._settings.folder / f"{host}-application-{len(self._applications)}.log"
        neighbours = {other.IP(): other.MAC() for other in self.hosts}
        place = HostInfo(
            host, node.IP(), node.MAC(), self._settings.mtu_bytes, neighbours,
            self._settings.display, self._settings.metrics,
        )  # fmt: skip
        process = ApplicationProcess(node, place, application, log)
        self._applications.append(process)
        return process.running

    def _stop_mininet(self, group: SwitchGroup) -> None:
        group.kill()  # Mininet would kill one switch after the other
        for node in self._mininet.values():  # a signal may have interrupted a command of this node
            end_command(node)
        self._mininet.stop()

    def _stop_processes(self) -> None:
        for sender in self._frame_senders:
            sender.stop()
        for application in self._applications:
            application.stop()

    def command_line(self) -> None:
        """Run Mininet's CLI."""
        setLogLevel("output")
        run_cli(self._mininet)

    async def run_script(self, script: Path) -> None:
        """Run a script with Mininet's CLI. The script blocks this process."""
        setLogLevel("output")
        lg.ch.setStream(sys.stdout)  # Mininet would print to stderr
        run_cli(self._mininet, script)

    def check_alive(self) -> None:
        """See NetworkBackend."""
        for switch in self.switches:
            switch.check_alive()
        for application in self._applications:
            application.check_alive()
        self._check_shells()

    def _check_shells(self) -> None:
        """Raise TestbedError if a node's shell has ended.

        The node's namespace ends with its shell.
        """
        for node in (*self.hosts, *self.switches):
            node.check_shell()

    def finish(self) -> Outcome:
        """Stop the switches and read all counters."""
        self._check_shells()
        end_s = time.monotonic() + FRAMES_S
        outcome = Outcome(applications=[each.running for each in self._applications])
        for sender in self._frame_senders:
            try:
                sender.finish(max(end_s - time.monotonic(), 0))
            except InvalidRunError as error:
                outcome.invalid.append(error)
        for application in self._applications:
            application.close()
        outcome.remarks += {problem: None for each in self.switches
                            if (problem := each.without_thrift)}  # fmt: skip
        for switch in self.switches:
            switch.request_end()
        for switch in self.switches:
            switch.finish()
            outcome.counters[switch.name] = switch.counters
        for application in self._applications:
            application.finish()
        outcome.interface_counters = _interface_counters(Path("/proc/self/net/dev"), "")
        for host in self.hosts:
            proc = Path(f"/proc/{host.pid}/net")
            outcome.interface_counters |= _interface_counters(proc / "dev", host.name)
            outcome.udp_losses[host.name] = _sum(_protocol_counters(proc), NO_ROOM)
        outcome.rejected = self._malformed_frames(has_captures=self._settings.capture)
        outcome.rejected += self._remove_too_long(outcome)
        return outcome

    def rejected_frames(self) -> list[RejectedFrames]:
        """See NetworkBackend.

        The result has no example frames, because captures are incomplete while switches run.
        """
        return self._malformed_frames(has_captures=False)

    def _malformed_frames(self, *, has_captures: bool) -> list[RejectedFrames]:
        """Return the malformed frames that kernels counted, each kind with one captured example."""
        rejected = []
        for host in self.hosts:
            counters = _protocol_counters(Path(f"/proc/{host.pid}/net"))
            malformed = _sum(counters, MALFORMED) - _sum(counters, FULL_BUFFERS)
            if malformed:
                paths = [self._capture(port, "out") for port, end in self._host_links()
                         if end.node == host.name and has_captures]  # fmt: skip
                captured = itertools.chain.from_iterable(map(pcap.iterate_frames, paths))
                frames = (frame for frame in map(self._complete, captured) if frame is not None)
                example = first_example(frames, host.MAC())

                rejected.append(RejectedFrames(host.name, Fault.MALFORMED, malformed, example))
        return rejected

    def _complete(self, frame: pcap.CapturedFrame) -> tuple[int, bytes] | None:
        """Return time and bytes of a captured frame; None if the capture truncated the frame.

        A truncated frame of a flow is padded with zeros instead, because the rest of its payload is
        zero.
        """
        ports = struct.unpack_from(">HH", frame.bytes.ljust(pcap.UDP + 4), pcap.UDP)
        if len(frame.bytes) < frame.length and self._flow_ports.isdisjoint(ports):
            return None
        return frame.time_ns, frame.bytes.ljust(frame.length, b"\0")

    def _remove_too_long(self, outcome: Outcome) -> list[RejectedFrames]:
        """Return the frames that exceed the MTU of hosts, and remove them from the kernel's drops.

        If a switch sent such frames to a host, all drops at both ends of their link are removed.
        The exact number of these frames is unknown, because switches send some frames again.
        """
        rejected = []
        for port, end in self._host_links() if self._settings.capture else ():
            ends = [outcome.interface_counters[each.interface] for each in (port, end)]
            dropped = ends[1]["dropped"]
            if dropped and self._too_long(port, "out") > self._too_long(port, "lost"):
                for each in ends:
                    each["dropped"] = 0
                outcome.counters[port.node]["ports"][str(port.port)]["kernel"]["send_errors"] = 0

                rejected.append(RejectedFrames(end.node, Fault.TOO_LONG, dropped))
        return rejected

    def _too_long(self, port: LinkEnd, capture: str) -> int:
        limit = self._settings.mtu_bytes + ETHERNET_BYTES + VLAN_TAG_BYTES
        lengths = pcap.read(self._capture(port, capture), width=1).length
        return int(np.count_nonzero(lengths > limit))

    def _host_links(self) -> list[tuple[LinkEnd, LinkEnd]]:
        """Return the links between a switch and a host, each with the switch's end first."""
        switches = {switch.name for switch in self.switches}
        return [(near, far) for link in self.links for near, far in (link, link[::-1])
                if near.node in switches and far.node not in switches]  # fmt: skip

    def _capture(self, port: LinkEnd, capture: str) -> Path:
        return self._settings.folder / f"{port.interface}_{capture}.pcap"


def check_interfaces(topo: Topo, target: str) -> None:
    """Raise TestbedError for nodes whose interface names would be too long for the kernel."""
    for _, _, info in topo.links(sort=True, withInfo=True):
        for end in "12":
            node, port = info[f"node{end}"], info[f"port{end}"]
            # interface name that Mininet's Topo specifies
            name = info.get(f"intfName{end}") or f"{node}-eth{port}"
            if target == "bmv2" and topo.isSwitch(node):
                name = panel_interface(node, port)
            if len(name) > MAX_INTERFACE:
                raise TestbedError(
                    f"node {node}: its interface name {name} exceeds {MAX_INTERFACE} characters; "
                    "use a shorter node name"
                )


def receiving_interfaces(settings: Settings) -> int:
    """Return the number of interfaces at which switches receive frames from the kernel."""
    is_switch, is_bmv2 = settings.topo.isSwitch, settings.target == "bmv2"
    in_memory = settings.wires == "memory" and not is_bmv2
    links = [[is_switch(node) for node in link] for link in settings.topo.links()]
    ports = sum(0 if in_memory and all(ends) else sum(ends) for ends in links)
    return 2 * ports if is_bmv2 else ports  # a panel has two interfaces per port


def max_open_files(settings: Settings) -> int:
    """Return an upper bound of the files that one process of a network opens."""
    topo, captures = settings.topo, 3 * (settings.capture + settings.stamp_log)
    ports = sum(topo.isSwitch(node) for link in topo.links() for node in link)
    if settings.target == "bmv2":
        ports *= 2  # those of the panels
    files = SPARE_FILES + SWITCH_FILES * len(topo.switches()) + HOST_FILES * len(topo.hosts())
    return files + (PORT_FILES + captures) * ports


def check_open_files(settings: Settings) -> None:
    """Raise TestbedError if the limit of open files is too low for the network."""
    files, limit = max_open_files(settings), resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files > limit:
        raise TestbedError(
            f"network {settings.name}: needs up to {files} open files, but the limit is {limit}; "
            f"as root, raise it with `ulimit -n {files}`, or use fewer switches"
        )


def _switch_maker(
    settings: Settings, shared: SwitchSettings, exit_stack: contextlib.ExitStack
) -> Callable[..., Minip4Switch]:
    if settings.target == "bmv2":
        panel = Program.write(compiled(Source(PANEL)), settings.folder, "bmv2-panel")
        calls = ThriftCalls()
        exit_stack.callback(calls.stop)
        return partial(Bmv2Switch, settings=shared, panel=panel, calls=calls)
    return partial(Minip4Switch, settings=shared)


class Host(Shell, Node):
    """Host without IPv6, without offloads, and with static neighbours."""

    def __init__(self, name: str, mtu_bytes: int, **params: Any) -> None:
        self._mtu_bytes = mtu_bytes
        self._addresses = "", ""  # IPv4 and MAC address, set by configure()
        super().__init__(name, **params)

    def IP(self, intf: Any = None) -> str:
        """Return the IPv4 address, even after the network has stopped."""
        return super().IP(intf) if self.intfs else self._addresses[0]

    def MAC(self, intf: Any = None) -> str:
        """Return the MAC address, even after the network has stopped."""
        return super().MAC(intf) if self.intfs else self._addresses[1]

    def startShell(self, mnopts: str | None = None) -> None:
        """Start the host's shell. Disable IPv6 before an interface comes up."""
        super().startShell(mnopts)
        self.cmd(DISABLE_IPV6)

    def enter(self) -> list[str]:
        """Return a command prefix that enters the host's network namespace."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net"]

    def configure(self, hosts: "Sequence[Host]") -> None:
        """Disable offloads, set the MTU, and add static neighbours and routes to all other hosts.

        By default, all hosts are neighbours. If the topology sets a host's `neighbours` (map from
        IPv4 to MAC address), only these are added.
        """
        self._addresses = self.IP(), self.MAC()
        interface = self.defaultIntf()
        subnet = IPv4Interface(f"{self.IP()}/{interface.prefixLen}").network
        commands = [
            f"ethtool -K {name} tx off rx off sg off tso off gso off gro off >/dev/null\n"
            f"ip link set dev {name} mtu {self._mtu_bytes}"
            for name in self.intfNames()
        ]
        own = self.params.get("neighbours")
        if own is None:
            others = {other.IP(): other.MAC() for other in hosts if other is not self}
            commands += [f"ip route replace {address} dev {interface} scope link"
                         for address in others if IPv4Address(address) not in subnet]  # fmt: skip
        if "defaultRoute" in self.params:  # parameter of Mininet, e.g. "via 10.0.0.1"
            commands.append(f"ip route replace default {self.params['defaultRoute']}")
        commands += [f"ip neigh replace {address} lladdr {mac} dev {interface}"
                     for address, mac in (others if own is None else own).items()]  # fmt: skip
        done = subprocess.run(
            [*self.enter(), "sh", "-e"], input="\n".join(commands), text=True,
            capture_output=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise TestbedError(f"host {self.name}: cannot be configured: {done.stderr.strip()}")


class Interface(Intf):
    """End of a link."""

    def delete(self) -> None:
        """Remove the interface.

        If the node's shell has ended, do nothing, because the interface is removed when the run
        ends.
        """
        with contextlib.suppress(TestbedError):
            super().delete()


class ImpairedLink(Link):
    """veth pair.

    Its ends only store the link parameters; the switches implement them.
    """

    def __init__(self, node1: Any, node2: Any, **params: Any) -> None:
        own = dict(zip(("params1", "params2"), links.of_ends(node1, node2, params), strict=True))
        plain = {key: value for key, value in params.items() if key in links.MININET_PARAMETERS}
        super().__init__(node1, node2, **{"intf": Interface, **plain, **own})


def _widen(interfaces: Sequence[str]) -> None:
    """Set the MTU of switch interfaces to SWITCH_MTU (see telemark.topology.links)."""
    commands = "".join(f"link set dev {name} mtu {SWITCH_MTU}\n" for name in interfaces)
    done = subprocess.run(
        ["ip", "-batch", "-"], input=commands, text=True, capture_output=True, check=False
    )
    if done.returncode:
        raise TestbedError(f"switch interfaces: cannot set the MTU: {done.stderr.strip()}")


def _end_of(interface: Any) -> LinkEnd:
    return LinkEnd(interface.node.name, interface.name, interface.node.ports[interface])


def _interface_counters(path: Path, node: str) -> dict[str, dict[str, int]]:
    """Read the packets and drops of each interface from /proc/net/dev, see proc(5).

    If the name of an interface (such as eth0) does not begin with the name of its node, it gets the
    name of the node as a prefix.
    """
    counters = {}
    for line in path.read_text().splitlines()[2:]:
        name, _, text = line.partition(":")
        values = [int(word) for word in text.split()]
        name = name.strip()
        if name != "lo":
            counters[name if name.startswith(node) else f"{node}-{name}"] = {
                "received": values[1],
                "sent": values[9],
                # sum of errors and drops
                "dropped": values[2] + values[3] + values[10] + values[11],
            }
    return counters


def _protocol_counters(proc: Path) -> dict[tuple[str, str], int]:
    """Read the files `snmp` and `netstat` in a folder such as /proc/net.

    Return the counters by group and name. Each group has a line of names, then a line of values.
    """
    counters = {}
    for file in ("snmp", "netstat"):
        lines = [line.split() for line in (proc / file).read_text().splitlines()]
        for (group, *names), (_, *values) in zip(lines[::2], lines[1::2], strict=True):
            for name, value in zip(names, values, strict=True):
                counters[group.removesuffix(":"), name] = int(value)
    return counters


def _sum(counters: dict[tuple[str, str], int], names: Iterable[tuple[str, str]]) -> int:
    return sum(counters.get(name, 0) for name in names)  # 0: older kernels have no MemErrors
