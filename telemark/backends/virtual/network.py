"""A network in virtual time: all its switches and hosts in this process, without root."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from ipaddress import IPv4Interface
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from mininet.util import ipAdd, macColonHex

from minip4.runtime.switch.options import SwitchOptions
from minip4.runtime.virtual.channel import SCHEME, ControlPlane, local_channels
from minip4.runtime.virtual.switch import SwitchProgram, VirtualSwitch
from minip4.simulator.shared import CAPTURES, Stop
from minip4.simulator.virtual import NEVER, Partition, Virtual
from telemark.accounting.rejected import Fault, RejectedFrames, first_example
from telemark.apps.application import Application, RunningApplication
from telemark.backends.backend import LinkEnd, Outcome, Settings, derive_seed
from telemark.backends.virtual.applications import Applications
from telemark.backends.virtual.clock import VirtualClock
from telemark.backends.virtual.control_timers import ControlTimers
from telemark.backends.virtual.switch_options import parse
from telemark.backends.virtual.traffic import VirtualTrafficDriver
from telemark.errors import FailedRunError, TestbedError
from telemark.topology import links
from telemark.traffic.flows import AnyFlow, Schedule

if TYPE_CHECKING:
    from telemark.backends.virtual.ping_host import PingHost

    pass

NETWORK_BITS, NETWORK = 8, 0x0A000000  # 10.0.0.0/8, as Mininet's
DRAIN_NS = 1_000_000_000  # as long as a switch process takes at most to empty queues and links
DRAIN_EVENTS = 100_000
CIRCLING_EVENTS = 20_000_000  # at one instant: more than any burst that ends
TRACED_EVENTS = 256  # after so many a traced switch is asked, before its buffer is full


@dataclass(frozen=True)
class Host:
    """A host, as far as controllers and experiments ask; named as Mininet's."""

    name: str
    interface: IPv4Interface
    mac: str
    node: int  # its number in the event queue

    @property
    def address(self) -> str:
        return str(self.interface.ip)

    def IP(self) -> str:
        return self.address

    def MAC(self) -> str:
        return self.mac

    def popen(self, *_command: Any, **_options: Any) -> NoReturn:
        """Not in virtual time."""
        raise TestbedError(f"host {self.name}: programs need kernels: use --time real")

    cmd = cmdPrint = enter = pexec = sendCmd = popen


@dataclass
class Switch:
    """A switch as controllers and experiments see it; see telemark.backends.real.targets."""

    name: str
    device_id: int
    node: int
    p4info_path: Path
    blob_path: Path
    running: VirtualSwitch | None = None  # from when the network is whole, until it ends
    clock_offset_us: int | None = 0  # as Minip4Switch's
    clock_error_us: float = 0
    thrift: None = None

    @property
    def grpc_address(self) -> str:
        """A target for grpc.aio channels made in this process."""
        return SCHEME + self.name

    def set_link(self, port: int, **changes: Any) -> None:
        """Change the link behind a port from this instant on, in the words of addLink().

        What is not given stays, and so does what is on its way. Raises Minip4Error, TestbedError.
        """
        own = links.properties(changes, f"switch {self.name}, port {port}")
        self._control("set_link", port=port, **own)

    def set_queue(self, port: int, **changes: int) -> None:
        """Change depth (packets), bytes, rate_pps, rate_bps of a port's queues (or `priority`)."""
        self._control("set_queue", port=port, **changes)

    def read_counters(self) -> dict[str, Any]:
        """The counters at this instant, as `minip4 switch --counters` writes them at the end."""
        counters: dict[str, Any] = self._control("counters")
        return counters

    def _control(self, call: str, **values: Any) -> Any:
        if self.running is None:
            raise TestbedError(f"switch {self.name} does not run: ask it in its network's `with`")
        return self.running.control(call, **values)


