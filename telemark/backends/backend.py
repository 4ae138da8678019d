"""Interface between a Network and its backend (real or virtual time)."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mininet.topo import Topo

from telemark.accounting.rejected import RejectedFrames
from telemark.errors import InvalidRunError
from telemark.metrics.folder import MetricsFolder
from telemark.programs import Program
from telemark.watch.display import Display
from telemark.watch.publisher import Publisher

if TYPE_CHECKING:
    from telemark.apps.application import Application, RunningApplication
    from telemark.traffic.flows import AnyFlow, Schedule, TrafficDriver

WIRES = ("memory", "veth")  # what can carry frames between switches in real time


@dataclass(frozen=True)
class LinkEnd:
    """End of a link: the node, its interface, and the number of the port of this interface."""

    node: str
    interface: str
    port: int


@dataclass(frozen=True)
class Settings:
    """Parameters of a network."""

    topo: Topo
    name: str
    folder: Path  # folder for logs, counters and captures
    programs: Mapping[str, Program]  # map from switch to its program
    seed: int
    mtu_bytes: int  # MTU of hosts
    capture: bool
    snaplen: int  # maximum number of bytes of a frame in captures
    target: str  # P4 target, minip4 or bmv2
    # map from switch to additional options of `minip4 switch`
    switch_options: Mapping[str, Sequence[str]]
    device_ids: Mapping[str, int]  # map from switch to its device id
    control_delay_ns: int  # one-way delay of messages between controllers and switches
    threads: int  # number of threads; more than one only in virtual time
    stamp_log: bool  # whether switches log the times of their calls; only in real time
    wires: str  # one of WIRES
    report_progress: Callable[[str], None]
    publisher: Publisher | None = None  # paces virtual time for the page of --watch
    metrics: MetricsFolder | None = None  # metrics of applications for --metrics

    @property
    def display(self) -> Display | None:
        """The page of --watch; None without --watch."""
        return None if self.publisher is None else self.publisher.display


@dataclass
class Outcome:
    """Counters and results of a network that has stopped."""

    counters: dict[str, dict[str, Any]] = field(default_factory=dict)
    interface_counters: dict[str, dict[str, int]] = field(default_factory=dict)
    udp_losses: dict[str, int] = field(default_factory=dict)
    rejected: list[RejectedFrames] = field(default_factory=list)
    applications: "list[RunningApplication]" = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)  # messages to the user
    invalid: list[InvalidRunError] = field(default_factory=list)


class NetworkBackend(Protocol):
    """Nodes and links of one running network."""

    @property
    def switches(self) -> Sequence[Any]:
        """Switches, with .name .device_id .grpc_address .p4info_path .blob_path."""

    @property
    def hosts(self) -> Sequence[Any]:
        """Hosts, with .name .IP() .MAC()."""

    @property
    def links(self) -> Sequence[tuple[LinkEnd, LinkEnd]]:
        """Links as pairs of their ends."""

    def start(self, exit_stack: ExitStack) -> None:
        """Start all nodes and links; register the cleanup in `exit_stack`."""

    def traffic_driver(
        self, flows: "Sequence[AnyFlow]", schedules: "Mapping[int, Schedule]"
    ) -> "TrafficDriver":
        """Create senders and receivers of flows; `schedules` maps flow ids to schedules."""

    def send_frames(self, host: str, times_ns: Sequence[int], frames: Sequence[bytes]) -> None:
        """Send raw frames, each at its time; the times must ascend."""

    def run_application(self, host: str, application: "Application") -> "RunningApplication":
        """Start an application; return when it has started."""

    def command_line(self) -> None:
        """Run an interactive command line until `exit`."""

    async def run_script(self, script: Path) -> None:
        """Run the commands of a script."""

    def check_alive(self) -> None:
        """Raise TestbedError if a switch or an application has stopped, but should still run."""

    def rejected_frames(self) -> list[RejectedFrames]:
        """Return the frames that hosts have rejected since the network started."""

    def finish(self) -> Outcome:
        """Drain queues and links, stop the switches and read all counters."""


def derive_seed(seed: int, *names: str) -> int:
    """Derive an independent seed from a seed and names."""
    digest = hashlib.sha256("/".join([str(seed), *names]).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
