"""Start a Direct Telemetry Access (DTA) system from one file, and query it.

FILE (JSON) describes reporters, translators and collectors. The command starts the system, sends
its reports and flows, queries its stores and stops it. With --ask, the command queries the stores
of a finished run, or of a run in another terminal.
"""

import argparse
import sys
from pathlib import Path

from controllers.dta.manager.configuration import Configuration, read
from controllers.dta.manager.runner import STORES, format_answer, open_memories, run_network
from telemark.errors import TestbedError
from telemark.results.files import folder
from telemark.session import cli


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `telemark dta`. Options that experiments also have mean the same here."""
    parser.add_argument("file", type=Path, metavar="FILE", help="the system")
    parser.add_argument(
        "--ask", nargs=3, action="append", metavar=("COLLECTOR", "STORE", "KEY"),
        help="query a store of the last run in --out for a key, flow or list; do not start a run",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=folder, metavar="DIR",
        help="directory for stores and --keep files (default: results/dta/<name of FILE>)",
    )  # fmt: skip
    parser.add_argument(
        "--interactive", action="store_true",
        help="keep the network up with Mininet's command line",
    )  # fmt: skip
    cli.add_run_options(parser)
    cli.add_metrics_option(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command and return the exit status.

    The status is 0 even if queries give wrong answers, and 2 for an error in the file.
    """
    options.out = (options.out or cli.RESULTS / "dta" / options.file.stem).absolute()
    try:
        if options.time == "virtual" and options.interactive:
            raise TestbedError("--interactive needs --time real")
        made = read(options.file)
        if options.ask:
            _ask(made, options)
            return cli.PASSED
    except TestbedError as error:
        print(f"telemark: error: {error}", file=sys.stderr)
        return cli.UNUSABLE
    return cli.start("telemark", options, lambda run: run_network(made, options, run))


def _ask(made: Configuration, options: argparse.Namespace) -> None:
    memories = open_memories(made, options.out / STORES)
    for collector, store, key in options.ask:
        if (collector, store) not in memories:
            known = ", ".join(" ".join(each) for each in memories)
            raise TestbedError(f"--ask {collector} {store}: expected one of {known}")
        kept = made.collectors[collector][store]
        print(format_answer(kept, memories[collector, store], f"{collector} {store}", key))
