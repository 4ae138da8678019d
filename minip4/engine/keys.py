"""Match keys of the control plane, and values from the engine: entries, digests, rates, counts."""

from __future__ import annotations

from dataclasses import dataclass

from minip4.engine.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Exact:
    value: int


@dataclass(frozen=True, slots=True)
class Lpm:
    value: int
    prefix_length: int


@dataclass(frozen=True, slots=True)
class Ternary:
    """A ternary match; for optional fields, the mask is all ones or zero."""

    value: int
    mask: int


@dataclass(frozen=True, slots=True)
class Range:
    """A range with both ends included."""

    low: int
    high: int


MatchKey = Exact | Lpm | Ternary | Range


def check_width(value: int, width: int, what: str) -> None:
    """Raise InvalidArgument if `value` is not an unsigned number of `width` bits."""
    if not 0 <= value < 1 << width:
        raise InvalidArgument(f"{what}: {value:#x} does not fit in {width} bits")


Rates = tuple[float, int, float, int]
"""Committed rate and burst, peak rate and burst.

Rates are in bytes/s or packets/s, bursts in bytes or packets.
"""

ColourCounts = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
"""Packets and bytes that a meter has coloured green, yellow and red."""


@dataclass(frozen=True, slots=True)
class Digest:
    """One digest message: the name of the list, and the values of its fields in order."""

    name: str
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A table entry. Its target is an action with parameters, a member, or a group."""

    handle: int
    key: tuple[MatchKey, ...]
    action: str | None
    params: tuple[int, ...]
    priority: int
    """The entry with the largest priority wins.

    The priority is 0 in tables without ternary, range and optional fields.
    """
    is_const: bool
    member: int | None = None
    group: int | None = None
    idle_ns: int = 0
    """Time since the entry was last hit or added, if the table supports timeouts."""
    count: tuple[int, int] = (0, 0)
    """Packets and bytes that hit the entry, if the table has a direct counter."""
