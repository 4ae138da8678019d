"""Values that the engine passes to the control plane: entries, digests, rates and counts."""

from dataclasses import dataclass

from minip4.engine.keys import MatchKey

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
    """A table entry with an action and its parameters, a member, or a group."""

    handle: int
    key: tuple[MatchKey, ...]
    action: str | None
    params: tuple[int, ...]
    priority: int
    """The entry with the largest priority wins.

    It is 0 in tables without ternary, range and optional fields.
    """
    is_const: bool
    member: int | None = None
    group: int | None = None
    idle_ns: int = 0
    """Time since the entry was last hit or added, if the table supports timeouts."""
    count: tuple[int, int] = (0, 0)
    """Packets and bytes that hit the entry, if the table has a direct counter."""
