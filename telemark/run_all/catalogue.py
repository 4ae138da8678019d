"""Catalogue of experiments: each one's name, its system, and why it may be unable to run here."""

import argparse
import shutil
from dataclasses import dataclass
from pathlib import Path

from telemark.backends.real.targets import bmv2
from telemark.results import reference

# Map from experiments that cannot run on bmv2 to the reasons.
MINIP4_ONLY = {
    "ebpf_edge": "bmv2's clock differs from the clock of host edges",
    "gallery_conquest": "its links, and so the queues, are outside of bmv2",
    "int_overhead": "needs links that are exact to the nanosecond, which bmv2 does not have",
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
        """Name of the package in shared/ that the script uses (`ampm`, `int`, ...), or None."""
        system, _, _ = self.name.partition("_")
        if self.is_ebpf:
            return "xdp"  # e.g. ebpf_topk
        return system if (self.script.parent / "shared" / system).is_dir() else None

    @property
    def is_ebpf(self) -> bool:
        """True if the experiment runs XDP or other eBPF programs in the kernel."""
        return self.name.startswith(reference.EBPF_PREFIXES)

    def reason_to_skip(self, options: argparse.Namespace) -> str | None:
        """Return why the experiment cannot run with these options; None if it can run."""
        if option := reference.FETCHED.get(self.name):
            return (
                f"needs programs that are not part of Telemark; run experiments/{self.name}.py "
                f"with {option} FOLDER"
            )
        if self.name == "targets":
            if options.time == "virtual" or shutil.which(bmv2.PROGRAM) is None:
                return f"needs bmv2 ({bmv2.PROGRAM} on PATH) and real time"
        elif self.name in reference.PROCESSES and options.time == "virtual":
            return "measures CPU time of processes: real time only"
        elif self.is_ebpf and options.time == "virtual":
            return "runs eBPF programs in the kernel: real time only"
        if options.target == "bmv2":
            return self._reason_to_skip_bmv2()
        return None

    def _reason_to_skip_bmv2(self) -> str | None:
        """Return why the experiment cannot run on bmv2; None if it can run."""
        if not reference.has_switches(self.name):
            return "has no switch"
        return MINIP4_ONLY.get(self.name)


def experiments(folder: Path) -> list[Experiment]:
    """Return all experiments in a folder."""
    return [Experiment(script) for script in sorted(folder.glob("[!_]*.py"))]
