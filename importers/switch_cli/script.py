"""Reads a script of simple_switch_CLI's commands: a command a line."""

from dataclasses import dataclass
from pathlib import Path

from telemark.errors import TestbedError

COMMENTS = ("//", "#")  # at a line's beginning alone, as p4-utils takes them out


class CommandError(TestbedError):
    """A command that cannot be carried out: why, in one line."""


@dataclass(frozen=True)
class Line:
    """One command as it is written, and where: `s1-commands.txt:4`."""

    where: str
    words: tuple[str, ...]


def read_script(path: Path) -> list[Line]:
    """The commands of a script, without empty lines and comments. Raises CommandError."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise CommandError(f"{path}: cannot be read: {reason}") from error
    stripped = [line.strip() for line in text.splitlines()]
    return [
        Line(f"{path.name}:{number}", tuple(line.split()))
        for number, line in enumerate(stripped, start=1)
        if line and not line.startswith(COMMENTS)
    ]
