"""The analysis state of variables and headers at one point of a program."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from minip4.compiler.analysis.places import Path, headers_in, values_in
from minip4.compiler.types import Type


@dataclass(slots=True)
class State:
    """The combined state of all paths to a point.

    `unset` contains the values that may be unset. `invalid` maps each header that the program may
    have made invalid to True if the header is invalid on every path. Other headers may be valid.
    `tested` is the validity known from enclosing conditions (True: valid); it overrides `invalid`.
    """

    unset: set[Path] = field(default_factory=set)
    invalid: dict[Path, bool] = field(default_factory=dict)
    tested: dict[Path, bool] = field(default_factory=dict)

    def copy(self) -> State:
        return State(set(self.unset), dict(self.invalid), dict(self.tested))

    def frozen(self) -> tuple[object, ...]:
        """Return a hashable copy."""
        of_headers = frozenset(self.invalid.items()), frozenset(self.tested.items())
        return (frozenset(self.unset), *of_headers)

    def clear(self, path: Path, of: Type) -> None:
        """Reset a variable without an initial value: values unset, headers invalid (8.17)."""
        self.unset |= {value for value, _ in values_in(path, of)}
        for header in headers_in(path, of):
            self.set_validity(header, is_valid=False)

    def assign(self, path: Path, of: Type) -> None:
        """Mark all values as set and headers as valid."""
        if self.unset:
            self.unset.difference_update([value for value, _ in values_in(path, of)])
        if self.invalid or self.tested:
            for header in headers_in(path, of):
                self.set_validity(header, is_valid=True)

    def copy_part(self, to: Path, path: Path, of: Type) -> None:
        """Copy the state of `path` to the path `to`."""
        was = self.copy()
        self.assign(to, of)
        for value, _ in values_in(path, of):
            if value in was.unset:
                self.unset.add((*to, *value[len(path) :]))
        for header in headers_in(path, of):
            target = (*to, *header[len(path) :])
            if header in was.invalid:
                self.invalid[target] = was.invalid[header]
            if header in was.tested:
                self.tested[target] = was.tested[header]

    def set_validity(self, header: Path, *, is_valid: bool) -> None:
        """Apply setValid() or setInvalid()."""
        self.tested.pop(header, None)
        if is_valid:
            self.invalid.pop(header, None)
        else:
            self.invalid[header] = True

    def test(self, headers: Iterable[Path], *, is_valid: bool) -> State | None:
        """Return the state after a true condition about validity, or None if it cannot be true."""
        for header in headers:
            if is_valid and header not in self.tested and self.invalid.get(header):
                return None
            self.tested[header] = is_valid
        return self

    def is_invalid(self, header: Path) -> bool | None:
        """Return True if the header is invalid, False if it may be, None if nothing suggests it."""
        if header in self.tested:
            return None if self.tested[header] else True
        return self.invalid.get(header)


def copied(s: State | None) -> State | None:
    return None if s is None else s.copy()


def join(a: State | None, b: State | None) -> State | None:
    """Merge the states of two paths; None stands for an unreachable path."""
    if a is None or b is None:
        return b if a is None else a
    headers = {**a.invalid, **b.invalid}
    return State(
        a.unset | b.unset,
        {h: a.invalid.get(h, False) and b.invalid.get(h, False) for h in headers},
        {h: is_valid for h, is_valid in a.tested.items() if b.tested.get(h) is is_valid},
    )


def join_all(states: Iterable[State | None]) -> State | None:
    result: State | None = None
    for state in states:
        result = join(result, state)
    return result
