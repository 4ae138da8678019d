"""Report of an experiment: samples, checks, metrics and figure, in files and on the screen."""

import argparse
import csv
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from telemark import REPOSITORY
from telemark.results import replay
from telemark.results.files import exclusive, replace
from telemark.results.provenance import Origin
from telemark.results.replay import Replay

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# File formats of figures. Metadata that differ between runs are left out, so that equal data give
# equal files.
FIGURE_KINDS: Mapping[str, Any] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}
# style of the word INCONCLUSIVE across the figure
INCONCLUSIVE: Mapping[str, Any] = {
    "ha": "center", "va": "center", "rotation": 20, "size": 40, "color": "red", "alpha": 0.4,
}  # fmt: skip
COMMON_OPTIONS = ("target", "time", "quick", "seed", "out", "interactive", "keep", "snaplen",
                  "traceback", "jobs", "scheduler", "again", "threads", "wires",
                  "watch", "metrics")  # fmt: skip


@dataclass(frozen=True)
class Check:
    """Comparison of a measured with an expected value. NaN never passes."""

    name: str
    measured: float
    expected: float
    tolerance: float = 0.0

    @property
    def passed(self) -> bool:
        """True if the measured value is within the tolerance."""
        return bool(abs(self.measured - self.expected) <= self.tolerance)


@dataclass(frozen=True)
class Reproduction:
    """Published number next to ours.

    `accepted` has the lowest and the highest value that agree with the published number. The range
    contains only the error of reading the number, e.g. from a figure, unless the experiment's
    docstring says more. `measured` has one value per seed. If our number differs, `reason` says
    why, and there is no check.
    """

    claim: str  # e.g. "recall of the 300 heaviest flows, 80 KB"
    source: str  # e.g. "Figure 5"
    published: str  # e.g. "over 95 %"
    accepted: tuple[float, float]
    measured: Sequence[float]
    reason: str = ""

    @property
    def median(self) -> float:
        """Median of the measured values."""
        return statistics.median(self.measured)

    @property
    def agrees(self) -> bool:
        """True if the median of the measured values is in the accepted range."""
        return self.accepted[0] <= self.median <= self.accepted[1]

    @property
    def verdict(self) -> str:
        """Result in words."""
        if self.agrees:
            return "reproduced"
        return f"not reproduced: {self.reason}" if self.reason else "not reproduced"

    def as_dict(self) -> dict[str, Any]:
        """Return the mapping for summary.json."""
        return {**asdict(self), "median": self.median, "verdict": self.verdict}

    def checks(self) -> list[Check]:
        """Return the check that the number is reproduced; none if there is a reason that not."""
        distance = max(self.accepted[0] - self.median, self.median - self.accepted[1], 0.0)
        name = f"{self.source}: {self.claim}: distance from the published value"
        return [] if self.reason else [Check(name, distance, 0)]


def reproduction_table(reproductions: Sequence[Reproduction]) -> Table:
    """Return a table of published and measured numbers."""
    return table(
        "Published and measured",
        ("claim", "source", "published", "accepted", "median", "range", "result"),
        [
            (each.claim, each.source, each.published, _interval(*each.accepted), each.median,
             _interval(min(each.measured), max(each.measured)), each.verdict)
            for each in reproductions
        ],
    )  # fmt: skip


def _interval(lowest: float, highest: float) -> str:
    return f"{lowest:.4g} to {highest:.4g}"


@dataclass
class Report:
    """Outcome of an experiment.

    `samples` has one dictionary per measurement; all dictionaries have the same keys.
    """

    samples: Sequence[Mapping[str, Any]]
    checks: Sequence[Check]
    metrics: Mapping[str, Any] = field(default_factory=dict)
    figure: "Figure | None" = None
    caption: str = ""  # caption of the figure
    replay: Replay | None = None  # for index.html; exists only in virtual time
    tables: Sequence[Table] = ()
    reproductions: Sequence[Reproduction] = ()  # published numbers next to ours
    # names of those columns of samples that depend on the machine
    machine_columns: Sequence[str] = ()
    drops: Sequence[Mapping[str, Any]] = ()  # packets that switches dropped; the run adds them
    capacities: Sequence[Mapping[str, Any]] = ()  # CapacityEstimates as mappings
    inconclusive: Sequence[str] = ()  # reasons why the run is inconclusive; the run adds them

    @property
    def passed(self) -> bool:
        """True if there are checks, and all passed."""
        return bool(self.checks) and all(check.passed for check in self.checks)

    def write(self, name: str, options: argparse.Namespace, origin: Origin) -> None:
        """Write samples.csv, `name`.png, .svg and .pdf, and then summary.json, to options.out.

        Each file is replaced atomically, so an interrupted run does not damage earlier results.
        """
        if self.inconclusive and self.figure is not None:
            self.figure.text(0.5, 0.5, "inconclusive", **INCONCLUSIVE)
        with exclusive(options.out) as folder:
            for kind in FIGURE_KINDS if self.figure is not None else ():
                replace(folder / f"{name}.{kind}", partial(self._draw, kind=kind))
            replace(folder / "samples.csv", self._write_samples)
            (folder / replay.NAME).unlink(missing_ok=True)  # an earlier run may have written it
            if self.replay is not None:
                replace(folder / replay.NAME, self.replay.write)
            summary = strict_json(self.summary(name, options, origin))
            replace(folder / "summary.json", lambda path: path.write_text(summary))

    def summary(self, name: str, options: argparse.Namespace, origin: Origin) -> dict[str, Any]:
        """Return the content of summary.json."""
        parameters = {k: v for k, v in vars(options).items() if k not in COMMON_OPTIONS}
        return {
            "experiment": name,
            "target": options.target,
            "parameters": {"time": options.time, "quick": options.quick, **parameters},
            "seed": options.seed,
            "command": " ".join(["python", *sys.argv]).replace(f"{REPOSITORY}/", ""),
            **origin.as_dict(),
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
            "reproductions": [each.as_dict() for each in self.reproductions],
            "caption": self.caption,
            "machine_columns": [*self.machine_columns],
            "metrics": dict(self.metrics),
            "drops": list(self.drops),
            "capacities": list(self.capacities),
            "inconclusive": list(self.inconclusive),
        }

    def show(self, folder: Path) -> None:
        """Print the tables, the checks, and the path of the results."""
        # If stdout is not a terminal, rich would assume 80 columns and truncate the cells.
        console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
        for shown in self.tables:
            console.print(shown)
        if self.reproductions:
            console.print(reproduction_table(self.reproductions))
        rows = [
            (check.name, check.measured, check.expected, check.tolerance,
             "passed" if check.passed else "[bold red]FAILED[/]")
            for check in self.checks
        ]  # fmt: skip
        if rows:
            console.print(table("Checks", ("check", "measured", "expected", "tolerance", ""), rows))
        else:
            console.print("[bold red]No checks[/]: counts as failed; return "
                          "Report(samples, checks=[Check(...), ...])",
                          soft_wrap=True)  # fmt: skip
        for problem in self.inconclusive:
            console.print(f"[bold red]Inconclusive[/]: {escape(problem)}", soft_wrap=True)
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
    """Create a table for the screen. Numbers are right-aligned, and floats have four digits."""
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


def strict_json(value: Any) -> str:
    """Return JSON as RFC 8259 defines it: NaN and infinite numbers become null."""
    text = json.dumps(value, default=_plain)
    plain = json.loads(text, parse_constant=lambda _name: None)
    return json.dumps(plain, indent=2, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """Convert numpy scalars and arrays, and paths, for JSON."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)
