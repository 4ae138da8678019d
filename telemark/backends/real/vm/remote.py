"""Objects that live in the virtual machine, and whose methods are called from outside of it."""

from collections.abc import Callable
from typing import Any

_held: list[Any] = []  # in the virtual machine, until it ends


class Remote:
    """One of them, as the outside sees it: methods are called as if it were here.

    As an argument of another call it becomes the object itself. Attributes are read by
    `machine.call(getattr, remote, name)`.
    """

    def __init__(self, call: Callable[..., Any], number: int) -> None:
        self._call, self._number = call, number

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # what pickle and others ask every object for
            raise AttributeError(name)

        def method(*arguments: Any, **named: Any) -> Any:
            return self._call(do, self._number, name, arguments, named)

        return method

    def __reduce__(self) -> tuple[Any, ...]:
        return held, (self._number,)


def hold(make: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> int:
    """Make an object and keep it; its number."""
    _held.append(make(*arguments, **named))
    return len(_held) - 1


def held(number: int) -> Any:
    """The object of a number."""
    return _held[number]


def do(number: int, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Call a method of an object that is kept."""
    return getattr(_held[number], name)(*arguments, **named)
