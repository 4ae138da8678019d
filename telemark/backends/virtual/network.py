"""Network in virtual time: all switches and hosts are in this process, and root is not needed."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from ipaddress import IPv4Interface
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from mininet.util import ipAdd, macColonHex

from minip4.runtime.service.stream import IDLE_TURNS, POLL_S
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
from telemark.backends.virtual.switch_options import parse
from telemark.backends.virtual.traffic import VirtualTrafficDriver
from telemark.errors import FailedRunError, TestbedError
from telemark.topology import links
from telemark.traffic.flows import AnyFlow, Schedule

if TYPE_CHECKING:
    from telemark.backends.virtual.ping_host import PingHost

POLL_NS = round(POLL_S * 1e9)
NETWORK_BITS, NETWORK = 8, 0x0A000000  # 10.0.0.0/8, Mininet's default
# maximum time to drain queues and links, as in a switch process
DRAIN_NS = 1_000_000_000
DRAIN_EVENTS = 100_000
# maximum number of events without progress of time; more events mean a loop without delay
MAX_INSTANT_EVENTS = 20_000_000
# number of events after which the traces of switches are read; with more, buffers could fill
TRACED_EVENTS = 256


class ControlTimers:
    """Times at which switches are polled for digest lists and for idle table entries.

    `minip4 switch` polls every POLL_S seconds. In virtual time, a switch is polled only if its
    controller asked for digest lists or idle entries.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._seen_calls = -1
        self._polled: list[VirtualSwitch] = []
        self._turn = 0

    def next_ns(self, switches: Iterable[VirtualSwitch], now_ns: int) -> int | None:
        """Return the time of the next poll; None if no switch needs polls."""
        # a new call of a controller may change the set of switches that need polls
        if self._plane.calls != self._seen_calls:
            self._seen_calls = self._plane.calls
            self._polled = [switch for switch in switches if switch.wants_polls]
        return (now_ns // POLL_NS + 1) * POLL_NS if self._polled else None

    def poll(self) -> None:
        """Poll the switches."""
        self._turn += 1
        for switch in self._polled:
            switch.messages.collect()
            if self._turn % IDLE_TURNS == 0:
                switch.messages.collect_idle()


@dataclass(frozen=True)
class Host:
    """Host with the attributes and methods of Mininet's hosts that other code uses."""

    name: str
    interface: IPv4Interface
    mac: str
    node: int  # number in the event queue

    @property
    def address(self) -> str:
        return str(self.interface.ip)

    def IP(self) -> str:
        return self.address

    def MAC(self) -> str:
        return self.mac

    def popen(self, *_command: Any, **_options: Any) -> NoReturn:
        """Raise TestbedError, because virtual time has no processes."""
        raise TestbedError(
            f"host {self.name}: cannot run programs in virtual time; use --time real"
        )

    cmd = cmdPrint = enter = pexec = sendCmd = popen


@dataclass
class Switch:
    """Switch with the same interface as telemark.backends.real.targets.minip4.Minip4Switch."""

    name: str
    device_id: int
    node: int
    p4info_path: Path
    blob_path: Path
    running: VirtualSwitch | None = None  # the simulated switch, while the network runs
    clock_offset_us: int | None = 0  # see Minip4Switch
    clock_error_us: float = 0
    thrift: None = None

    @property
    def grpc_address(self) -> str:
        """Target for grpc.aio channels within this process."""
        return SCHEME + self.name

    def set_link(self, port: int, **changes: Any) -> None:
        """Change parameters of the link at a port (see addLink()), from the current time on.

        Other parameters keep their values. Packets that are already in flight are not affected.
        Raises Minip4Error or TestbedError.
        """
        own = links.properties(changes, f"switch {self.name}, port {port}")
        self._control("set_link", port=port, **own)

    def set_queue(self, port: int, **changes: int) -> None:
        """Change `depth` (packets), `bytes`, `rate_pps` or `rate_bps` of the queues of a port.

        With `priority`, only the queue of this priority changes.
        """
        self._control("set_queue", port=port, **changes)

    def read_counters(self) -> dict[str, Any]:
        """Return the current counters, in the format of `minip4 switch --counters`."""
        counters: dict[str, Any] = self._control("counters")
        return counters

    def _control(self, call: str, **values: Any) -> Any:
        if self.running is None:
            raise TestbedError(
                f"switch {self.name}: not running; call it inside its network's `with` block"
            )
        return self.running.control(call, **values)


class VirtualBackend:
    """NetworkBackend in virtual time; also the Simulation that its VirtualClock advances."""

    def __init__(self, settings: Settings, clock: VirtualClock) -> None:
        self._settings = settings
        self._clock = clock
        self._virtual: Virtual
        self._applications: Applications
        self._running: dict[int, VirtualSwitch] = {}  # map from number of a node to its switch
        self.switches: list[Switch] = []
        self.hosts: list[Host] = []
        self.links: list[tuple[LinkEnd, LinkEnd]] = []
        self._link_options: dict[str, list[str]] = {}  # map from switch to its options for links
        # map from switch to (map from port to interface name)
        self._ports: dict[str, dict[int, str]] = {}
        self._traced: list[VirtualSwitch] = []
        # current time, and number of events that were processed when this time began
        self._instant_ns = self._instant_events = 0
        self._plane = ControlPlane(clock, settings.control_delay_ns)
        self._control_timers = ControlTimers(self._plane)

    def start(self, exit_stack: ExitStack) -> None:
        """Build the network; takes no virtual time."""
        settings, topo = self._settings, self._settings.topo
        settings.report_progress("building the network")
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
                "switch option --trace: not available with --threads; use --threads 1"
            )
        services = {s.grpc_address: self._running[s.node].service for s in self.switches}
        exit_stack.enter_context(local_channels(services, self._plane))
        self._clock.attach(self)
        exit_stack.callback(self._clock.detach)

    # --- Simulation ------------------------------------------------------------------------

    @property
    def now_ns(self) -> int:
        return self._virtual.now_ns

    @property
    def events(self) -> int:
        """Number of events since the start: arrivals of frames, and wake-ups of elements."""
        return self._virtual.events

    @property
    def partitions(self) -> list[Partition]:
        """Partitions of the network, one per thread."""
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
        stop = self._run_paced(until_ns, max_events)
        now_ns, events = self._virtual.now_ns, self._virtual.events
        if stop is Stop.SHORT:
            raise FailedRunError(
                f"at {now_ns / 1e9:g} s of virtual time: more than {self._virtual.max_packets:,} "
                "packets in the network; check multicast groups and clones for loops, or reduce "
                "queues, delays or bursts"
            )
        if now_ns != self._instant_ns:
            self._instant_ns, self._instant_events = now_ns, events
        elif events - self._instant_events > MAX_INSTANT_EVENTS:
            raise FailedRunError(
                f"virtual time stands still at {now_ns / 1e9:g} s: forwarding loop over links "
                "without delay_us or rate_bps; check the tables of the switches"
            )
        return stop

    def _run_paced(self, until_ns: int, max_events: int) -> Stop:
        """Run the network; with --watch, stop it in between for measurements.

        Tasks do not run at these stops, so results are the same as without --watch.
        """
        publisher = self._settings.publisher
        if publisher is None:
            return self._run_traced(until_ns, max_events)
        last = self._virtual.events + max_events
        while True:
            pause_ns = until_ns
            if self._virtual.next_ns is not None:  # else, time would advance without events
                pause_ns = min(until_ns, publisher.next_ns)
            stop = self._run_traced(pause_ns, last - self._virtual.events)
            if self._virtual.now_ns >= publisher.next_ns:
                publisher.pace(self._virtual.now_ns, self._read_counters)
            if stop is not Stop.REACHED or pause_ns == until_ns:
                return stop

    def _read_counters(self) -> dict[str, dict[str, Any]]:
        return {switch.name: switch.read_counters() for switch in self.switches}

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

    # --- NetworkBackend --------------------------------------------------------------------

    def traffic_driver(
        self, flows: Sequence[AnyFlow], schedules: Mapping[int, Schedule]
    ) -> VirtualTrafficDriver:
        """Create flows on the event queue."""
        hosts = {host.name: host.node for host in self.hosts}
        return VirtualTrafficDriver(
            self._virtual, self._clock, hosts, flows, schedules, seed=self._settings.seed
        )

    def send_frames(self, host: str, times_ns: Sequence[int], frames: Sequence[bytes]) -> None:
        """Schedule raw frames. A frame whose time has passed is sent immediately."""
        nodes = {host.name: host.node for host in self.hosts}
        self._virtual.send_frames(nodes[host], times_ns, frames)

    def run_application(self, host: str, application: Application) -> RunningApplication:
        """Start an application on the event queue."""
        node = next(node for node in self.hosts if node.name == host)
        settings = self._settings
        return self._applications.run(node, application, settings.display, settings.metrics)

    def command_line(self) -> None:
        raise TestbedError("--interactive: not available in virtual time; use --time real")

    async def run_script(self, script: Path) -> None:
        """See telemark.backends.virtual.command_line."""
        # Imported late, because scapy takes 0.1 s to load.
        from telemark.backends.virtual.command_line import CommandLine  # noqa: PLC0415

        hosts = {host.name: self._ping_host(host) for host in self.hosts}
        await CommandLine(hosts, self._clock, print).run_script(script)

    def _ping_host(self, host: Host) -> "PingHost":
        """Start the ping application on a host.

        The host's static neighbours are those that the topology sets. If it sets none, all hosts
        are neighbours.
        """
        from telemark.backends.virtual.ping_host import PingHost  # noqa: PLC0415

        info = self._settings.topo.nodeInfo(host.name)
        others = {other.address: other.mac for other in self.hosts if other is not host}
        gateway = info.get("defaultRoute", "").removeprefix("via ").partition(" ")[0]
        ping_host = PingHost(host.interface, gateway or None, info.get("neighbours", others))
        self._applications.begin(host, ping_host)
        return ping_host

    def check_alive(self) -> None:
        """Do nothing, because switches and applications run in this process."""

    def rejected_frames(self) -> list[RejectedFrames]:
        """See NetworkBackend."""
        rejected = []
        for host in self.hosts:
            counted = self._virtual.host_counters(host.node)
            if malformed := counted["header_errors"] + counted["checksum_errors"]:
                first = self._virtual.first_malformed(host.node)
                example = first_example([first] if first else [], host.mac)
                rejected.append(RejectedFrames(host.name, Fault.MALFORMED, malformed, example))
            if too_long := counted["too_long"]:
                rejected.append(RejectedFrames(host.name, Fault.TOO_LONG, too_long))
        return rejected

    def finish(self) -> Outcome:
        """Drain queues and links and read all counters."""
        self._applications.close()
        end_ns = self._virtual.now_ns + DRAIN_NS
        while (due_ns := self._virtual.next_ns) is not None and due_ns <= end_ns:
            if self._run(due_ns, DRAIN_EVENTS) is Stop.CONTROL:
                self._take_messages()
            self._applications.hand_over()
        for traced in self._traced:
            traced.write_trace(is_end=True)
        outcome = Outcome(applications=self._applications.finish(), remarks=self._remarks())
        outcome.counters = self._read_counters()
        for host in self.hosts:
            counted = self._virtual.host_counters(host.node)
            outcome.interface_counters[f"{host.name}-eth0"] = {
                "received": counted["received"], "sent": counted["sent"], "dropped": 0,
            }  # fmt: skip
        outcome.rejected = self.rejected_frames()
        self._clock.detach()
        self._virtual.close()  # completes the captures
        for switch in self.switches:
            switch.running = None
        return outcome

    def _remarks(self) -> list[str]:
        """Return a message if more threads were requested, but a network used only one."""
        partitions = self._virtual.partitions
        if self._settings.threads == 1 or len(partitions) > 1:
            return []
        if any(partition.may_stop for partition in partitions):
            cause = "digests, CPU ports or applications connect all partitions"
        else:
            cause = "its links have no delay_us"
        return [f"used 1 of {self._settings.threads} threads: {cause}"]

    # --- construction ----------------------------------------------------------------------

    def _load_programs(self, exit_stack: ExitStack) -> dict[str, SwitchProgram]:
        """Load the program of each switch. Switches with the same program share one engine."""
        programs = self._settings.programs
        loaded = {
            program: SwitchProgram(program.compiled.bmv2_json, program.compiled.p4info)
            for program in dict.fromkeys(programs.values())
        }
        for program in loaded.values():
            exit_stack.callback(program.close)
        return {name: loaded[program] for name, program in programs.items()}

    def _add_switch(self, name: str) -> int:
        options = self._settings.switch_options.get(name, ())
        cpu_port = parse(name, options).cpu_port
        if cpu_port in self._settings.topo.ports.get(name, ()):
            cpu_port = None  # TNA: frames to this port leave through its link
        node = self._virtual.add_switch(cpu_port)
        number = self._settings.device_ids[name]
        program = self._settings.programs[name]
        switch = Switch(name, number, node, program.p4info_path, program.blob_path)
        self.switches.append(switch)
        self._link_options[name] = []
        self._ports[name] = {}
        return node

    def _add_host(self, name: str, number: int) -> int:
        """Add a host. Its addresses are those that Mininet assigns with autoSetMacs."""
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
                raise TestbedError(f"host {name}: has several links; virtual time supports one")
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
