"""Parser of simple_switch_CLI scripts, and the lookup of commands and of program objects."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

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


Answer = list[str]  # lines, in simple_switch_CLI's words
Handler = Callable[..., Awaitable[Answer]]
F = TypeVar("F", bound=Handler)


def command(name: str, *, reads: bool = False) -> Callable[[F], F]:
    """Make a method the command of that name; `reads`: its answer is why it is given."""

    def mark(function: F) -> F:
        function.__dict__.update(command_name=name, command_reads=reads)
        return function

    return mark


def commands_of(family: object) -> dict[str, Handler]:
    """The methods of an object that are commands, by their names."""
    methods = [method for _, method in inspect.getmembers(family, inspect.ismethod)]
    return {m.command_name: m for m in methods if hasattr(m, "command_name")}


def arguments(name: str, handler: Handler, words: Sequence[str]) -> list[Any]:
    """The words behind a command's name, as the types that it takes. Raises CommandError."""
    signature = inspect.signature(handler)
    parameters = list(signature.parameters.values())
    try:
        signature.bind(*words)
    except TypeError:
        usage = " ".join([name, *map(_usage, parameters)])
        raise CommandError(f"{len(words)} arguments: expected {usage}") from None
    if parameters and parameters[-1].kind is inspect.Parameter.VAR_POSITIONAL:
        parameters += parameters[-1:] * len(words)
    return [_typed(word, each) for word, each in zip(words, parameters, strict=False)]


def _usage(parameter: inspect.Parameter) -> str:
    name = parameter.name.upper()
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return f"[{name} ...]"
    return name if parameter.default is inspect.Parameter.empty else f"[{name}]"


def _typed(word: str, parameter: inspect.Parameter) -> Any:
    if parameter.annotation is str:
        return word
    if not word.isdecimal():
        raise CommandError(f"{parameter.name} {word!r}: expected a number, 0 or more")
    return int(word)


class Named(Protocol):
    """A table, an action, a register, ... of a P4Info."""

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


def find(kind: str, name: str, objects: Iterable[T]) -> T:
    """The object of that name (`ipv4_lpm` for `MyIngress.ipv4_lpm`). Raises CommandError.

    As in simple_switch_CLI any end of the whole name will do, from behind a dot, that no other
    object of its kind has.
    """
    known = list(objects)
    for each in known:
        if each.name == name:
            return each
    found = [each for each in known if each.name.endswith(f".{name}")]
    if len(found) == 1:
        return found[0]
    there = ", ".join(each.name for each in found or known) or "none"
    which = f"{len(found)} have this name" if found else "there is none of this name"
    raise CommandError(f"{kind} {name!r}: {which}: expected one of {there}")
