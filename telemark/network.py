"""Network of a run: a Mininet topology with P4 switches. It runs inside a `with` block."""

import contextlib
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from mininet.topo import Topo

from telemark import programs
from telemark.accounting.drops import check_drop_reasons
from telemark.accounting.rejected import RejectedFrames
from telemark.apps.application import Application, RunningApplication
from telemark.backends.backend import WIRES, LinkEnd, NetworkBackend, Settings, derive_seed
from telemark.backends.real.network import MininetBackend
from telemark.backends.real.targets.bmv2 import panel_interface
from telemark.backends.virtual.clock import VirtualClock
from telemark.backends.virtual.network import VirtualBackend
from telemark.errors import TestbedError, note_invalid
from telemark.results.provenance import P4Source
from telemark.session.run import Run
from telemark.topology.checks import (
    check_addresses,
    check_cpu_ports,
    check_ports,
    check_topology,
    device_ids,
)
from telemark.topology.links import ETHERNET_BYTES, USUAL_MTU, check_mtu
from telemark.watch.publisher import Publisher

__all__ = ["LinkEnd", "Network"]

CAPTURES = ("in", "out", "lost", "taken", "sending", "sent")
MAX_CONTROL_DELAY_US = 3_600_000_000  # one hour, the same maximum as for links


