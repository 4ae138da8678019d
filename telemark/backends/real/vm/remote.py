"""Proxies for objects in the virtual machine."""

from collections.abc import Callable
from typing import Any

_objects: list[Any] = []  # objects in the virtual machine, kept until it stops


class Remote:
    """Proxy of an object in the virtual machine: forwards method calls.

    If a proxy is an argument of a call, the virtual machine uses the object instead. To read an
    attribute, use `machine.call(getattr, remote, name)`.
    """

    def __init__(self, call: Callable[..., Any], number: int) -> None:
        self._call, self._number = call, number

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # special methods, e.g. those that pickle uses
            raise AttributeError(name)

        def method(*arguments: Any, **named: Any) -> Any:
            return self._call(call_method, self._number, name, arguments, named)

        return method

    def __reduce__(self) -> tuple[Any, ...]:

        return get, (self._number,)


def create(factory: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> int:
    """Create an object in the virtual machine; return its number."""
    _objects.append(factory(*arguments, **named))
    return len(_objects) - 1


def get(number: int) -> Any:
    """Return an object by its number."""
    return _objects[number]


def call_method(number: int, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Call a method of an object."""
    return getattr(_objects[number], name)(*arguments, **named)
