"""Names of a program's objects, whole or cut short at their beginning."""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from importers.switch_cli.script import CommandError


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
