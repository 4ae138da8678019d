"""Match keys, as the control plane gives them."""

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
    """Also for optional fields: a mask of all ones, or of zero."""

    value: int
    mask: int


@dataclass(frozen=True, slots=True)
class Range:
    """Both ends included."""

    low: int
    high: int


MatchKey = Exact | Lpm | Ternary | Range


def check_width(value: int, width: int, what: str) -> None:
    """Raise InvalidArgument when `value` is no unsigned number of `width` bits."""
    if not 0 <= value < 1 << width:
        raise InvalidArgument(f"{what}: {value:#x} does not fit {width} bits")
