"""What a command is: a method with a name of simple_switch_CLI's, whose arguments have types.

    @command("mirroring_add")
    async def add_session(self, mirror_id: int, egress_port: int) -> Answer:

The method's signature says how many words a command takes, and which of them are numbers.
"""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from importers.switch_cli.script import CommandError

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
