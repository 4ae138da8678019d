"""Layouts of memory shared by C and Python: structures, records, constants.

checks() generates C assertions from the Python definitions. If C and Python differ, the assertions
do not compile. The assertions cost nothing at run time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

_C_TYPES: Mapping[Any, str] = {
    ctypes.c_bool: "bool",
    ctypes.c_double: "double",
    **{
        getattr(ctypes, f"c_{kind}{bits}"): f"{kind}{bits}_t"
        for kind in ("int", "uint")
        for bits in (8, 16, 32, 64)
    },
}


class Shared(NamedTuple):
    """A structure of a C header and its Python counterpart.

    The counterpart is a ctypes Structure or a numpy dtype, with the same field names.
    """

    header: str
    c_type: str  # for example "struct link_config"
    python: type[ctypes.Structure] | np.dtype[np.void]


class _Field(NamedTuple):
    name: str
    offset: int
    size: int
    c_type: str | None  # None for a pointer or a nested structure


def checks(shared: Iterable[Shared], numbers: Mapping[str, int] | None = None) -> str:
    """Return C code that compiles only if C and Python have the same `shared` and `numbers`.

    The code compares the name, offset and size of each field. For numbers and arrays of numbers, it
    also compares the type. `numbers` maps C expressions to values.
    """
    shared = list(shared)
    lines = ["#include <stdbool.h>", "#include <stddef.h>", "#include <stdint.h>"]
    lines += [f'#include "{header}"' for header in dict.fromkeys(each.header for each in shared)]
    for each in shared:
        lines += _structure(each)
    for expression, value in (numbers or {}).items():
        lines.append(_assert(f"({expression}) == {value}", f"{expression} is {value} in Python"))
    return "\n".join(lines) + "\n"


def _structure(shared: Shared) -> Iterator[str]:
    c_type, python = shared.c_type, shared.python
    if isinstance(python, type):
        size, fields = ctypes.sizeof(python), _fields_of_structure(python)
    else:
        size, fields = python.itemsize, _fields_of_dtype(python)
    for field in fields:
        place = f"(({c_type} *)0)->{field.name}"
        same = [f"offsetof({c_type}, {field.name}) == {field.offset}"]
        same.append(f"sizeof({place}) == {field.size}")
        if field.c_type:
            same.append(f"__builtin_types_compatible_p(__typeof__({place}), {field.c_type})")
        kind = field.c_type or f"{field.size} bytes"
        yield _assert(
            " && ".join(same), f"{c_type}: Python has {field.name}, {kind}, at byte {field.offset}"
        )
    yield _assert(f"sizeof({c_type}) == {size}", f"{c_type} has {size} bytes in Python")


def _assert(condition: str, text: str) -> str:
    return f'_Static_assert({condition}, "{text}");'


def _fields_of_structure(structure: type[ctypes.Structure]) -> Iterator[_Field]:
    for name, kind, *_ in structure._fields_:
        place = getattr(structure, name)
        yield _Field(name, place.offset, place.size, _c_type(kind))


def _c_type(kind: Any) -> str | None:
    if issubclass(kind, ctypes.Array):
        element = _c_type(kind._type_)
        return element and f"{element}[{kind._length_}]"
    return _C_TYPES.get(kind)


def _fields_of_dtype(dtype: np.dtype[np.void]) -> Iterator[_Field]:
    for name, (kind, offset, *_) in (dtype.fields or {}).items():
        word = {"u": "uint", "i": "int"}.get(kind.kind)
        yield _Field(name, offset, kind.itemsize, word and f"{word}{8 * kind.itemsize}_t")
