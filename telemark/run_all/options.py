"""Command-line options of run_all.sh, and the arguments of each experiment."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from telemark.run_all.catalogue import Experiment
from telemark.session import cli
from telemark.sweep import options as sweeps


def parse(arguments: Sequence[str], known: Sequence[Experiment], about: str) -> argparse.Namespace:
    """Parse the options. On an error, exit with a message of one line and with status 2."""
    parser = cli.Parser(
        prog="run_all.sh", description=about, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    names = [each.name for each in known]
    parser.add_argument(
        "--only", nargs="+", type=lambda text: Path(text).stem, choices=names, default=names,
        metavar="NAME", help="experiments to run (default: all)",
    )  # fmt: skip
    systems = sorted({each.system for each in known if each.system})
    parser.add_argument("--system", choices=systems, help="run only experiments of this system")
    parser.add_argument(
        "--again", action="store_true", help="rerun experiments that already passed"
    )
    parser.add_argument(
        "--compare", action="store_true",
        help="compare results with results/reference/; in virtual time all numbers must be equal",
    )  # fmt: skip
    common = parser.add_argument_group("options of each experiment")
    cli.add_run_options(common)
    common.add_argument(
        "--quick", action="store_true", help="short versions, at most 30 seconds each"
    )
    sweeps.add_execution_options(common)
    options = parser.parse_args(arguments)
    sweeps.check(parser, options)
    return options


def result_arguments(options: argparse.Namespace) -> list[str]:
    """Return those arguments for all experiments that may affect their results or files."""
    arguments = [f"--{name}={getattr(options, name)}" for name in ("target", "time", "seed")]
    if options.threads > 1:
        arguments.append(f"--threads={options.threads}")
    if options.snaplen is not None:
        arguments.append(f"--snaplen={options.snaplen}")
    flags = ("quick", "keep", "traceback")
    return arguments + [f"--{flag}" for flag in flags if getattr(options, flag)]


def execution_arguments(options: argparse.Namespace) -> list[str]:
    """Return those arguments for all experiments that do not affect their results."""
    values = ((name, getattr(options, name)) for name in ("jobs", "scheduler"))
    arguments = [f"--{name}={value}" for name, value in values if value is not None]
    return [*arguments, "--again"] if options.again and options.time == "virtual" else arguments
