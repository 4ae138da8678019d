"""What an experiment leaves: samples, checks, metrics, a figure; on disk and on the screen."""

import argparse
import contextlib
import csv
import fcntl
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from testbed.errors import TestbedError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPOSITORY = Path(__file__).resolve().parents[2]
# Kinds of files, without what differs from run to run: the same data give the same file.
FIGURE_KINDS: Mapping[str, Any] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}
COMMON_OPTIONS = ("target", "time", "quick", "seed", "out", "interactive", "traceback")
PACKAGES = ("telemark", "finsy", "matplotlib", "numpy", "scapy")


@dataclass(frozen=True)
class Check:
    """A claim that was held against what was measured. NaN never passes."""

    name: str
    measured: float
    expected: float
    tolerance: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether the measured value lies within the tolerance."""
        return bool(abs(self.measured - self.expected) <= self.tolerance)


@dataclass
class Report:
    """The outcome of an experiment; `samples` has one dictionary a measurement, all alike."""

    samples: Sequence[Mapping[str, Any]]
    checks: Sequence[Check]
    metrics: Mapping[str, Any] = field(default_factory=dict)
    figure: "Figure | None" = None
    caption: str = ""  # of the figure: what it shows, of how many runs
    tables: Sequence[Table] = ()

    @property
    def passed(self) -> bool:
        """Whether every check passed; a report without a check has shown nothing."""
        return bool(self.checks) and all(check.passed for check in self.checks)

    def write(self, name: str, options: argparse.Namespace) -> None:
        """Write samples.csv, `name`.png, .svg and .pdf, and last summary.json into options.out.

        Each file is replaced whole: a run that is interrupted leaves the earlier results.
        """
        with _exclusive(options.out) as folder:
            for kind in FIGURE_KINDS if self.figure is not None else ():
                _replace(folder / f"{name}.{kind}", partial(self._draw, kind=kind))
            _replace(folder / "samples.csv", self._write_samples)
            summary = json.dumps(self.summary(name, options), indent=2, default=_plain) + "\n"
            _replace(folder / "summary.json", lambda path: path.write_text(summary))

    def summary(self, name: str, options: argparse.Namespace) -> dict[str, Any]:
        """What summary.json holds."""
        parameters = {k: v for k, v in vars(options).items() if k not in COMMON_OPTIONS}
        return {
            "experiment": name,
            "target": options.target,
            "parameters": {"time": options.time, "quick": options.quick, **parameters},
            "seed": options.seed,
            "command": " ".join(["python", *sys.argv]),
            "environment": environment(),
            "checks": [
                {
                    "name": check.name,
                    "measured": check.measured,
                    "expected": check.expected,
                    "tolerance": check.tolerance,
                    "passed": check.passed,
                }
                for check in self.checks
            ],
            "caption": self.caption,
            "metrics": dict(self.metrics),
        }

    def show(self, folder: Path) -> None:
        """Print the tables, the checks, and where the results are."""
        # Where output goes to a file, rich assumes 80 columns and would cut the cells.
        console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
        for shown in self.tables:
            console.print(shown)
        rows = [
            (check.name, check.measured, check.expected, check.tolerance,
             "passed" if check.passed else "[bold red]FAILED[/]")
            for check in self.checks
        ]  # fmt: skip
        if rows:
            console.print(table("Checks", ("check", "measured", "expected", "tolerance", ""), rows))
        else:
            console.print("[bold red]No checks[/]: nothing is claimed, so this counts as failed; "
                          "expected Report(samples, checks=[Check(...), ...])",
                          soft_wrap=True)  # fmt: skip
        files = ", ".join(sorted(path.name for path in folder.iterdir() if path.is_file()))
        console.print(f"Results in {folder}: {files}", markup=False, soft_wrap=True)

    def _draw(self, path: Path, kind: str) -> None:
        assert self.figure is not None
        self.figure.savefig(path, format=kind, metadata=FIGURE_KINDS[kind])

    def _write_samples(self, path: Path) -> None:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(self.samples[0]) if self.samples else [])
            writer.writeheader()
            writer.writerows(self.samples)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """A table for the screen; numbers stand right-aligned, floats with four digits."""
    shown = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        numeric = all(isinstance(row[index], Real) for row in rows)
        shown.add_column(column, justify="right" if numeric else "left")
    for row in rows:
        shown.add_row(*map(_shown, row))
    return shown


def _shown(value: object) -> str:
    if isinstance(value, Real) and not isinstance(value, Integral):
        return f"{float(value):.4g}"
    return str(value)


def environment() -> dict[str, Any]:
    """What of this machine and this checkout may explain a result."""
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {
        "kernel": platform.release(),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", platform.system()),
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "git": _git_revision(),
        "versions": {"python": platform.python_version(), **versions},
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _git_revision() -> str:
    """The commit, with `+` when files differ from it; `unknown` outside a checkout."""
    # Under sudo the checkout is another user's, which git else refuses to read.
    git = ["git", "-c", f"safe.directory={REPOSITORY}", "-C", str(REPOSITORY)]
    try:
        revision = subprocess.run(
            [*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()
        status = subprocess.run(
            [*git, "status", "--porcelain", "-uno"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return revision + ("+" if status else "")


def give_to_caller(path: Path) -> None:
    """Under sudo, make a file or folder the calling user's: who may then also remove it."""
    if "SUDO_UID" in os.environ:
        os.chown(path, int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"]))


def make_folder(folder: Path) -> None:
    """Make a folder for results, with those above it. Raises TestbedError."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise TestbedError(f"results cannot be written to {folder}: {error.strerror}") from None
    for path in missing:
        give_to_caller(path)


@contextlib.contextmanager
def _exclusive(folder: Path) -> Iterator[Path]:
    """Keep other runs of the same experiment from writing into the folder meanwhile."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        for stale in folder.glob(".*.partial"):  # of a run that was killed while it wrote
            stale.unlink()
        yield folder
    finally:
        os.close(descriptor)


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file beside `path`, then put it in its place."""
    partial = path.with_name(f".{path.name}.partial")
    write(partial)
    give_to_caller(partial)
    partial.replace(path)


def _plain(value: Any) -> Any:
    """JSON for numpy's scalars and arrays, and for paths."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)
