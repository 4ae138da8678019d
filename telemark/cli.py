"""The `telemark` command: `telemark run ...`; each of its commands is a module of its own."""

import argparse
import sys
from collections.abc import Sequence

import described.cli
import managed.dta.cli
from testbed import doctor
from testbed.cli import Parser

# Each has add_arguments(parser) and run(args) -> exit status.
_COMMANDS = {
    "run": (described.cli, "a network that somebody described: topology.json, or p4-utils' script"),
    "dta": (managed.dta.cli, "a system of Direct Telemetry Access: brought up, asked, taken down"),
    "doctor": (doctor, "what this machine has, what is missing, and which experiments can run"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: that of the command, or 2 for what the user has to mend."""
    parser = Parser(prog="telemark", description="A testbed for network telemetry research.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, (module, summary) in _COMMANDS.items():
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
