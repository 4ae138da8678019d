"""Places: the storage of a value, given by a declaration and a path of fields in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from minip4.compiler import syntax, types
from minip4.compiler.types import Type

# variable or parameter, followed by the names of fields
Path = tuple[syntax.Declaration | str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """The storage of an expression; `is_part` means an element of a stack, or a slice."""

    path: Path
    is_part: bool = False


def place_of(e: syntax.Expression) -> Place | None:
    """Return the place of an expression.

    Returns None unless the expression is a variable, a parameter, or a part of a variable or
    parameter.
    """
    if isinstance(e, syntax.Name):
        is_stored = isinstance(e.declaration, (syntax.VariableDeclaration, syntax.Parameter))
        return Place((e.declaration,)) if is_stored and e.declaration is not None else None
    if isinstance(e, (syntax.Index, syntax.Slice, syntax.PartSelect)):
        base = place_of(e.base)
        return None if base is None else Place(base.path, is_part=True)
    if not isinstance(e, syntax.Member):
        return None
    base = place_of(e.base)
    if base is None:
        return None
    if isinstance(e.base.type, types.Stack):
        return Place(base.path, is_part=True) if e.name in ("next", "last") else None
    if isinstance(e.declaration, syntax.Field):
        return Place((*base.path, e.name), base.is_part)
    return None


def values_in(path: Path, of: Type) -> list[tuple[Path, bool]]:
    """Return the path of each scalar value below `path`, and whether the value is in a header."""
    return [((*path, *inner), is_inside) for inner, is_inside in _parts(of).values]


def headers_in(path: Path, of: Type) -> list[Path]:
    """Return the paths of the headers at or below a path."""
    return [(*path, *inner) for inner in _parts(of).headers]


@dataclass(frozen=True, slots=True)
class _Parts:
    """The results of values_in() and headers_in(), relative to a value."""

    values: list[tuple[tuple[str, ...], bool]]
    headers: list[tuple[str, ...]]


@lru_cache(maxsize=256)
def _parts(of: Type) -> _Parts:
    if isinstance(of, types.Stack):
        return _parts(of.element)
    if not isinstance(of, types.StructLike):
        return _Parts([((), False)], [])
    is_header = isinstance(of, (types.Header, types.HeaderUnion))
    fields = [(name, _parts(field)) for name, field in of.fields.items()]
    values = [
        ((name, *path), is_header or is_inside)
        for name, parts in fields
        for path, is_inside in parts.values
    ]
    if isinstance(of, types.Header):
        return _Parts(values, [()])
    return _Parts(values, [(name, *path) for name, parts in fields for path in parts.headers])


def written(path: Path) -> str:
    """Return a path in P4 syntax."""
    return ".".join(part if isinstance(part, str) else part.name for part in path)
