"""Bring up a system of Direct Telemetry Access from one file, and ask it.

FILE (JSON) says who reports, which switches translate and what collectors keep. All is brought up,
its load is sent, its stores are asked, and all is taken down. --ask asks the stores of a run that
is over, or one that is still up, from another terminal.
"""

import argparse
import sys
from pathlib import Path

from controllers.dta.manager.configuration import Configuration, read
from controllers.dta.manager.runner import STORES, answered, opened, run_network
from telemark.errors import TestbedError
from telemark.results.files import folder
from telemark.session import cli


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `telemark dta`; those that experiments have too mean the same."""
    parser.add_argument("file", type=Path, metavar="FILE", help="the system")
    parser.add_argument(
        "--ask", nargs=3, action="append", metavar=("COLLECTOR", "STORE", "KEY"),
        help="ask a store of the last run in --out, of a key, a flow or a list; no run begins",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=folder, metavar="DIR",
        help="where stores and what --keep keeps are (default: results/dta/<name of FILE>)",
    )  # fmt: skip
    parser.add_argument(
        "--interactive", action="store_true",
        help="then keep the network up with Mininet's command line",
    )  # fmt: skip
    cli.add_run_options(parser)


def run(options: argparse.Namespace) -> int:
    """Exit status: 0 when all was done, whatever was found; 2 for what is wrong in the file."""
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
    memories = opened(made, options.out / STORES)
    for collector, store, key in options.ask:
        if (collector, store) not in memories:
            known = ", ".join(" ".join(each) for each in memories)
            raise TestbedError(f"--ask {collector} {store}: expected one of {known}")
        kept = made.collectors[collector][store]
        print(answered(kept, memories[collector, store], f"{collector} {store}", key))
