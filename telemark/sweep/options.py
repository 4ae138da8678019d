"""Command-line options of sweeps."""

import argparse
import os

CACHE_FOLDER = ".runs"  # subfolder of the results folder


def add(common: "argparse._ActionsContainer") -> None:
    """Add the options of sweeps."""
    add_execution_options(common)
    common.add_argument("--again", action="store_true", help="ignore cached runs in virtual time")


def add_execution_options(common: "argparse._ActionsContainer") -> None:
    """Add the options that control where the runs of a sweep are executed."""
    common.add_argument(
        "--jobs", type=_jobs, metavar="N",
        help="parallel runs, one process each (default: number of cores; in real time 1)",
    )  # fmt: skip
    common.add_argument(
        "--scheduler", metavar="ADDRESS", help="execute runs on the workers of a Dask scheduler",
    )  # fmt: skip


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """If options cannot be combined, exit with a message of one line and with status 2."""
    if options.time == "real" and (options.jobs or 1) > 1:
        parser.error(
            f"--jobs {options.jobs}: parallel runs in real time would distort each other's "
            f"measurements; use --time virtual"
        )
    if options.watch and (options.jobs or 1) > 1:
        parser.error(f"--jobs {options.jobs}: the page of --watch shows one run at a time")
    for is_conflict, problem in (
        (options.time == "real", "not available in real time; use --time virtual"),
        (options.jobs, "cannot be combined with --jobs; set the threads of the workers"),
        (options.watch, "cannot be combined with --watch, which shows runs of this machine"),
        (options.keep, "cannot be combined with --keep, because captures stay on the workers"),
    ):
        if options.scheduler is not None and is_conflict:
            parser.error(f"--scheduler: {problem}")


def jobs(options: argparse.Namespace) -> int:
    """Return the number of parallel runs: --jobs, or a number that fits the number of cores.

    With --watch, runs are sequential, because the page shows one run at a time.
    """
    if options.watch:
        return 1
    cores = len(os.sched_getaffinity(0)) if options.time == "virtual" else 1
    return options.jobs or max(1, cores // options.threads)


def _jobs(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 1024")
    return int(text)
