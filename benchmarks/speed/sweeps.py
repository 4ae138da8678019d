"""Parallel sweeps: how much faster is an experiment with many seeds on several cores?

The benchmark starts experiments in virtual time as users start them, alternately with one process
and with one process per core. The samples of both must be identical. The benchmark measures the
wall time of the whole command, so the machine must be idle. Cores share caches and memory, and only
the runs are parallel. Therefore the benchmark also determines the best possible time. For this
time, it measures the same number of independent commands in parallel, and a command whose runs are
all cached.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import hashlib
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks.speed.shared.claims import AtMost, claims_table
from telemark import REPOSITORY
from telemark.errors import TestbedError
from telemark.results import plots
from telemark.results.report import Check, Report, Table, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep import options as sweeps

EXPERIMENTS = ("ampm_loss", "ampm_delay", "ampm_reordering")  # experiments, each with ten seeds
FOLDER = REPOSITORY / "experiments"
CLAIMED = 2  # number of processes for which the claim holds
# tolerance, as a fraction of the time with one process: scheduling takes time, and the last run may
# use only one core
OVERHEAD = 0.05


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only", choices=EXPERIMENTS, nargs="+", default=[*EXPERIMENTS], metavar="NAME",
        help=f"experiments to run: {', '.join(EXPERIMENTS)} (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--rounds", type=cli.positive_int, default=3, metavar="N",
        help="measurement rounds per experiment (default: %(default)s)",
    )  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """One run of one experiment."""

    experiment: str
    round: int
    jobs: int
    wall_s: float
    digest: str  # digest of the file of samples
    at_once: int = 1  # number of independent commands in parallel
    # True if all runs were cached, so that the command only loads modules, runs checks and draws
    is_kept: bool = False


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    cli.require_time(options, "virtual", "this benchmark measures virtual time")
    jobs = sweeps.jobs(options)
    if jobs == 1:
        raise TestbedError("--jobs 1: one process has no parallel runs; use --jobs 2 or more")
    rounds = 1 if options.quick else options.rounds
    names = options.only[:1] if options.quick else options.only
    samples = [
        sample
        for number in range(rounds)
        for name in names
        for sample in (
            measure(name, number, 1, run.folder, quick=options.quick),
            measure(name, number, jobs, run.folder, quick=options.quick),
            measure(name, number, 1, run.folder, quick=options.quick, is_kept=True),
            apart(name, number, jobs, run.folder, quick=options.quick),
        )
    ]
    results = {(sample.experiment, sample.digest) for sample in samples}
    others = len(results) - len(names)
    promised = claims(samples, names) if jobs == CLAIMED and not options.quick else []
    return Report(
        samples=[asdict(sample) for sample in samples],
        checks=[Check("results with different bytes", others, 0), *promised],
        figure=draw(samples, names, jobs),
        caption=f"Wall time of experiments with ten seeds, with 1 and {jobs} processes: median, "
        f"minimum and maximum of {plots.count(rounds, 'round')}.",
        tables=[summary(samples, names), claims_table(promised)],
    )


def measure(
    name: str, number: int, jobs: int, folder: Path, *, quick: bool, is_kept: bool = False
) -> Sample:
    """Run an experiment either without cached runs or with all runs cached (`is_kept`)."""
    out = folder / name
    command = [sys.executable, str(FOLDER / f"{name}.py"), "--time=virtual", f"--jobs={jobs}",
               f"--out={out}"]  # fmt: skip
    command += ["--quick", "--seeds=2"] if quick else []
    command += [] if is_kept else ["--again"]
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wall_s = time.perf_counter() - began
    if done.returncode != cli.PASSED:
        raise TestbedError(f"{name}: exit status {done.returncode}: {done.stderr.strip()}")
    digest = hashlib.sha256((out / "samples.csv").read_bytes()).hexdigest()
    return Sample(name, number, jobs, wall_s, digest[:16], is_kept=is_kept)


def apart(name: str, number: int, count: int, folder: Path, *, quick: bool) -> Sample:
    """Run `count` independent one-process commands in parallel; wait for all of them."""

    def one(of: int) -> Sample:
        return measure(name, number, 1, folder / f"apart-{of}", quick=quick)

    began = time.perf_counter()
    with ThreadPoolExecutor(count) as pool:
        first, *_ = pool.map(one, range(count))
    return replace(first, wall_s=time.perf_counter() - began, at_once=count)


def walls_s(samples: list[Sample], name: str, *, alone: bool) -> list[float]:
    """Return the wall time per round with one process (`alone`) or with one process per core."""
    return [
        s.wall_s
        for s in samples
        if s.experiment == name and s.at_once == 1 and not s.is_kept and (s.jobs == 1) == alone
    ]


def min_shares(samples: list[Sample], name: str) -> list[float]:
    """Return for each round the smallest possible ratio of parallel to sequential time.

    By Amdahl's law, only the time of runs shrinks, and at most as for independent commands on
    several cores. All other time is spent on one core.
    """
    several = [s for s in samples if s.experiment == name and s.at_once > 1]
    kept = [s.wall_s for s in samples if s.experiment == name and s.is_kept]
    found = []
    for s, kept_s, one_s in zip(several, kept, walls_s(samples, name, alone=True), strict=True):
        apart_share = s.wall_s / s.at_once / one_s
        found.append(apart_share + kept_s / one_s * (1 - apart_share))
    return found


def shares(samples: list[Sample], name: str) -> list[float]:
    """Return the time of parallel runs divided by the time of sequential runs, per round."""
    pairs = zip(
        walls_s(samples, name, alone=False), walls_s(samples, name, alone=True), strict=True
    )
    return [several / one for several, one in pairs]


def claims(samples: list[Sample], names: list[str]) -> list[Check]:
    """Compare the ratio of parallel to sequential time with the smallest possible ratio."""
    return [
        AtMost.of_rounds(
            f"{name}: share of the time with {CLAIMED} processes, above the minimum, at most",
            excess_shares(samples, name), OVERHEAD)
        for name in names
    ]  # fmt: skip


def excess_shares(samples: list[Sample], name: str) -> list[float]:
    """Return for each round by how much the time ratio exceeds the smallest possible ratio."""
    pairs = zip(shares(samples, name), min_shares(samples, name), strict=True)
    return [share - least for share, least in pairs]


def summary(samples: list[Sample], names: list[str]) -> Table:
    """Return a table of medians, minima and maxima per experiment."""
    rows = []
    for name in names:
        found = [walls_s(samples, name, alone=True), walls_s(samples, name, alone=False),
                 [s.wall_s for s in samples if s.experiment == name and s.is_kept],
                 shares(samples, name), min_shares(samples, name)]  # fmt: skip
        rows.append((name, *(f"{statistics.median(x):.2f} ({min(x):.2f} to {max(x):.2f})"
                             for x in found)))  # fmt: skip
    columns = ("experiment", "one process, s", "parallel, s", "all cached, s", "share",
               "min share")  # fmt: skip
    return table("Wall time: median (min to max)", columns, rows)


def draw(samples: list[Sample], names: list[str], jobs: int) -> Figure:
    """Draw two bars per experiment, for one process and for several."""
    figure, (axes,) = plots.figure()
    places = np.arange(len(names))
    for number, (alone, label) in enumerate(((True, "1 process"), (False, f"{jobs} processes"))):
        found = [walls_s(samples, name, alone=alone) for name in names]
        middle = np.array([statistics.median(each) for each in found])
        spread = [
            middle - [min(each) for each in found],
            [max(each) for each in found] - middle,
        ]
        axes.bar(places + 0.4 * number, middle, 0.38, yerr=spread, label=label,
                 color=plots.COLOURS[number], capsize=2)  # fmt: skip
    axes.set_xticks(places + 0.2, names)
    axes.set_ylabel("Wall time (s)")
    axes.set_ylim(bottom=0)
    plots.legend(axes, 2)
    return figure


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
