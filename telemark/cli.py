"""The command `telemark`; each subcommand, such as `telemark run`, is a module of its own."""

import argparse
import importlib
import sys
from collections.abc import Sequence

from telemark.session.cli import Parser

# Map from subcommand to its help text and the name of its module. The module has the functions
# add_arguments(parser) and run(args); run() returns the exit status. The map has names and not
# modules, because this package must not import packages that depend on it.
_COMMANDS = {
    "run": ("importers.cli", "run a network description of p4lang/tutorials or p4-utils"),
    "bfrt": ("importers.bfrt.cli", "run a BfRt script of a TNA program on a running switch"),
    "dta": (
        "controllers.dta.manager.cli",
        "start, query and stop a DTA system",
    ),
    "watch": ("telemark.watch.attach", "show a running network in real time on a local web page"),
    "doctor": ("telemark.doctor", "list missing dependencies and the experiments that can run"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; return its exit status, or 2 for a usage error."""
    parser = Parser(prog="telemark", description="A testbed for network telemetry research.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, (module_name, summary) in _COMMANDS.items():
        module = importlib.import_module(module_name)
        subparser = commands.add_parser(
            name, help=summary, description=module.__doc__, allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        module.add_arguments(subparser)
        subparser.set_defaults(run=module.run)
    args = parser.parse_args(arguments)
    return int(args.run(args))


if __name__ == "__main__":
    sys.exit(main())
