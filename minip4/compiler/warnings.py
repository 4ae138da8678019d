"""Warnings about valid P4 code that is probably unintended."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from minip4.compiler.errors import located
from minip4.compiler.source import Source

# Kinds of warnings, with p4c's names (p4c --help: --Wdisable); "cpp" is for #warning, and
# "hardware" for what a Tofino cannot do.
Kind = Literal[
    "cpp", "deprecated", "hardware", "ignore-prop", "invalid", "invalid-header", "keys", "mismatch",
    "ordering", "overflow", "parser-transition", "shadow", "uninitialized-out-param",
    "uninitialized-use", "unreachable", "unused",
]  # fmt: skip
KINDS: tuple[Kind, ...] = get_args(Kind)
ALL = ""  # --Wdisable without a kind disables all kinds


@dataclass(frozen=True)
class P4Warning:
    """A warning.

    `str()` has the format of a P4Error, followed by the option that disables the warning.
    """

    kind: Kind
    message: str
    source: Source
    expected: str = ""

    def __str__(self) -> str:
        text = f"{self.message} [--Wdisable={self.kind}]"
        return located("warning", text, self.source, self.expected)


class Warnings:
    """The warnings of one program.

    There is at most one per location and kind, because copies of generic code would repeat them.
    """

    def __init__(self) -> None:
        self._by_place: dict[tuple[str, int, int, str], P4Warning] = {}

    def add(self, kind: Kind, message: str, source: Source, expected: str = "") -> None:
        """Add a warning, unless it is about core.p4 or v1model.p4."""
        if not source.file.is_system:
            place = (source.file.path, source.line, source.column, kind)
            self._by_place.setdefault(place, P4Warning(kind, message, source, expected))

    def __iter__(self) -> Iterator[P4Warning]:
        """Iterate in the order of file, line and column."""
        return (self._by_place[place] for place in sorted(self._by_place))


def enabled_warnings(warnings: Iterable[P4Warning], disabled: Collection[str]) -> list[P4Warning]:
    """Return the warnings whose kind is not in `disabled`; ALL stands for all kinds."""
    return [w for w in warnings if ALL not in disabled and w.kind not in disabled]


def print_warnings(warnings: Iterable[P4Warning]) -> None:
    """Print warnings to stderr."""
    for warning in warnings:
        print(warning, file=sys.stderr)
