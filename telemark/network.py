"""The network of a run: a Mininet topology with P4 switches, up for the time of a `with` block."""

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
from telemark.backends.backend import LinkEnd, NetworkBackend, Settings, derive_seed
from telemark.backends.real.network import MininetBackend
from telemark.backends.real.targets.bmv2 import panel_interface
from telemark.backends.virtual.clock import VirtualClock
from telemark.backends.virtual.network import VirtualBackend
from telemark.errors import TestbedError
from telemark.results.provenance import P4Source
from telemark.session.run import Run
from telemark.topology.checks import check_addresses, check_ports, check_topology, device_ids
from telemark.topology.links import ETHERNET_BYTES, USUAL_MTU, check_mtu

__all__ = ["LinkEnd", "Network"]

CAPTURES = ("in", "out", "lost", "taken", "sending", "sent")
MAX_CONTROL_DELAY_US = 3_600_000_000  # an hour, as for links


class Network:
    """Hosts, links, and switches that run P4 programs.

    `program` is a path, from here or from the repository's root, or a mapping of each switch to
    one: `dict.fromkeys(topo.switches(), "router.p4") | {"s1": "source.p4"}`. `defines` are macros
    that they are compiled with, `{"ROWS": 1024}`; a switch's own stand below its name,
    `{"ROWS": 1024, "s1": {"ROLE": 2}}`.

    The properties of a topology's links, `addLink(a, b, delay_us=500, loss_probability=0.01)` or
    in Mininet's words `addLink(a, b, delay="500us", loss=1)` (see telemark.topology.links), hold
    behind the egress port of each end that is a switch: in both directions between two switches,
    and only towards the host on a host's link. One direction alone: `params1={...}`,
    `params2={...}`, which come before the link's own. Each end has dice of its own.

    `mtu_bytes` is the longest IP packet that hosts send and take. Switches pass on frames of up to
    9,216 bytes, whatever their programs add to them.
    After the `with` block, counters and captures are complete, and stay until the run ends.
    `control_delay_us` is what a message between a controller and a switch takes, each way; for
    virtual time only, where it is 0 else. `stamp_log` has switches capture when they handled
    frames, in real time (in virtual time that takes none).
    `expected_drops` are reasons (telemark.accounting.drops) for which switches are to drop packets:
    a run whose switches drop for others warns of it.
    Whether it is made of namespaces or lives in virtual time is the run's affair (`--time`).
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
    ) -> None:
        self.topo = topo
        self.name = name
        self.folder = run.folder / name
        self.seed = derive_seed(run.seed, name)
        self.mtu_bytes = check_mtu(mtu_bytes)
        self.links: list[tuple[LinkEnd, LinkEnd]] = []
        self.counters: dict[str, dict[str, Any]] = {}  # switch -> what `minip4 switch` counted
        self.interface_counters: dict[str, dict[str, int]] = {}  # interface -> kernel's counters
        self.udp_losses: dict[str, int] = {}  # host -> datagrams for which its kernel had no room
        self.rejected: list[RejectedFrames] = []  # by hosts, for a wrong checksum or length
        self.applications: list[RunningApplication] = []
        self.drop_report = run.drop_report
        self._run = run
        self._program = program
        self._defines = defines or {}
        self._capture = capture
        self._switch_options = dict(switch_options or {})
        self._control_delay_us = control_delay_us
        self._stamp_log = stamp_log
        self.expected_drops = check_drop_reasons(expected_drops)
        self._switches: dict[str, Any] = {}
        self._hosts: dict[str, Any] = {}
        self._ends: dict[str, dict[str, LinkEnd]] = {}  # node -> neighbour -> the node's end
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
                self.drop_report.rejected += (
                    self.backend.rejected_frames()
                )  # may be the cause of it
                self.backend.check_alive()  # what a controller met may come of a dead switch

    def switch(self, name: str) -> Any:
        """A switch: .name .device_id .grpc_address .p4info_path .blob_path."""
        return self._node(name, self._switches)

    def host(self, name: str) -> Any:
        """A host: .name .IP() .MAC(), and in real time all that Mininet's have."""
        return self._node(name, self._hosts)

    @property
    def has_panels(self) -> bool:
        """Whether its switches are bmv2s, each behind a panel."""
        return self._run.target == "bmv2"

    def neighbours(self, node: str) -> list[str]:
        """What a node is linked to, in the order of its links."""
        return list(self._ends.get(node, {}))

    def send_frames(self, host: str, times_ns: Sequence[int], frames: Sequence[bytes]) -> None:
        """Have a host send frames as they are, each at its time of the run's clock (ascending).

        Those whose time has passed are sent at once; those due later than a second after the
        `with` block are not. For single packets, `bytes(Ether() / IP() / ...)` of scapy; for
        captures see telemark.accounting.pcap.read_frames(). Raises TestbedError.
        """
        self.host(host)  # which raises where there is none
        if len(times_ns) != len(frames) or any(a > b for a, b in pairwise(times_ns)):
            raise TestbedError("send_frames: expected an ascending time for each frame")
        most = self.mtu_bytes + ETHERNET_BYTES
        for number, frame in enumerate(frames, start=1):
            if not ETHERNET_BYTES <= len(frame) <= most:
                raise TestbedError(
                    f"send_frames: frame {number} has {len(frame)} bytes: "
                    f"expected {ETHERNET_BYTES} to {most}, as Network(mtu_bytes={self.mtu_bytes})"
                )
        self.backend.send_frames(host, times_ns, frames)

    def run_application(self, host: str, application: Application) -> RunningApplication:
        """Run a copy of an application at a host, from now until the network ends.

        It returns when the application listens. After the `with` block `.result` is what its
        result() returned. Its class may be in the experiment's script, but is there sooner in a
        module of its own: in real time its process imports the file. Raises TestbedError, also at
        the end of the `with` block, where the application failed.
        """
        self.host(host)  # which raises where there is none
        if not isinstance(application, Application):
            raise TestbedError(
                f"run_application: {application!r} is no application: give an object of a class "
                "below telemark.apps.application.Application"
            )
        return self.backend.run_application(host, application)

    def interface(self, node: str, neighbour: str) -> str:
        """The name of a node's interface towards a neighbour, as in `s1-eth2`.

        Of several links between them: the first; and so with port().
        """
        return self._end(node, neighbour).interface

    def port(self, switch: str, neighbour: str) -> int:
        """The number of a switch's port towards a neighbour."""
        return self._end(switch, neighbour).port

    def capture(self, switch: str, neighbour: str, what: str, *, inner: bool = False) -> Path:
        """The capture of a switch's port towards a neighbour.

        Where several links go there, give the interface's name (`s1-eth3`) in its place. `what`:
        frames that came "in", went "out" (before the link), or were "lost" by the link; with
        `stamp_log` also as they were "taken" from the port's ring, and stamped with when the call
        that handed them to the kernel began ("sending") and ended ("sent"). `inner`: on bmv2, of
        its panel's port behind that one: what goes "out" there goes into bmv2, what comes "in" has
        left it.
        """
        if what not in CAPTURES:
            raise ValueError(f"{what!r} is none of {CAPTURES}")
        ends = [near for link in self.links for near, far in (link, link[::-1])
                if near.node == switch and neighbour in (far.node, near.interface)]  # fmt: skip
        if len(ends) > 1:
            names = ", ".join(end.interface for end in ends)
            raise TestbedError(
                f"{len(ends)} links go from {switch} to {neighbour}: say which to capture(), "
                f"by its interface in place of {neighbour}: {names}"
            )
        end = ends[0] if ends else self._end(switch, neighbour)  # which raises
        interface = panel_interface(switch, end.port) if inner else end.interface
        return self.folder / f"{interface}_{what}.pcap"

    async def run_script(self, script: Path) -> None:
        """Do the commands of a script, a line each as one types it into Mininet's command line.

        In virtual time it knows only ping: see telemark.backends.virtual.command_line. Raises
        TestbedError for other commands, and if there is no script.
        """
        self._run.progress.pause()
        await self.backend.run_script(script)

    def command_line(self) -> None:
        """Let the user type commands until `exit`, in real time and at a terminal."""
        self._run.progress.pause()
        print(f"Network {self.name}: type `exit` to go on, `help` for what there is")
        self.backend.command_line()

    def discard(self) -> None:
        """Remove captures, which are large, and logs before the run's end; not with --keep."""
        if not self._run.keeps:
            shutil.rmtree(self.folder)

    @property
    def backend(self) -> NetworkBackend:
        """What the network is made of."""
        if self._backend is None:
            raise RuntimeError("the network is up only inside its with block")
        return self._backend

    def _node(self, name: str, nodes: Mapping[str, Any]) -> Any:
        _ = self.backend  # which raises when the network is not up
        if name not in nodes:
            names = ", ".join(nodes)
            raise TestbedError(f"there is no {name} in network {self.name}: there are {names}")
        return nodes[name]

    def _end(self, node: str, neighbour: str) -> LinkEnd:
        try:
            return self._ends[node][neighbour]
        except KeyError:
            raise TestbedError(
                f"there is no link from {node} to {neighbour} in network {self.name}"
            ) from None

    def _start(self, exit_stack: contextlib.ExitStack) -> None:
        if not sys.stdin.isatty() and self._run.interactive:
            raise TestbedError("--interactive needs a terminal")
        check_topology(self.topo)
        unknown = self._switch_options.keys() - {*self.topo.switches()}
        if unknown:
            raise TestbedError(f"options for switches that are not there: {sorted(unknown)}")
        numbers = device_ids(self.topo)
        check_ports(self.topo, self._switch_options, self._run.target)
        if not 0 <= self._control_delay_us <= MAX_CONTROL_DELAY_US:
            raise TestbedError(
                f"control_delay_us {self._control_delay_us:g}: "
                f"expected 0 to {MAX_CONTROL_DELAY_US:g}"
            )
        sources = programs.sources(self.topo.switches(), self._program, self._defines)
        names = sorted({source.path.name for source in sources.values()})
        self._tell(f"compiling {', '.join(names)}")
        self.folder.mkdir()
        new = {*sources.values()} - self._run.programs.keys()
        settings = Settings(
            topo=self.topo,
            name=self.name,
            folder=self.folder,
            programs=programs.build(sources, self.folder, self._run.programs),
            seed=self.seed,
            mtu_bytes=self.mtu_bytes,
            capture=self._capture,
            snaplen=self._run.snaplen,
            target=self._run.target,
            switch_options=self._switch_options,
            device_ids=numbers,
            control_delay_ns=round(self._control_delay_us * 1000),
            threads=self._run.threads,
            stamp_log=self._stamp_log,
            tell=self._tell,
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

    def _tell(self, text: str) -> None:
        self._run.progress.update(f"{self.name}: {text}")

    def _finish(self) -> None:
        """Stop the switches, and take all counters in."""
        self._tell("stopping")
        outcome = self.backend.finish()
        self.counters = outcome.counters
        self.interface_counters = outcome.interface_counters
        self.udp_losses = outcome.udp_losses
        self.rejected = outcome.rejected
        self.applications = outcome.applications
        for remark in outcome.remarks:
            self._run.progress.say(f"{self.name}: {remark}")
        self.drop_report.add_network(self.name, self.counters, self.expected_drops)
        self.drop_report.rejected += self.rejected


def _backend(settings: Settings, run: Run) -> NetworkBackend:
    if isinstance(run.clock, VirtualClock):
        return VirtualBackend(settings, run.clock)
    if settings.control_delay_ns:
        raise TestbedError("control_delay_us needs --time virtual: in real time it is what it is")
    return MininetBackend(settings)
