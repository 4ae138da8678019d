"""What an experiment gets to know about its run."""

from dataclasses import dataclass, field
from pathlib import Path

from minip4.compiler import CompiledProgram
from minip4.wire.shared import SNAPLEN
from telemark.accounting.drops import DropReport
from telemark.capacity_probe import CapacityEstimate
from telemark.programs import Source
from telemark.results.provenance import Origin
from telemark.session.clock import Clock, RealClock
from telemark.session.progress import Progress


@dataclass(frozen=True)
class SweepOptions:
    """Where the runs of a sweep in virtual time are done: see telemark.sweep."""

    jobs: int = 1  # processes
    kept: Path | None = None  # a folder for what is done
    again: bool = False  # do also what is there
    scheduler: str | None = None  # of Dask: its workers do them
    used: set[Path] = field(default_factory=set)  # files there, of this run


@dataclass
class Run:
    """One run of an experiment, in either kind of time."""

    name: str
    folder: Path  # logs and captures; removed when the run ends, and kept elsewhere if asked for
    seed: int
    interactive: bool = False
    target: str = "minip4"  # what runs the P4 programs
    clock: Clock = field(default_factory=RealClock)
    progress: Progress = field(default_factory=Progress)
    origin: Origin = field(default_factory=Origin)  # what its results will say of it
    keeps: bool = False  # its captures and logs
    snaplen: int = SNAPLEN  # bytes of each frame in captures
    sweep_options: SweepOptions = field(default_factory=SweepOptions)
    programs: dict[Source, CompiledProgram] = field(default_factory=dict)  # of all its networks
    drop_report: DropReport = field(default_factory=DropReport)  # by all its networks
    threads: int = 1  # of each network in virtual time
    capacities: list[CapacityEstimate] = field(default_factory=list)  # what its networks bear
