"""Commands of a description are shown before they run as root, and need confirmation."""

import argparse
import sys
from pathlib import Path

import pytest

from importers.cli import _confirm
from telemark.errors import TestbedError

FILE = Path("/x/p4app.json")
COMMANDS = ["h1: echo 1", "h2: echo \x1b[8m hidden"]
SHOWN = f"{FILE} runs these commands as root:\n  h1: echo 1\n  h2: echo \\x1b[8m hidden\n"


@pytest.mark.parametrize(
    ("answer", "is_run"), [("y", True), ("Yes ", True), ("", False), ("n", False)]
)
def test_at_a_terminal_the_answer_decides(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str, is_run: bool
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _question: answer)
    options = argparse.Namespace(file=FILE, yes=False)
    if is_run:
        _confirm(COMMANDS, options)
    else:
        with pytest.raises(TestbedError, match="not confirmed; answer y or use --yes"):
            _confirm(COMMANDS, options)
    assert capsys.readouterr().out == SHOWN


def test_yes_shows_them_too_and_no_commands_need_no_answer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _confirm(COMMANDS, argparse.Namespace(file=FILE, yes=True))
    assert capsys.readouterr().out == SHOWN
    _confirm([], argparse.Namespace(file=FILE, yes=False))
    assert capsys.readouterr().out == ""
