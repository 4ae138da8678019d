"""docs/reference/minip4.md: its examples work, and it documents every option."""

import argparse
import doctest
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from minip4.cli import _COMMANDS
from minip4.engine.shared import DROP_REASONS
from minip4.runtime.switch.port_options import LINK_KEYS, QUEUE_KEYS

MANUAL = (Path(__file__).parents[2] / "docs" / "reference" / "minip4.md").read_text()
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMESPACES = ("unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child")
MARK = "next command of the manual"


def test_examples(tmp_path: Path) -> None:
    """Create the files of the page, run its commands, and compare their output."""
    commands: list[list[str]] = []
    for language, name, text in BLOCK.findall(MANUAL):
        if name:
            (tmp_path / name).write_text(text)
        elif language == "sh":
            for line in text.splitlines(keepends=True):
                if line.startswith("$ "):
                    commands.append([line[2:], ""])
                else:
                    commands[-1][1] += line
    script = "".join(f"{command}echo '{MARK}'\n" for command, _ in commands)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    run = subprocess.run(
        [*NAMESPACES, "bash"], input=script, cwd=tmp_path, env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False,
    )  # fmt: skip
    printed = run.stdout.split(MARK + "\n")
    assert len(printed) == len(commands) + 1, run.stdout
    check = doctest.OutputChecker().check_output
    for (command, expected), got in zip(commands, printed, strict=False):
        assert check(expected, got, doctest.ELLIPSIS), f"$ {command}{got}"


@pytest.mark.parametrize("command", _COMMANDS)
def test_every_option_is_documented(command: str) -> None:
    # run has the options of two other commands
    described = ("run", "compile", "switch") if command == "run" else (command,)
    starts = [MANUAL.index(f"### minip4 {name}") for name in described]
    section = "".join(MANUAL[start : MANUAL.index("\n#", start + 1)] for start in starts)
    parser = argparse.ArgumentParser(add_help=False)
    importlib.import_module(_COMMANDS[command][0]).add_arguments(parser)
    options = [option for action in parser._actions for option in action.option_strings]
    missing = [o for o in options if f"`{o}`" not in section and o not in ("-h", "--help")]
    assert not missing


def test_every_key_and_reason_is_documented() -> None:
    words = set(re.findall(r"`(\w+)`", MANUAL))
    assert {*LINK_KEYS, *QUEUE_KEYS, *DROP_REASONS} <= words
