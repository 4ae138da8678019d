"""Serialization of results to compressed bytes: structure as JSON, arrays as .npz.

Unlike pickle, load() does not execute code that the data name. The data can name only dataclasses,
named tuples and enums of modules that are already loaded. load() creates objects of these classes
without their constructors.
"""

import dataclasses
import enum
import functools
import io
import json
import lzma
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from telemark.errors import TestbedError

Json: TypeAlias = Any
# entry of the .npz file that contains the JSON; arrays are the entries "0", "1", ...
STRUCTURE = "structure"
COLLECTIONS: dict[str, Callable[[Iterable[Any]], Any]] = {
    "list": list, "tuple": tuple, "set": set, "frozenset": frozenset,
}  # fmt: skip
MAPPINGS: dict[str, Callable[[Any], Any]] = {"dict": dict, "Counter": Counter}
REMEDY = (
    "a run of a sweep returns numbers, strings, bytes, lists, tuples, sets, dicts, ranges, enums, "
    "numpy arrays, and dataclasses and named tuples of these"
)


class NotPlainDataError(Exception):
    """Bytes were not written by dump(), or are truncated."""


def dump(value: object, name: str) -> bytes:
    """Return a value as bytes. In error messages, the value is called `name`.

    Raises TestbedError with the path of the first field that is not plain data. LZMA's fastest
    preset compresses the results of AM-PM runs to 1/50 of their size. zlib takes the same time, but
    compresses them only to 1/4.
    """
    arrays: list[NDArray[Any]] = []
    try:
        structure = json.dumps(_Encoder(arrays).encode(value, name)).encode()
    except RecursionError:
        raise TestbedError(f"{name}: nested too deeply, or contains itself; {REMEDY}") from None
    file = io.BytesIO()
    entries = {str(number): array for number, array in enumerate(arrays)}
    np.savez(file, **{STRUCTURE: np.frombuffer(structure, np.uint8)}, **entries)  # type: ignore[arg-type]
    return lzma.compress(file.getvalue(), preset=0)


def load(data: bytes) -> Any:
    """Return the value. Raises NotPlainDataError for bytes that are not from dump()."""
    try:
        with np.load(io.BytesIO(lzma.decompress(data)), allow_pickle=False) as entries:
            structure = json.loads(entries[STRUCTURE].tobytes())
            arrays = [entries[str(number)] for number in range(len(entries.files) - 1)]
        return _decode(structure, arrays)
    # lzma, zipfile, numpy and json raise many types of exceptions for invalid bytes
    except Exception as error:
        text = " ".join(str(error).split())
        raise NotPlainDataError(f"{type(error).__name__}: {text}") from error


