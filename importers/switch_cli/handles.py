"""Handles: numbers with which simple_switch identifies entries, members, groups and nodes."""

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

from importers.switch_cli.commands import CommandError

T = TypeVar("T")

# the low INDEX_BITS bits of a handle are the index of an entry; the higher bits count how often the
# index was used before
INDEX_BITS = 24
VERSIONS = 256


class Handles(Generic[T]):
    """Map from handle to object. A new object gets the lowest free handle, from 0 on.

    With `versioned` (table entries), a handle consists of an index, and above it a version of 8
    bits. The version increases each time the index is used again.
    """

    def __init__(self, what: str, *, versioned: bool = False) -> None:
        self._what = what
        self._versioned = versioned
        self._held: dict[int, T] = {}
        self._next = 0  # this index and all higher indices were never used
        self._free: list[int] = []  # heap of the free indices below _next
        self._versions: dict[int, int] = {}  # by index

    def add(self, value: T) -> int:
        """Add an object. Return its handle."""
        if self._free:
            index = heapq.heappop(self._free)
        else:
            index = self._next
            self._next += 1
        handle = self._versions.get(index, 0) << INDEX_BITS | index
        self._held[handle] = value
        return handle

    def __getitem__(self, handle: int) -> T:
        if handle not in self._held:
            known = ", ".join(map(str, self._held)) or "none"
            raise CommandError(f"no {self._what} {handle}; existing: {known}")
        return self._held[handle]

    def __setitem__(self, handle: int, value: T) -> None:
        _ = self[handle]
        self._held[handle] = value

    def remove(self, handle: int) -> None:
        """Remove a handle. Raises CommandError if it does not exist."""
        _ = self[handle]
        del self._held[handle]
        index = handle % (1 << INDEX_BITS)
        heapq.heappush(self._free, index)
        if self._versioned:
            self._versions[index] = (self._versions.get(index, 0) + 1) % VERSIONS

    def clear(self) -> None:
        """Remove all handles."""
        self._held.clear()
        self._free.clear()
        self._versions.clear()
        self._next = 0

    def items(self) -> Iterator[tuple[int, T]]:
        """Iterate over pairs of a handle and its object, in the order of the indices."""
        yield from sorted(self._held.items(), key=lambda item: item[0] % (1 << INDEX_BITS))
