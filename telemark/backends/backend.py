"""The interface between a Network and its backend, in real or in virtual time."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mininet.topo import Topo

from telemark.accounting.rejected import RejectedFrames
from telemark.programs import Program

if TYPE_CHECKING:
    from telemark.apps.application import Application, RunningApplication
    from telemark.traffic.flows import AnyFlow, Schedule, TrafficDriver


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
    rejected: list[RejectedFrames] = field(default_factory=list)
    applications: "list[RunningApplication]" = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)  # to be told the user


class NetworkBackend(Protocol):
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

    def start(self, exit_stack: ExitStack) -> None:
        """Bring everything up; what undoes it goes into `leaving`."""

    def traffic_driver(
        self, flows: "Sequence[AnyFlow]", schedules: "Mapping[int, Schedule]"
    ) -> "TrafficDriver":
        """What sends and receives flows, each (by its id) at its times."""

    def send_frames(self, host: str, times_ns: Sequence[int], frames: Sequence[bytes]) -> None:
        """Send frames as they are, each at its time; times ascend."""

    def run_application(self, host: str, application: "Application") -> "RunningApplication":
        """Return when the application runs there."""

    def command_line(self) -> None:
        """Let the user type commands until `exit`."""

    async def run_script(self, script: Path) -> None:
        """Do the commands of a script."""

    def check_alive(self) -> None:
        """Raise TestbedError for a switch or an application that ended by itself."""

    def rejected_frames(self) -> list[RejectedFrames]:
        """Frames that hosts have dropped so far for a fault of the network."""

    def finish(self) -> Outcome:
        """Empty queues and links, stop the switches, and take all counters in."""


def derive_seed(seed: int, *names: str) -> int:
    """A seed of its own for each thing that is random, all following from one."""
    digest = hashlib.sha256("/".join([str(seed), *names]).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
