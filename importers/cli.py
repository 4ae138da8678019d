"""Run a network description of another tool: its hosts, links, programs and table entries.

FILE is a topology.json of p4lang/tutorials, or a p4app.json or NetworkAPI script (.py) of p4-utils.
The network runs until you type `exit` at Mininet's command line, or until a script of commands
ends. In real time the commands of a description run as root; telemark shows them and asks for
confirmation.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from importers import p4app, tutorials
from importers.network import DescribedNetwork
from importers.run import run_network
from telemark.backends.real.p4utils.scripts import run_script
from telemark.errors import TestbedError
from telemark.json_input import Document
from telemark.results.files import folder
from telemark.session import cli


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `telemark run`. Options that experiments also have mean the same here."""
    parser.add_argument("file", type=Path, metavar="FILE", help="the description")
    parser.add_argument(
        "--p4", type=Path, metavar="FILE",
        help="P4 program that replaces the program of the same name, or the only program",
    )  # fmt: skip
    parser.add_argument(
        "--commands", type=Path, metavar="SCRIPT",
        help="script of Mininet command line commands to run instead of a prompt",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=folder, metavar="DIR",
        help="directory of --keep files (default: results/imported/<folder of FILE>)",
    )  # fmt: skip
    parser.add_argument(
        "--yes", action="store_true", help="run the description's commands as root without asking"
    )
    cli.add_run_options(parser)


def run(options: argparse.Namespace) -> int:
    """Run the network. Return an exit status, with the same meaning as for experiments.

    A failed user command does not change the exit status.
    """
    options.file = options.file.absolute()
    place = cli.RESULTS / "imported" / options.file.parent.name
    options.out = (options.out or place).absolute()
    options.commands = options.commands and options.commands.absolute()
    options.interactive = options.time == "real" and options.commands is None
    if options.commands is None and not (options.interactive and sys.stdin.isatty()):
        why = "--time virtual" if options.time == "virtual" else "no terminal"
        print(f"telemark: error: {why}: expected --commands SCRIPT", file=sys.stderr)
        return cli.UNUSABLE
    if options.file.suffix != ".py":
        try:
            described = read(options.file, options.p4)
            if options.time == "real":
                _confirm(list_commands(described), options)
        except TestbedError as error:
            print(f"telemark: error: {error}", file=sys.stderr)
            return cli.UNUSABLE
        return cli.start("telemark", options, lambda run: run_network(described, options, run))
    if options.time == "virtual" or options.p4 or options.keep:
        why = "of p4-utils runs only in real time, with its own programs and output folder"
        print(f"telemark: error: a script {why}; remove --time virtual, --p4 and --keep",
              file=sys.stderr)  # fmt: skip
        return cli.UNUSABLE
    try:
        _confirm([f"python {options.file}"], options)
    except TestbedError as error:
        print(f"telemark: error: {error}", file=sys.stderr)
        return cli.UNUSABLE
    work = partial(run_script, options.file, commands=options.commands)
    return cli.start("telemark", options, work)


def list_commands(described: DescribedNetwork) -> list[str]:
    """Return one line per command that an imported network runs in real time."""
    lines = []
    for host in described.hosts:
        lines += [f"{host.name}: {command}" for command in host.commands]
        lines += [f"{host.name}, after {task.at_s:g} s: {task.command}" for task in host.tasks]
    return [*lines, *(f"alongside the network: {command}" for command in described.scripts)]


def _confirm(commands: Sequence[str], options: argparse.Namespace) -> None:
    """Show the commands, and ask for confirmation. With --yes, do not ask.

    Raises TestbedError if the user does not confirm.
    """
    if not commands:
        return
    if not options.yes and not sys.stdin.isatty():
        raise TestbedError(
            f"{options.file}: contains commands that run as root ({len(commands)}), but there is "
            "no terminal to confirm them; read them and use --yes"
        )
    print(f"{options.file} runs these commands as root:")
    for command in commands:
        print("  " + "".join(c if c.isprintable() else ascii(c)[1:-1] for c in command))
    if options.yes:
        return
    try:
        answer = input("Run them? [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise TestbedError(f"{options.file}: commands not confirmed; answer y or use --yes")


def read(path: Path, program: Path | None) -> DescribedNetwork:
    """Read a network description.

    `program` replaces the P4 program of the description; None keeps it.

    Raises TestbedError.
    """
    if path.is_dir():
        raise TestbedError(
            f"{path}: is a folder; pass a file in it, such as topology.json or p4app.json"
        )
    document = Document.load(path)
    if document.get("topology") is not None:
        return p4app.read(document, program)
    return tutorials.read(document, program)
