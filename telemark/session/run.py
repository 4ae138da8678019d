"""Run of an experiment: its parameters, clock, progress and reports."""

from dataclasses import dataclass, field
from pathlib import Path

from minip4.compiler import CompiledProgram
from minip4.wire.shared import SNAPLEN
from telemark.accounting.drops import DropReport
from telemark.capacity_probe import CapacityEstimate
from telemark.errors import InvalidRunError
from telemark.metrics.folder import MetricsFolder
from telemark.programs import Source
from telemark.results.provenance import Origin
from telemark.session.clock import Clock, RealClock
from telemark.session.progress import Progress
from telemark.watch.display import Display
from telemark.watch.publisher import Publisher


@dataclass(frozen=True)
class SweepOptions:
    """Options that control how sweeps are executed in virtual time; see telemark.sweep."""

    jobs: int = 1  # number of processes
    cache: Path | None = None  # folder for finished runs
    again: bool = False  # do not use finished runs from the cache
    scheduler: str | None = None  # address of a Dask scheduler
    used: set[Path] = field(default_factory=set)  # cache files that this run used


@dataclass
class Run:
    """One run of an experiment, in real or virtual time."""

    name: str
    folder: Path  # folder for logs and captures; it is removed at the end
    seed: int
    interactive: bool = False
    target: str = "minip4"  # P4 target: minip4 or bmv2
    wires: str = "veth"  # what carries frames between switches in real time: memory or veth
    clock: Clock = field(default_factory=RealClock)
    progress: Progress = field(default_factory=Progress)
    origin: Origin = field(default_factory=Origin)  # provenance of the results
    keeps: bool = False  # whether captures and logs are copied to the results
    snaplen: int = SNAPLEN  # maximum number of bytes of a frame in captures
    sweep_options: SweepOptions = field(default_factory=SweepOptions)
    # map from source to compiled program, for all programs that this run has compiled
    programs: dict[Source, CompiledProgram] = field(default_factory=dict)
    drop_report: DropReport = field(default_factory=DropReport)  # drops in all networks
    threads: int = 1  # number of threads per network in virtual time
    # capacities of networks on bmv2
    capacities: list[CapacityEstimate] = field(default_factory=list)
    inconclusive: list[InvalidRunError] = field(default_factory=list)  # why the run is inconclusive
    publisher: Publisher | None = None  # sends measurements to the page of --watch
    metrics: MetricsFolder | None = None  # metrics of collectors for --metrics

    @property
    def display(self) -> Display | None:
        """The page of --watch; None without --watch."""
        return None if self.publisher is None else self.publisher.display
