"""The options of sweeps, and which of them do not go together."""

import argparse
import os

KEPT = ".runs"  # in the folder of the results


def add(common: "argparse._ActionsContainer") -> None:
    """Add them to a command's."""
    add_spread(common)
    common.add_argument(
        "--again", action="store_true", help="in virtual time: do also runs that are done and kept"
    )


def add_spread(common: "argparse._ActionsContainer") -> None:
    """Those that say where runs are done."""
    common.add_argument(
        "--jobs", type=_jobs, metavar="N",
        help="runs at once, a process each (default: as many as there are cores; in real time 1)",
    )  # fmt: skip
    common.add_argument(
        "--scheduler", metavar="ADDRESS", help="have the workers of a Dask scheduler do the runs",
    )  # fmt: skip


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End the process with one line and status 2 on a mistake."""
    if options.time == "real" and (options.jobs or 1) > 1:
        parser.error(
            f"--jobs {options.jobs} needs --time virtual: in real time, runs side by side would "
            "take from each other the processor that they measure with"
        )
    for with_it, why in (
        (options.time == "real", "needs --time virtual"),
        (options.jobs, "and --jobs do not go together: workers say how many runs they do at once"),
        (options.keep, "and --keep do not go together: captures stay with the workers"),
    ):
        if options.scheduler is not None and with_it:
            parser.error(f"--scheduler {why}")


def jobs(options: argparse.Namespace) -> int:
    """How many runs to do at once: as many as there are cores for, unless it was said."""
    cores = len(os.sched_getaffinity(0)) if options.time == "virtual" else 1
    return options.jobs or max(1, cores // options.threads)


def _jobs(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 1024")
    return int(text)
