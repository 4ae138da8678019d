"""Objects: the programs and maps of one C file, after they are loaded into the kernel."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ebpf.loader import verifier
from ebpf.loader.btf import Types
from ebpf.loader.compile import compile_program, find_source
from ebpf.loader.errors import LoadError, explain_errno
from ebpf.loader.libbpf import each, library, said
from ebpf.loader.maps import Map
from telemark.backends.real.isolation import uninterrupted

TC, XDP = 3, 6  # enum bpf_prog_type: SCHED_CLS, XDP
READ_ONLY = ".rodata"


@dataclass(frozen=True, eq=False)
class Program:
    """A program in the kernel."""

    name: str
    fd: int
    kind: int
    whole: ProgramObject  # object that the program belongs to


class ProgramObject:
    """The programs and maps of a loaded object file.

    load() returns it. The keys of `programs` and `maps` are names. close() releases programs and
    maps. Global variables are maps, too: ".bss" and ".data", which have one record each.
    """

    def __init__(
        self, source: Path, constants: Mapping[str, Any], sizes: Mapping[str, int]
    ) -> None:
        self.source = source
        self._handle = 0
        with compile_program(source) as path:
            self._handle = _open_object(path, source)
        try:
            self._types = _types(self._handle, source)
            self._set_constants(constants)
            self._set_sizes(sizes)
            inner = self._inner_maps()
            self._load()
        except BaseException:
            self.close()
            raise
        self.programs = {program.name: program for program in self._programs()}
        self.maps = {
            name: self._map(name, at, inner.get(name))
            for name, at in _find_maps(self._handle).items()
        }

    def __enter__(self) -> ProgramObject:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release programs and maps.

        Attached programs stay, because links in the kernel have references to them.
        """
        if self._handle:
            library().bpf_object__close(self._handle)
            self._handle = 0

    def _set_constants(self, constants: Mapping[str, Any]) -> None:
        if not constants:
            return
        at = _find_maps(self._handle).get(READ_ONLY)
        record = None if at is None else self._initial(at)
        names = () if record is None else record.dtype.names or ()
        for name, value in constants.items():
            if record is None or name not in names:
                raise LoadError(
                    f"{self.source}: no constant {name}; expected one of "
                    f"{', '.join(names) or 'none'}"
                )
            _set(record, name, value, self.source)

    def _initial(self, at: int) -> np.void:
        """Return libbpf's initial values of a map of constants. They can be changed until load."""
        size = ctypes.c_size_t()
        start = library().bpf_map__initial_value(at, ctypes.byref(size))
        kind = self._types.dtype(library().bpf_map__btf_value_type_id(at))
        memory: Any = (ctypes.c_char * size.value).from_address(start)
        record: np.void = np.frombuffer(memory, kind, 1)[0]
        return record

    def _set_sizes(self, sizes: Mapping[str, int]) -> None:
        there = _find_maps(self._handle)
        for name, entries in sizes.items():
            if name not in there:
                raise LoadError(f"{self.source}: no map {name}; expected one of {', '.join(there)}")
            if library().bpf_map__set_max_entries(there[name], entries):
                raise LoadError(f"{self.source}: map {name} cannot have {entries} entries")

    def _load(self) -> None:
        said.clear()
        with uninterrupted():  # an exception in a callback of libbpf would be lost
            status = library().bpf_object__load(self._handle)
        if status < 0:
            why = verifier.find_reason("".join(said), os.uname().release) or explain_errno(-status)
            raise LoadError(f"{self.source}: {why}")

    def _programs(self) -> list[Program]:
        lib = library()
        return [
            Program(lib.bpf_program__name(at).decode(), lib.bpf_program__fd(at),
                    lib.bpf_program__type(at), self)
            for at in each(lib.bpf_object__next_program, self._handle)
        ]  # fmt: skip

    def _inner_maps(self) -> dict[str, Map]:
        """Return the types of the inner maps of maps of maps.

        libbpf forgets them when the object is loaded.
        """
        inner_of = library().bpf_map__inner_map
        there = {name: inner_of(at) for name, at in _find_maps(self._handle).items()}
        return {name: self._map(name, at) for name, at in there.items() if at}

    def _map(self, name: str, at: int, inner: Map | None = None) -> Map:
        lib = library()
        key = self._dtype(lib.bpf_map__btf_key_type_id(at), lib.bpf_map__key_size(at))
        value = self._dtype(lib.bpf_map__btf_value_type_id(at), lib.bpf_map__value_size(at))
        return Map(name, lib.bpf_map__fd(at), lib.bpf_map__type(at), key, value,
                   lib.bpf_map__max_entries(at), lib.bpf_map__map_flags(at), inner)  # fmt: skip

    def _dtype(self, number: int, size: int) -> np.dtype[Any]:
        """Return the dtype of the type `number`. 0 means that the C code states only the size."""
        if number:
            return self._types.dtype(number)
        return np.dtype({4: "u4", 8: "u8"}.get(size, f"V{size}"))


def load(
    source: str | Path,
    constants: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> ProgramObject:
    """Compile a C file, and load all its programs and maps.

    `source` is a path relative to the working directory or the repository's root. `constants` are
    values of the file's `const volatile` globals. `sizes` maps names of maps to max_entries. Raises
    LoadError.
    """
    return ProgramObject(find_source(source), constants or {}, sizes or {})


def _open_object(path: Path, source: Path) -> int:
    """Return libbpf's handle of an object file. The file is open, but not yet loaded."""
    said.clear()
    with uninterrupted():
        handle: int | None = library().bpf_object__open_file(str(path).encode(), None)
    if not handle:
        text = said[-1].strip() if said else os.strerror(ctypes.get_errno())
        raise LoadError(f"{source}: {text}")
    return handle


def _find_maps(handle: int) -> dict[str, int]:
    """Return libbpf's handles of maps by name.

    The names of global variables do not contain the file name.
    """
    lib = library()
    named = {lib.bpf_map__name(at).decode(): at for at in each(lib.bpf_object__next_map, handle)}
    return {name[max(name.find("."), 0) :]: at for name, at in named.items()}


def _types(handle: int, source: Path) -> Types:
    at = library().bpf_object__btf(handle)
    size = ctypes.c_uint32()
    raw = at and library().btf__raw_data(at, ctypes.byref(size))
    if not raw:
        raise LoadError(f"{source}: no BTF: it has neither maps nor a license")
    return Types(ctypes.string_at(raw, size.value))


def _set(record: np.void, name: str, value: Any, source: Path) -> None:
    try:
        record[name] = value
    except (OverflowError, TypeError, ValueError) as error:
        kind = record.dtype[name]
        raise LoadError(f"{source}: constant {name} ({kind}) cannot be {value}: {error}") from None