class _Encoder:
    """Encodes values as JSON.

    A value whose type JSON lacks becomes a list that begins with a tag.
    """

    def __init__(self, arrays: list[NDArray[Any]]) -> None:
        self._arrays = arrays
        # map from the id() of an array to the index of the array in `arrays`
        self._numbers: dict[int, int] = {}

    def encode(self, value: Any, path: str) -> Json:
        kind = type(value)
        if value is None or kind in (bool, int, float, str):
            return value
        if kind.__name__ in COLLECTIONS and kind is COLLECTIONS[kind.__name__]:
            items = (self.encode(item, f"{path}[{n}]") for n, item in enumerate(value))
            return [kind.__name__, *items]
        if kind.__name__ in MAPPINGS and kind is MAPPINGS[kind.__name__]:
            return [kind.__name__, *self._pairs(value, path)]
        if kind is range:
            return ["range", value.start, value.stop, value.step]
        if kind is bytes:
            return ["bytes", value.hex()]
        if kind is np.ndarray:
            return ["array", self._index(value, path)]
        if isinstance(value, np.generic) and value.dtype.kind in "biuf" and value.itemsize <= 8:
            return ["scalar", value.dtype.str, value.item()]
        if isinstance(value, enum.Enum):
            return ["enum", _name(value, path), self.encode(value.value, f"{path}.value")]
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            fields = zip(value._fields, value, strict=True)
            return ["namedtuple", _name(value, path),
                    *(self.encode(item, f"{path}.{field}") for field, item in fields)]  # fmt: skip
        if dataclasses.is_dataclass(value):
            return ["dataclass", _name(value, path), self._fields(value, path)]
        raise _refusal(path, f"a {kind.__qualname__}")

    def _pairs(self, value: Any, path: str) -> list[Json]:
        return [
            [self.encode(key, f"key {key!r} of {path}"), self.encode(item, f"{path}[{key!r}]")]
            for key, item in value.items()
        ]

    def _index(self, array: NDArray[Any], path: str) -> int:
        if array.dtype.hasobject:
            raise _refusal(path, "an array of Python objects")
        if id(array) not in self._numbers:
            self._numbers[id(array)] = len(self._arrays)
            self._arrays.append(array)
        return self._numbers[id(array)]

    def _fields(self, value: Any, path: str) -> dict[str, Json]:
        names = [field.name for field in dataclasses.fields(value)]
        for name in getattr(value, "__dict__", {}):
            computed = getattr(type(value), name, None)
            if name not in names and not isinstance(computed, functools.cached_property):
                raise _refusal(f"{path}.{name}", "no field of the dataclass")
        return {name: self.encode(getattr(value, name), f"{path}.{name}") for name in names}


def _refusal(path: str, problem: str) -> TestbedError:
    return TestbedError(f"{path}: {problem} cannot be stored; {REMEDY}")


def _name(value: object, path: str) -> str:
    kind = type(value)
    name = f"{kind.__module__}:{kind.__qualname__}"
    try:
        is_found = _class(name) is kind
    except LookupError:
        is_found = False
    if not is_found:
        raise _refusal(path, f"{kind.__qualname__}, which is not a class of a module,")
    return name


def _class(name: str) -> Any:
    """Return the class `module:qualname`. Raises LookupError if no loaded module defines it."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    if found is None:
        raise LookupError(f"no loaded module defines {name}")
    return found


def _decode(encoded: Json, arrays: list[NDArray[Any]]) -> Any:
    if not isinstance(encoded, list):
        if isinstance(encoded, dict):
            raise ValueError("a JSON object without a tag")
        return encoded
    tag, *rest = encoded
    if tag in COLLECTIONS:
        return COLLECTIONS[tag](_decode(item, arrays) for item in rest)
    if tag in MAPPINGS:
        return MAPPINGS[tag]({_decode(key, arrays): _decode(item, arrays) for key, item in rest})
    if tag == "range":
        return range(*rest)
    if tag == "bytes":
        return bytes.fromhex(*rest)
    if tag == "array":
        return arrays[rest[0]]
    if tag == "scalar":
        return np.dtype(rest[0]).type(rest[1])
    return _made(tag, _class(rest[0]), rest[1:], arrays)


def _made(tag: str, kind: Any, content: list[Json], arrays: list[NDArray[Any]]) -> Any:
    """Create an object of a class from its fields.

    Like copy.copy(), do not call its constructor.
    """
    if not isinstance(kind, type):
        raise ValueError(f"{kind!r} is not a class")
    if tag == "enum" and issubclass(kind, enum.Enum):
        return kind(_decode(content[0], arrays))
    if tag == "namedtuple" and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return tuple.__new__(kind, [_decode(item, arrays) for item in content])
    if tag == "dataclass" and dataclasses.is_dataclass(kind):
        (fields,) = content
        if [*fields] != [field.name for field in dataclasses.fields(kind)]:
            raise ValueError(f"{kind.__qualname__} has different fields")
        made = object.__new__(kind)
        for name, item in fields.items():
            object.__setattr__(made, name, _decode(item, arrays))
        return made
    raise ValueError(f"{tag} of {kind.__qualname__}")
