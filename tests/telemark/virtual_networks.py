"""A small network and a function to run it in virtual time in the process of the test."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from mininet.topo import Topo

from minip4.compiler import CompiledProgram
from telemark.backends.virtual.clock import VirtualClock
from telemark.programs import Source
from telemark.session.run import Run

PROGRAMS = Path(__file__).parents[1]
WIRE = PROGRAMS / "telemark" / "programs" / "wire.p4"
MARKING = WIRE.with_name("marking.p4")
# Programs are compiled once for all tests of a process, because compiling took half of their time.
# Programs written by a test have their own paths.
COMPILED: dict[Source, CompiledProgram] = {}


class Pair(Topo):
    """h1 - s1 - s2 - h2; the properties are for the link between the switches."""

    def build(self, **link: float) -> None:
        s1, s2 = self.addSwitch("s1"), self.addSwitch("s2")
        self.addLink(self.addHost("h1"), s1)
        self.addLink(s1, s2, **link)
        self.addLink(s2, self.addHost("h2"))


def virtually(
    folder: Path, main: Callable[[Run], Awaitable[Any]], seed: int = 1, threads: int = 1
) -> Any:
    """Run `main` in virtual time and return its result."""
    folder.mkdir(exist_ok=True)
    clock = VirtualClock()
    run = Run("test", folder, seed, clock=clock, programs=COMPILED, threads=threads)
    return clock.run(main(run))  # type: ignore[arg-type]