class Network:
    """Hosts, links, and switches that run P4 programs.

    `program` is a path, relative to the working directory or to the repository's root. It may also
    be a mapping from switches to paths: `dict.fromkeys(topo.switches(), "router.p4") | {"s1":
    "source.p4"}`. `defines` are macros for the compiler: `{"ROWS": 1024}`. Macros for a single
    switch are a mapping under the name of the switch: `{"ROWS": 1024, "s1": {"ROLE": 2}}`.

    Link parameters are those of Telemark (telemark.topology.links), `addLink(a, b, delay_us=500,
    loss_probability=0.01)`, or those of Mininet, `addLink(a, b, delay="500us", loss=1)`. Switches
    apply them at egress ports. So a link between two switches applies them in both directions, and
    a link between a switch and a host only towards the host. `params1={...}` and `params2={...}`
    replace parameters for one direction. Each end has its own pseudo-random generator.

    `mtu_bytes` is the MTU of hosts. Switches forward frames of up to 9,216 bytes.
    `control_delay_us` is the one-way delay of messages between controllers and switches; it exists
    only in virtual time (default: 0). With `stamp_log`, switches log the times at which they read
    and send frames; it exists only in real time. `expected_drops` are drop reasons
    (telemark.accounting.drops) that cause no warning. `wires` is what carries frames between minip4
    switches in real time: "memory", or "veth" pairs of the kernel, at which other programs also see
    the frames (default: the option `--wires`).

    Counters and captures are complete after the `with` block, and exist until the run ends. The
    run's option `--time` selects the backend: Mininet or virtual time.
    """

    def __init__(
        self,
        topo: Topo,
        run: Run,
        *,
        program: programs.Programs,
        defines: programs.Macros | None = None,
        name: str = "network",
        mtu_bytes: int = USUAL_MTU,
        capture: bool = True,
        switch_options: Mapping[str, Sequence[str]] | None = None,
        control_delay_us: float = 0.0,
        stamp_log: bool = False,
        expected_drops: Collection[str] = (),
        wires: str | None = None,
    ) -> None:
        self.topo = topo
        self.name = name
        self.folder = run.folder / name
        self.seed = derive_seed(run.seed, name)
        self.mtu_bytes = check_mtu(mtu_bytes)
        self.links: list[tuple[LinkEnd, LinkEnd]] = []
        self.counters: dict[str, dict[str, Any]] = {}  # map from switch to its counters
        # map from interface to its kernel counters
        self.interface_counters: dict[str, dict[str, int]] = {}
        # map from host to the number of datagrams that its kernel dropped
        self.udp_losses: dict[str, int] = {}
        self.rejected: list[RejectedFrames] = []  # frames that hosts rejected
        self.applications: list[RunningApplication] = []
        self.drop_report = run.drop_report
        self.publisher = run.publisher  # sends data to the page of --watch
        self._run = run
        self._program = program
        self._defines = defines or {}
        self._capture = capture
        self._switch_options = dict(switch_options or {})
        self._control_delay_us = control_delay_us
        self._stamp_log = stamp_log
        if wires not in (None, *WIRES):
            raise TestbedError(f"wires {wires!r}: expected {' or '.join(WIRES)}")
        self._wires = wires
        self.expected_drops = check_drop_reasons(expected_drops)
        self._switches: dict[str, Any] = {}
        self._hosts: dict[str, Any] = {}
        # map from node to (map from neighbour to the node's end of the link)
        self._ends: dict[str, dict[str, LinkEnd]] = {}
        self._backend: NetworkBackend | None = None
        self._exit_stack = contextlib.ExitStack()

    def __enter__(self) -> "Network":
        with contextlib.ExitStack() as exit_stack:
            self._start(exit_stack)
            self._exit_stack = exit_stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        with self._exit_stack:
            if kind is None:
                if self._run.interactive:
                    self.command_line()
                self._finish()
            elif issubclass(kind, Exception):
                # The cause of the exception may be a rejected frame or a dead switch.
                self.drop_report.rejected += self.backend.rejected_frames()
                self.backend.check_alive()

    def switch(self, name: str) -> Any:
        """Return a switch, with .name .device_id .grpc_address .p4info_path .blob_path."""
        return self._node(name, self._switches)

    def host(self, name: str) -> Any:
        """Return a host, with .name .IP() .MAC(); in real time a Mininet host."""
        return self._node(name, self._hosts)

    @property
    def has_panels(self) -> bool:
        """True if each switch is a bmv2 behind a panel (telemark/backends/real/targets/bmv2.py)."""
        return self._run.target == "bmv2"

    def neighbours(self, node: str) -> list[str]:
        """Return the neighbours of a node, in the order of its links."""
        return list(self._ends.get(node, {}))

    def send_frames(self, host: str, times_ns: Sequence[int], frames: Sequence[bytes]) -> None:
        """Send raw frames from a host at ascending times of the run's clock.

        A frame whose time has passed is sent immediately. A frame that is due more than one second
        after the end of the `with` block is not sent. To create single frames, use scapy, e.g.
        `bytes(Ether() / IP() / ...)`. To read frames from captures, use
        telemark.accounting.pcap.read_frames(). Raises TestbedError.
        """
        self.host(host)  # raises TestbedError for an unknown host
        if len(times_ns) != len(frames) or any(a > b for a, b in pairwise(times_ns)):
            raise TestbedError("send_frames: expected ascending times, one per frame")
        limit = self.mtu_bytes + ETHERNET_BYTES
        for number, frame in enumerate(frames, start=1):
            if not ETHERNET_BYTES <= len(frame) <= limit:
                raise TestbedError(
                    f"send_frames: frame {number} has {len(frame)} bytes: "
                    f"expected {ETHERNET_BYTES} to {limit} for Network(mtu_bytes={self.mtu_bytes})"
                )
        self.backend.send_frames(host, times_ns, frames)

    def run_application(self, host: str, application: Application) -> RunningApplication:
        """Run a copy of an application on a host until the network stops.

        Returns when the application has started. Its `.result` is available after the `with` block.
        In real time, the process of the application imports the file that defines the class of the
        application. If this is a separate module, it loads faster than the experiment's script.
        Raises TestbedError if the application fails to start. If it fails later, the end of the
        `with` block raises TestbedError.
        """
        self.host(host)  # raises TestbedError for an unknown host
        if not isinstance(application, Application):
            raise TestbedError(
                f"run_application: {application!r} is not an application; expected an instance of "
                "telemark.apps.application.Application"
            )
        return self.backend.run_application(host, application)

    def interface(self, node: str, neighbour: str) -> str:
        """Return the name of the interface with which a node reaches a neighbour, e.g. `s1-eth2`.

        If there are parallel links, the interface of the first link is returned; likewise in
        port().
        """
        return self._end(node, neighbour).interface

    def port(self, switch: str, neighbour: str) -> int:
        """Return the number of the port at which a switch reaches a neighbour."""
        return self._end(switch, neighbour).port

    def capture(self, switch: str, neighbour: str, what: str, *, inner: bool = False) -> Path:
        """Return the path of a capture at the port of a switch that leads to a neighbour.

        For parallel links, pass the name of the interface (`s1-eth3`) as `neighbour`. `what`
        selects the frames that the port received ("in"), that it gave to the link ("out"), or that
        the link lost ("lost"). With `stamp_log`, `what` may also select captures with other times:
        when frames were read from the port's ring ("taken"), when the send call began ("sending")
        and when it ended ("sent"). `inner` is for bmv2: it selects the port of the panel switch
        (minip4, between bmv2 and the links) that leads to bmv2. At this port, "out" frames enter
        bmv2, and "in" frames leave bmv2.
        """
        if what not in CAPTURES:
            raise ValueError(f"capture {what!r}: expected one of {CAPTURES}")
        ends = [near for link in self.links for near, far in (link, link[::-1])
                if near.node == switch and neighbour in (far.node, near.interface)]  # fmt: skip
        if len(ends) > 1:
            names = ", ".join(end.interface for end in ends)
            raise TestbedError(
                f"capture: {len(ends)} links from {switch} to {neighbour}; pass an interface "
                f"instead of {neighbour}: {names}"
            )
        end = ends[0] if ends else self._end(switch, neighbour)  # raises TestbedError
        interface = panel_interface(switch, end.port) if inner else end.interface
        return self.folder / f"{interface}_{what}.pcap"

    async def run_script(self, script: Path) -> None:
        """Run the commands of a script, one Mininet CLI command per line.

        In virtual time, only the commands of telemark.backends.virtual.command_line exist. Raises
        TestbedError for other commands, or if the script does not exist.
        """
        self._run.progress.pause()
        await self.backend.run_script(script)

    def command_line(self) -> None:
        """Start Mininet's CLI, and return after `exit`. Needs real time and a terminal."""
        self._run.progress.pause()
        print(f"Network {self.name}: type `exit` to continue, `help` for a list of commands")
        self.backend.command_line()

    def discard(self) -> None:
        """Remove captures and logs before the run ends. With --keep, keep them."""
        if not self._run.keeps:
            shutil.rmtree(self.folder)

    @property
    def backend(self) -> NetworkBackend:
        """Backend of the network. Raises RuntimeError before the `with` block."""
        if self._backend is None:
            raise RuntimeError("the network runs only inside its `with` block")
        return self._backend

    def _node(self, name: str, nodes: Mapping[str, Any]) -> Any:
        _ = self.backend  # raises RuntimeError if the network is not up
        if name not in nodes:
            names = ", ".join(nodes)
            raise TestbedError(f"network {self.name}: no node {name}; expected one of {names}")
        return nodes[name]

    def _end(self, node: str, neighbour: str) -> LinkEnd:
        try:
            return self._ends[node][neighbour]
        except KeyError:
            raise TestbedError(f"network {self.name}: no link from {node} to {neighbour}") from None

    def _start(self, exit_stack: contextlib.ExitStack) -> None:
        if not sys.stdin.isatty() and self._run.interactive:
            raise TestbedError("--interactive needs a terminal")
        check_topology(self.topo)
        unknown = self._switch_options.keys() - {*self.topo.switches()}
        if unknown:
            raise TestbedError(f"switch_options: no switches {', '.join(sorted(unknown))}")
        ids = device_ids(self.topo)
        check_ports(self.topo, self._run.target)
        if not 0 <= self._control_delay_us <= MAX_CONTROL_DELAY_US:
            raise TestbedError(
                f"control_delay_us {self._control_delay_us:g}: "
                f"expected 0 to {MAX_CONTROL_DELAY_US:g}"
            )
        sources = programs.sources(self.topo.switches(), self._program, self._defines)
        names = sorted({source.path.name for source in sources.values()})
        self._report_progress(f"compiling {', '.join(names)}")
        self.folder.mkdir()
        new = {*sources.values()} - self._run.programs.keys()
        built = programs.build(sources, self.folder, self._run.programs)
        architectures = {name: each.compiled.architecture for name, each in built.items()}
        check_cpu_ports(self.topo, self._switch_options, architectures)
        settings = Settings(
            topo=self.topo,
            name=self.name,
            folder=self.folder,
            programs=built,
            seed=self.seed,
            mtu_bytes=self.mtu_bytes,
            capture=self._capture,
            snaplen=self._run.snaplen,
            target=self._run.target,
            switch_options=self._switch_options,
            device_ids=ids,
            control_delay_ns=round(self._control_delay_us * 1000),
            threads=self._run.threads,
            stamp_log=self._stamp_log,
            wires=self._wires or self._run.wires,
            report_progress=self._report_progress,
            publisher=self._run.publisher,
            metrics=self._run.metrics,
        )
        self._run.origin.programs |= {P4Source.read(source.path, source.defines) for source in new}
        self._backend = _backend(settings, self._run)
        self._backend.start(exit_stack)
        check_addresses(self._backend.hosts)
        self._switches = {switch.name: switch for switch in self._backend.switches}
        self._hosts = {host.name: host for host in self._backend.hosts}
        self.links = list(self._backend.links)
        for link in self.links:
            for near, far in (link, link[::-1]):
                self._ends.setdefault(near.node, {}).setdefault(far.node, near)
        if self._run.publisher is not None:
            now_ns = self._run.clock.now_ns()
            self._run.publisher.start_network(self.name, self.topo, self._backend.switches, now_ns)
            exit_stack.callback(self._stop_watching, self._run.publisher)

    def _stop_watching(self, publisher: Publisher) -> None:
        publisher.stop_network(self.counters, self._run.clock.now_ns())

    def _report_progress(self, text: str) -> None:
        self._run.progress.update(f"{self.name}: {text}")

    def _finish(self) -> None:
        """Stop the switches and read all counters."""
        self._report_progress("stopping")
        outcome = self.backend.finish()
        self.counters = outcome.counters
        self.interface_counters = outcome.interface_counters
        self.udp_losses = outcome.udp_losses
        self.rejected = outcome.rejected
        self.applications = outcome.applications
        for remark in outcome.remarks:
            self._run.progress.say(f"{self.name}: {remark}")
        for error in outcome.invalid:
            note_invalid(error)
        self.drop_report.add_network(self.name, self.counters, self.expected_drops)
        self.drop_report.rejected += self.rejected


def _backend(settings: Settings, run: Run) -> NetworkBackend:
    if isinstance(run.clock, VirtualClock):
        return VirtualBackend(settings, run.clock)
    if settings.control_delay_ns:
        raise TestbedError("control_delay_us: not configurable in real time; use --time virtual")
    return MininetBackend(settings)
