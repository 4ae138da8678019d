"""Match keys of the control plane."""

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
