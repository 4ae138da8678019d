"""Which experiments there are, whose system each is, and which cannot run here."""

import argparse
import shutil
from dataclasses import dataclass
from pathlib import Path

from telemark.backends.real.targets import bmv2
from telemark.results import reference

# Experiments whose question excludes bmv2, and why.
OF_MINIP4 = {
    "ebpf_edge": "bmv2's clock is not that of hosts' edges",
    # Not so by its question: its checks of single packets know no bounds for bmv2's stamps yet.
    "int_microburst": "its checks of single packets are for minip4's stamps",
    "int_overhead": "its links' times are held against theory to the nanosecond",
}


@dataclass(frozen=True)
class Experiment:
    """A script in experiments/."""

    script: Path

    @property
    def name(self) -> str:
        return self.script.stem

    @property
    def system(self) -> str | None:
        """The system whose shared/ package the script uses: `ampm`, `int`, ...; None if none."""
        system, _, _ = self.name.partition("_")
        if self.is_in_the_kernel:
            return "xdp"  # ebpf_topk, say
        return system if (self.script.parent / "shared" / system).is_dir() else None

    @property
    def is_in_the_kernel(self) -> bool:
        """Whether its programs are the kernel's: XDP's and other eBPF."""
        return self.name.startswith(reference.IN_THE_KERNEL)

    def unfit(self, options: argparse.Namespace) -> str | None:
        """Why it cannot run with these options on this machine; None where it can."""
        if self.name == "targets":
            if options.time == "virtual" or shutil.which(bmv2.PROGRAM) is None:
                return f"it needs bmv2 ({bmv2.PROGRAM} on PATH) and real time"
        elif self.name in reference.PROCESSES and options.time == "virtual":
            return "what a process takes is of real time alone"
        elif self.is_in_the_kernel and options.time == "virtual":
            return "programs in the kernel are of real time alone"
        if options.target == "bmv2":
            return self._excludes_bmv2()
        return None

    def _excludes_bmv2(self) -> str | None:
        """Why its question is none about bmv2; None if it is."""
        if not reference.has_switches(self.name):
            return "it has no switch"
        return OF_MINIP4.get(self.name)


def experiments(folder: Path) -> list[Experiment]:
    """Those in a folder, by name."""
    return [Experiment(script) for script in sorted(folder.glob("[!_]*.py"))]
