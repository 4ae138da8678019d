"""Where values live: a declaration and the fields on the way to a part of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from minip4.compiler import syntax, types
from minip4.compiler.types import Type

# The variable or parameter, then names of fields. The elements of a stack share one path.
Path = tuple[syntax.Declaration | str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Storage that an expression names; `is_part`: an element of a stack, or some bits of it."""

    path: Path
    is_part: bool = False


def place_of(e: syntax.Expression) -> Place | None:
    """The place of an expression; None if it is no variable, parameter or part of one."""
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


def values_in(path: Path, of: Type) -> Iterator[tuple[Path, bool]]:
    """Paths of the plain values below a path, and whether each is within a header."""
    if isinstance(of, types.Stack):
        yield from values_in(path, of.element)
    elif isinstance(of, types.StructLike):
        is_header = isinstance(of, (types.Header, types.HeaderUnion))
        for name, field in of.fields.items():
            for inner, is_inside in values_in((*path, name), field):
                yield inner, is_header or is_inside
    else:
        yield path, False


def headers_in(path: Path, of: Type) -> Iterator[Path]:
    """Paths of the headers below a path, or at it."""
    if isinstance(of, types.Stack):
        yield from headers_in(path, of.element)
    elif isinstance(of, types.Header):
        yield path
    elif isinstance(of, types.StructLike):
        for name, field in of.fields.items():
            yield from headers_in((*path, name), field)


def written(path: Path) -> str:
    """A path as the program would write it."""
    return ".".join(part if isinstance(part, str) else part.name for part in path)
