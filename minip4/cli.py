"""The `minip4` command. Each subcommand has its own module."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from minip4.errors import Minip4Error

# Each module has add_arguments(parser) and run(args) -> exit status. Only the module of the
# requested subcommand is imported.
_COMMANDS = {
    "compile": ("minip4.compiler.cli", "compile a P4 program to BMv2 JSON and P4Info"),
    "switch": ("minip4.runtime.switch.cli", "run a program as a switch with a P4Runtime server"),
    "run": ("minip4.run_command", "compile a program and run it as a switch"),
    "test": ("minip4.stf.cli", "run STF tests of a program"),
    "tables": (
        "minip4.runtime.client.tables",
        "show table entries, counters and registers of a running switch",
    ),
    "control": (
        "minip4.runtime.client.control",
        "change links and queues of a running switch, show its counters",
    ),
    "completion": ("minip4.completion", "print the completion script for bash"),
    "link": ("minip4.link.cli", "emulate a link with rate, delay and loss between two interfaces"),
}


class _Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line. It does not print the usage message."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (see --help)\n")


class _ShowVersion(argparse.Action):
    """Print the version of the distribution. In a checkout, this is the one of Telemark."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib import metadata  # noqa: PLC0415  takes a quarter of the start

        for name in ("minip4", "telemark"):
            with suppress(metadata.PackageNotFoundError):
                print(f"minip4 {metadata.version(name)}")
                break
        parser.exit()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; return its exit status, or 2 for a usage or environment error."""
    args = parse(sys.argv[1:] if arguments is None else arguments)
    try:
        return int(args.run(args))
    except Minip4Error as error:
        place = "" if error.has_place else f"minip4 {args.command}: error: "
        print(f"{place}{error}", file=sys.stderr)
        return 2


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments; `run` of the result runs the subcommand. Exits on errors."""
    parser = _Parser(prog="minip4", description="A P4 software switch.")
    parser.add_argument("--version", action=_ShowVersion, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, (module_name, summary) in _COMMANDS.items():
        subparser = commands.add_parser(name, help=summary)
        if arguments and arguments[0] == name:
            module = importlib.import_module(module_name)
            module.add_arguments(subparser)
            subparser.set_defaults(run=module.run)
    # As in p4c, the value of `--Wdisable` must be in the same argument: `--Wdisable x.p4` has no
    # value.
    arguments = ["--Wdisable=" if a == "--Wdisable" else a for a in arguments]
    if "--" in arguments and arguments[0] in ("switch", "run"):
        arguments.remove("--")  # simple_switch_grpc needs it before options of P4Runtime
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
