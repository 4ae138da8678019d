"""Tables of docs/reference/command-line.md, made from the argument parsers."""

import argparse
import importlib
import runpy
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn
from unittest import mock

from minip4.cli import _COMMANDS as MINIP4_COMMANDS
from telemark.cli import _COMMANDS as TELEMARK_COMMANDS
from telemark.run_all import options as run_all
from telemark.run_all.catalogue import experiments
from telemark.session.cli import Parser

ROOT = Path(__file__).resolve().parent.parent
COMMON = "common options"  # title of the group in the help text of each experiment


class _ParserFound(Exception):
    """Raised when a command parses its arguments. The exception has the command's parser."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__()
        self.parser = parser


def _parser_of(command: Callable[[], Any]) -> argparse.ArgumentParser:
    """Run a command up to the call of parse_args(), and return its parser."""

    def stop(parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        raise _ParserFound(parser)

    with mock.patch.object(Parser, "parse_args", stop):
        try:
            command()
        except _ParserFound as found:
            return found.parser
    raise SystemExit("tools/command_line.py: the command did not parse its arguments")


@contextmanager
def _without_venv_hook() -> Iterator[None]:
    """Let experiments be loaded without `_venv`, which would set a signal handler."""
    sys.modules["_venv"] = ModuleType("_venv")
    try:
        with mock.patch.object(sys, "path", [str(ROOT / "experiments"), *sys.path]):
            yield
    finally:
        del sys.modules["_venv"]  # mock.patch.dict would also remove numpy, whose import is slow


def _experiment_parser(script: Path) -> argparse.ArgumentParser:
    with _without_venv_hook():
        return _parser_of(lambda: runpy.run_path(str(script), run_name="__main__"))


def _rows(actions: Iterable[argparse.Action]) -> list[str]:
    """Return a table row for each option or positional argument."""
    formatter = argparse.HelpFormatter("command")
    rows = []
    for action in actions:
        if isinstance(action, argparse._HelpAction) or action.help == argparse.SUPPRESS:
            continue
        names = ", ".join(f"`{option}`" for option in action.option_strings)
        label = f"{names} {_value(action)}".strip()
        text = " ".join((formatter._expand_help(action) if action.help else "").split())
        rows.append(f"| {label} | {text} |")
    return rows


def _value(action: argparse.Action) -> str:
    """Return the placeholder of an option's value."""
    if action.nargs == 0:
        return ""
    if action.metavar is None and action.choices is not None:
        return " or ".join(f"`{choice}`" for choice in action.choices)
    metavar = action.metavar or action.dest.upper()
    return f"`{metavar if isinstance(metavar, str) else ' '.join(metavar)}`"


def _table(actions: Iterable[argparse.Action]) -> str:
    rows = _rows(actions)
    return "\n".join(["| option | meaning |", "|---|---|", *rows]) if rows else "No options."


def _commands(program: str, commands: dict[str, tuple[str, str]]) -> str:
    """Return a section for each subcommand of a program."""
    parts = []
    for name, (module, summary) in commands.items():
        parser = argparse.ArgumentParser(add_help=False)
        importlib.import_module(module).add_arguments(parser)
        summary = summary[0].upper() + summary[1:]
        parts.append(f"### {program} {name}\n\n{summary}.\n\n{_table(parser._actions)}")
    return "\n\n".join(parts)


def telemark_commands() -> str:
    """Return the options of `telemark run`, `dta`, `watch` and so on."""
    return _commands("telemark", TELEMARK_COMMANDS)


def minip4_commands() -> str:
    """Return the options of `minip4 compile`, `switch` and so on."""
    return _commands("minip4", MINIP4_COMMANDS)


def run_all_options() -> str:
    """Return the options of run_all.sh."""
    known = experiments(ROOT / "experiments")
    return _table(_parser_of(lambda: run_all.parse((), known, ""))._actions)


def _common(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    (group,) = [group for group in parser._action_groups if group.title == COMMON]
    return group._group_actions


def common_options() -> str:
    """Return the options that all experiments share."""
    return _table(_common(_experiment_parser(ROOT / "experiments" / "starter.py"))).replace(
        "results/starter", "results/EXPERIMENT"
    )


def experiment_options() -> str:
    """Return the options of each experiment other than the common ones."""
    parts = []
    for each in experiments(ROOT / "experiments"):
        parser = _experiment_parser(each.script)
        common = _common(parser)
        own = [action for action in parser._actions if action not in common]
        if rows := _rows(own):
            parts.append(
                "\n".join([f"### {each.name}\n", "| option | meaning |", "|---|---|", *rows])
            )
    return "\n\n".join(parts)
