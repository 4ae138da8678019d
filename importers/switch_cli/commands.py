"""Parser of simple_switch_CLI scripts.

The parser also looks up commands and objects of the P4 program.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from telemark.errors import TestbedError

COMMENTS = ("//", "#")  # these begin a comment only at the start of a line, as in p4-utils


class CommandError(TestbedError):
    """A command that cannot be executed. The message is one line."""


@dataclass(frozen=True)
class Line:
    """One command and its location, e.g. `s1-commands.txt:4`."""

    where: str
    words: tuple[str, ...]


def read_script(path: Path) -> list[Line]:
    """Return the commands in a script.

    Empty lines and comments are skipped. Raises CommandError.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise CommandError(f"{path}: cannot be read: {reason}") from error
    stripped = [line.strip() for line in text.splitlines()]
    return [
        Line(f"{path.name}:{number}", tuple(line.split()))
        for number, line in enumerate(stripped, start=1)
        if line and not line.startswith(COMMENTS)
    ]


Answer = list[str]  # lines as simple_switch_CLI prints them
Handler = Callable[..., Awaitable[Answer]]
F = TypeVar("F", bound=Handler)


def command(name: str, *, reads: bool = False) -> Callable[[F], F]:
    """Make a method a command. With `reads`, the user sees the result."""

    def mark(function: F) -> F:
        function.__dict__.update(command_name=name, command_reads=reads)
        return function

    return mark


def commands_of(family: object) -> dict[str, Handler]:
    """Return the methods of an object that are commands, as a map from command name to method."""
    methods = [method for _, method in inspect.getmembers(family, inspect.ismethod)]
    return {m.command_name: m for m in methods if hasattr(m, "command_name")}


def arguments(name: str, handler: Handler, words: Sequence[str]) -> list[Any]:
    """Convert the arguments of a command to the types of its parameters. Raises CommandError."""
    signature = inspect.signature(handler)
    parameters = list(signature.parameters.values())
    try:
        signature.bind(*words)
    except TypeError:
        usage = " ".join([name, *map(_usage, parameters)])
        raise CommandError(f"{len(words)} arguments: expected {usage}") from None
    if parameters and parameters[-1].kind is inspect.Parameter.VAR_POSITIONAL:
        parameters += parameters[-1:] * len(words)
    return [_convert(word, each) for word, each in zip(words, parameters, strict=False)]


def _usage(parameter: inspect.Parameter) -> str:
    name = parameter.name.upper()
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return f"[{name} ...]"
    return name if parameter.default is inspect.Parameter.empty else f"[{name}]"


def _convert(word: str, parameter: inspect.Parameter) -> Any:
    if parameter.annotation is str:
        return word
    if not word.isdecimal():
        raise CommandError(f"{parameter.name} {word!r}: expected a number of at least 0")
    return int(word)


class Named(Protocol):
    """An object of a P4Info, e.g. a table, an action or a register."""

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


def find(kind: str, name: str, objects: Iterable[T]) -> T:
    """Return the object with this full or abbreviated name. Raises CommandError.

    As in simple_switch_CLI, the part after a dot is enough (`ipv4_lpm` for `MyIngress.ipv4_lpm`),
    if only one object of this kind has it.
    """
    known = list(objects)
    for each in known:
        if each.name == name:
            return each
    found = [each for each in known if each.name.endswith(f".{name}")]
    if len(found) == 1:
        return found[0]
    there = ", ".join(each.name for each in found or known) or "none"
    which = f"{len(found)} have this name" if found else "there is no such name"
    raise CommandError(f"{kind} {name!r}: {which}: expected one of {there}")