class VirtualBackend:
    """See telemark.backends.backend.Plant; and it is what lives in a VirtualClock's time."""

    def __init__(self, settings: Settings, clock: VirtualClock) -> None:
        self._settings = settings
        self._clock = clock
        self._virtual: Virtual
        self._applications: Applications
        self._running: dict[int, VirtualSwitch] = {}  # by node
        self.switches: list[Switch] = []
        self.hosts: list[Host] = []
        self.links: list[tuple[LinkEnd, LinkEnd]] = []
        self._link_options: dict[str, list[str]] = {}  # by switch
        self._ports: dict[str, dict[int, str]] = {}  # by switch: names of interfaces
        self._traced: list[VirtualSwitch] = []
        self._instant_ns = self._instant_events = 0  # when time last went on, and events until then
        self._plane = ControlPlane(clock, settings.control_delay_ns)
        self._control_timers = ControlTimers(self._plane)

    def start(self, exit_stack: ExitStack) -> None:
        """Build everything, in no time."""
        settings, topo = self._settings, self._settings.topo
        settings.tell("building the network")
        programs = self._load_programs(exit_stack)
        self._virtual = Virtual(self._clock.now_ns(), threads=settings.threads)
        exit_stack.callback(self._virtual.close)
        nodes = {name: self._add_switch(name) for name in topo.switches()}
        nodes |= {name: self._add_host(name, number) for number, name in
                  enumerate(topo.hosts(), start=1)}  # fmt: skip
        neighbours = {host.address: host.mac for host in self.hosts}
        self._applications = Applications(self._virtual, neighbours, settings.mtu_bytes)
        for _, _, params in topo.links(sort=True, withInfo=True):
            self._add_link(nodes, params)
        if settings.capture:
            self._open_captures()
        for switch in self.switches:
            options = self._options(switch)
            switch.running = VirtualSwitch(
                self._virtual, switch.node, programs[switch.name], options,
                clock=self._clock, interfaces=self._ports[switch.name],
            )  # fmt: skip
            self._running[switch.node] = switch.running
        self._traced = [switch for switch in self._running.values() if switch.is_traced]
        if self._traced and settings.threads > 1:
            raise TestbedError(
                "a switch's --trace needs --threads 1: it is written as packets pass"
            )
        services = {s.grpc_address: self._running[s.node].service for s in self.switches}
        exit_stack.enter_context(local_channels(services, self._plane))
        self._clock.attach(self)
        exit_stack.callback(self._clock.detach)

    # --- a world in virtual time -----------------------------------------------------------

    @property
    def now_ns(self) -> int:
        return self._virtual.now_ns

    @property
    def events(self) -> int:
        """Events until now: frames that arrived somewhere, and elements that were woken."""
        return self._virtual.events

    @property
    def partitions(self) -> list[Partition]:
        """What each thread has to do."""
        return self._virtual.partitions

    @property
    def events_at_once(self) -> int:
        """See minip4.simulator.virtual.Virtual."""
        return self._virtual.events_at_once

    def advance(self, until_ns: int | None, max_events: int) -> bool:
        """See telemark.backends.virtual.clock.Simulation."""
        call_ns = self._applications.next_ns
        if until_ns is None and call_ns is None and self._virtual.next_ns is None:
            return False
        poll_ns = self._control_timers.next_ns(self._running.values(), self._virtual.now_ns)
        limits = [time_ns for time_ns in (until_ns, poll_ns, call_ns) if time_ns is not None]
        stop = self._run(min(limits, default=NEVER), max_events)
        if stop is Stop.CONTROL:
            self._take_messages()
        elif stop is Stop.INBOX:
            self._applications.hand_over()
        elif stop is Stop.REACHED:
            if self._virtual.now_ns == poll_ns:
                self._control_timers.poll()
            if call_ns is not None and call_ns <= self._virtual.now_ns:
                self._applications.call_due()
        return True

    def _run(self, until_ns: int, max_events: int) -> Stop:
        stop = self._run_traced(until_ns, max_events)
        now_ns, events = self._virtual.now_ns, self._virtual.events
        if stop is Stop.SHORT:
            raise FailedRunError(
                f"at {now_ns / 1e9:g} s of virtual time there is no memory for more packets "
                f"({self._virtual.max_packets:,} at most): where switches copy packets in a loop, "
                "mend their multicast groups or clones; else shorten queues, delays or bursts"
            )
        if now_ns != self._instant_ns:
            self._instant_ns, self._instant_events = now_ns, events
        elif events - self._instant_events > CIRCLING_EVENTS:
            raise FailedRunError(
                f"virtual time stands still at {now_ns / 1e9:g} s: frames go in circles over links "
                "without delay_us or rate_bps; look at the switches' tables"
            )
        return stop

    def _run_traced(self, until_ns: int, max_events: int) -> Stop:
        if not self._traced:
            return self._virtual.run(until_ns, max_events)
        stop = self._virtual.run(until_ns, min(max_events, TRACED_EVENTS))
        for switch in self._traced:
            switch.write_trace()
        return stop

    def _take_messages(self) -> None:
        for node in self._virtual.control_waiting():
            self._running[node].take_messages()

    # --- what is asked of a plant ----------------------------------------------------------

    def traffic_driver(
        self, flows: Sequence[AnyFlow], schedules: Mapping[int, Schedule]
    ) -> VirtualTrafficDriver:
        """Flows on the event queue."""
        hosts = {host.name: host.node for host in self.hosts}
        return VirtualTrafficDriver(
            self._virtual, self._clock, hosts, flows, schedules, seed=self._settings.seed
        )

    def send_frames(self, host: str, times_ns: Sequence[int], frames: Sequence[bytes]) -> None:
        """Frames that lie in the past are sent now."""
        nodes = {host.name: host.node for host in self.hosts}
        self._virtual.send_frames(nodes[host], times_ns, frames)

    def run_application(self, host: str, application: Application) -> RunningApplication:
        """An object of the event queue."""
        node = next(node for node in self.hosts if node.name == host)
        return self._applications.run(node, application)

    def command_line(self) -> None:
        raise TestbedError("--interactive needs --time real: virtual time stands still meanwhile")

    async def run_script(self, script: Path) -> None:
        """See telemark.backends.virtual.command_line."""
        # scapy takes a tenth of a second to load, which is for those who ping alone.
        from telemark.backends.virtual.command_line import CommandLine  # noqa: PLC0415

        hosts = {host.name: self._station(host) for host in self.hosts}
        await CommandLine(hosts, self._clock, print).run_script(script)

    def _station(self, host: Host) -> "PingHost":
        """A host that pings; it knows of the others what the topology says, or else all."""
        from telemark.backends.virtual.ping_host import PingHost  # noqa: PLC0415

        info = self._settings.topo.nodeInfo(host.name)
        everyone = {other.address: other.mac for other in self.hosts if other is not host}
        gateway = info.get("defaultRoute", "").removeprefix("via ").partition(" ")[0]
        station = PingHost(host.interface, gateway or None, info.get("neighbours", everyone))
        self._applications.begin(host, station)
        return station

    def check_alive(self) -> None:
        """Nothing: they live in this process."""

    def rejected_frames(self) -> list[RejectedFrames]:
        """See Plant."""
        refused = []
        for host in self.hosts:
            counted = self._virtual.host_counters(host.node)
            if malformed := counted["header_errors"] + counted["checksum_errors"]:
                first = self._virtual.first_malformed(host.node)
                example = first_example([first] if first else [], host.mac)
                refused.append(RejectedFrames(host.name, Fault.MALFORMED, malformed, example))
            if too_long := counted["too_long"]:
                refused.append(RejectedFrames(host.name, Fault.TOO_LONG, too_long))
        return refused

    def finish(self) -> Outcome:
        """Let queues and links run empty, and take all counters in."""
        self._applications.close()
        end_ns = self._virtual.now_ns + DRAIN_NS
        while (due_ns := self._virtual.next_ns) is not None and due_ns <= end_ns:
            if self._run(due_ns, DRAIN_EVENTS) is Stop.CONTROL:
                self._take_messages()
            self._applications.hand_over()
        for traced in self._traced:
            traced.write_trace(is_end=True)
        outcome = Outcome(applications=self._applications.finish(), remarks=self._remarks())
        for switch in self.switches:
            outcome.counters[switch.name] = switch.read_counters()
        for host in self.hosts:
            counted = self._virtual.host_counters(host.node)
            outcome.interface_counters[f"{host.name}-eth0"] = {
                "received": counted["received"], "sent": counted["sent"], "dropped": 0,
            }  # fmt: skip
        outcome.rejected = self.rejected_frames()
        self._clock.detach()
        self._virtual.close()  # so that captures are complete
        for switch in self.switches:
            switch.running = None
        return outcome

    def _remarks(self) -> list[str]:
        """Why the network was not cut, where it was to be."""
        partitions = self._virtual.partitions
        if self._settings.threads == 1 or len(partitions) > 1:
            return []
        if any(partition.may_stop for partition in partitions):
            why = "all is joined to what may stop it: digests, CPU ports, applications"
        else:
            why = "its links have no delay_us"
        return [f"one thread of {self._settings.threads} ran it, since {why}"]

    # --- building --------------------------------------------------------------------------

    def _load_programs(self, exit_stack: ExitStack) -> dict[str, SwitchProgram]:
        """What each switch runs, with one engine of each to copy."""
        of_switch = self._settings.programs
        loaded = {
            program: SwitchProgram(program.compiled.bmv2_json, program.compiled.p4info)
            for program in dict.fromkeys(of_switch.values())
        }
        for program in loaded.values():
            exit_stack.callback(program.close)
        return {name: loaded[program] for name, program in of_switch.items()}

    def _add_switch(self, name: str) -> int:
        options = self._settings.switch_options.get(name, ())
        node = self._virtual.add_switch(parse(name, options).cpu_port)
        number = self._settings.device_ids[name]
        program = self._settings.programs[name]
        switch = Switch(name, number, node, program.p4info_path, program.blob_path)
        self.switches.append(switch)
        self._link_options[name] = []
        self._ports[name] = {}
        return node

    def _add_host(self, name: str, number: int) -> int:
        """Addresses are given as Mininet gives them, with autoSetMacs."""
        info = self._settings.topo.nodeInfo(name)
        address = info.get("ip") or (
            f"{ipAdd(number, prefixLen=NETWORK_BITS, ipBaseNum=NETWORK)}/{NETWORK_BITS}"
        )
        interface, mac = IPv4Interface(address), info.get("mac", macColonHex(number))
        node = self._virtual.add_host(mac, str(interface.ip), self._settings.mtu_bytes)
        host = Host(name, interface, mac, node)
        self.hosts.append(host)
        return host.node

    def _add_link(self, nodes: dict[str, int], params: dict[str, Any]) -> None:
        params = dict(params)
        names = params.pop("node1"), params.pop("node2")
        ports = params.pop("port1"), params.pop("port2")
        properties = links.of_ends(*names, params)
        for name, port in zip(names, ports, strict=True):
            if name not in self._link_options and port != 0:
                raise TestbedError(f"host {name} has several links: virtual time takes one a host")
        ends = [LinkEnd(n, f"{n}-eth{p}", p) for n, p in zip(names, ports, strict=True)]
        self._virtual.connect(nodes[names[0]], ports[0], nodes[names[1]], ports[1])
        self.links.append((ends[0], ends[1]))
        for end, given in zip(ends, properties, strict=True):
            if end.node in self._link_options:
                self._ports[end.node][end.port] = end.interface
                seed = derive_seed(self._settings.seed, end.interface)
                self._link_options[end.node] += links.link_option(end.port, given, seed)

    def _options(self, switch: Switch) -> SwitchOptions:
        settings = self._settings
        seed = derive_seed(settings.seed, switch.name)
        words = ["--device-id", str(switch.device_id), "--seed", str(seed),
                 *self._link_options[switch.name],
                 *settings.switch_options.get(switch.name, ())]  # fmt: skip
        return parse(switch.name, words)

    def _open_captures(self) -> None:
        nodes = {switch.name: switch.node for switch in self.switches}
        ends = [end for link in self.links for end in link if end.node in nodes]
        for end in ends:
            for what in CAPTURES:
                path = self._settings.folder / f"{end.interface}_{what}.pcap"
                self._virtual.capture(nodes[end.node], end.port, what, path, self._settings.snaplen)
