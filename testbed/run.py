"""What an experiment gets to know about its run."""

from dataclasses import dataclass, field
from pathlib import Path

from minip4.compiler import CompiledProgram
from minip4.wire.shared import SNAPLEN
from testbed.bearing import Bearing
from testbed.clock import Clock, RealClock
from testbed.programs import Source
from testbed.progress import Progress
from testbed.results.provenance import Origin
from testbed.truth.undelivered import Undelivered


@dataclass(frozen=True)
class Spread:
    """Where the runs of a sweep in virtual time are done: see testbed.sweep."""

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
    spread: Spread = field(default_factory=Spread)
    programs: dict[Source, CompiledProgram] = field(default_factory=dict)  # of all its networks
    undelivered: Undelivered = field(default_factory=Undelivered)  # by all its networks
    threads: int = 1  # of each network in virtual time
    bearings: list[Bearing] = field(default_factory=list)  # what its networks bear
