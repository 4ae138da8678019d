"""The options of run_all.sh: which experiments, and what all of them are given."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from telemark.run_all.catalogue import Experiment
from telemark.session import cli
from telemark.sweep import options as sweeps


def parse(arguments: Sequence[str], known: Sequence[Experiment], about: str) -> argparse.Namespace:
    """The options; ends the process with one line and status 2 on a mistake."""
    parser = cli.Parser(
        prog="run_all.sh", description=about, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    names = [each.name for each in known]
    parser.add_argument(
        "--only", nargs="+", type=lambda text: Path(text).stem, choices=names, default=names,
        metavar="NAME", help="run these experiments alone",
    )  # fmt: skip
    systems = sorted({each.system for each in known if each.system})
    parser.add_argument("--system", choices=systems, help="run those of one system alone")
    parser.add_argument(
        "--again", action="store_true", help="run also what passed and has not changed since"
    )
    parser.add_argument(
        "--compare", action="store_true",
        help="hold results against results/reference/; in virtual time no number may differ",
    )  # fmt: skip
    common = parser.add_argument_group("what each experiment is given")
    cli.add_run_options(common)
    common.add_argument("--quick", action="store_true", help="small versions, of 30 seconds each")
    sweeps.add_spread(common)
    options = parser.parse_args(arguments)
    sweeps.check(parser, options)
    return options


def for_each(options: argparse.Namespace) -> list[str]:
    """What every experiment is given, and what it finds depends on."""
    given = [f"--{name}={getattr(options, name)}" for name in ("target", "time", "seed")]
    if options.threads > 1:
        given.append(f"--threads={options.threads}")
    if options.snaplen is not None:
        given.append(f"--snaplen={options.snaplen}")
    flags = ("quick", "keep", "traceback")
    return given + [f"--{flag}" for flag in flags if getattr(options, flag)]


def besides(options: argparse.Namespace) -> list[str]:
    """What it is given, too, and what it finds does not depend on."""
    given = ((name, getattr(options, name)) for name in ("jobs", "scheduler"))
    sweep = [f"--{name}={value}" for name, value in given if value is not None]
    return [*sweep, "--again"] if options.again and options.time == "virtual" else sweep
