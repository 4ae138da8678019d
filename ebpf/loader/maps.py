"""Maps of a loaded program. Values are numpy arrays with the types of the C code."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ebpf.loader.errors import ENOTSUPP, LoadError, explain_errno
from ebpf.loader.libbpf import MapCreate, library

# enum bpf_map_type
ARRAY, PERCPU_HASH, PERCPU_ARRAY, LRU_PERCPU_HASH, PERCPU_CGROUP_STORAGE = 2, 5, 6, 10, 21
PER_CPU = (PERCPU_HASH, PERCPU_ARRAY, LRU_PERCPU_HASH, PERCPU_CGROUP_STORAGE)
ARRAYS = (ARRAY, PERCPU_ARRAY)
LONGEST_NAME = 15  # maximum length of a name in the kernel
MMAPABLE = 1 << 10  # BPF_F_MMAPABLE
LOCKED = 4  # BPF_F_LOCK
# error codes of kernels that have no batch operations for this kind of map
NO_BATCH = (errno.EINVAL, errno.EOPNOTSUPP, ENOTSUPP)


@dataclass(frozen=True)
class Map:
    """A map. `key` and `value` are the dtypes of the C types.

    If the map is per CPU, `value` is the type for one CPU, and arrays of values have one more axis,
    for all possible CPUs.
    """

    name: str
    fd: int
    kind: int
    key: np.dtype[Any]
    value: np.dtype[Any]
    max_entries: int
    flags: int
    inner: Map | None = None  # model of the inner maps, if this is a map of maps

    def read(self) -> npt.NDArray[Any]:
        """Return the whole content of the map.

        For an array map, the result is an array of values with shape (max_entries,) or
        (max_entries, CPUs). For other maps, it is an array of records with "key" and "value". Their
        order is arbitrary.
        """
        entries = self._read()
        if self.kind not in ARRAYS:
            return entries
        values: npt.NDArray[Any] = entries["value"][np.argsort(entries["key"])]
        return values

    def write(self, values: npt.ArrayLike) -> None:
        """Write to the map. `values` has the format that read() returns.

        For an array map, `values` contains all values. For other maps, it contains the entries to
        write.

        Raises LoadError if the entries do not fit.
        """
        values = np.asarray(values)
        entries = np.zeros(len(values), self._entry)
        if self.kind in ARRAYS:
            if len(values) != self.max_entries:
                raise LoadError(
                    f"map {self.name} has {self.max_entries} values, but {len(values)} were given"
                )
            entries["key"], entries["value"] = np.arange(self.max_entries), values
        else:
            entries["key"], entries["value"] = values["key"], values["value"]
        self._write(entries)

    def __getitem__(self, key: Any) -> Any:
        """Return the value for a key: a number, a record or an array. Raises KeyError."""
        return self._looked_up(key, 0)

    def locked(self, key: Any) -> Any:
        """Return the value for a key, if the value contains a `struct bpf_spin_lock`.

        The kernel takes the lock while it reads the value.
        """
        return self._looked_up(key, LOCKED)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Set the value for a key. Raises LoadError if the map is full."""
        stored = np.zeros(1, self._stored)
        stored["_"]["_"][0] = value
        packed = self._packed(key)
        if library().bpf_map_update_elem(self.fd, packed.ctypes.data, stored.ctypes.data, 0) < 0:
            self._fail(ctypes.get_errno())

    def __delitem__(self, key: Any) -> None:
        """Delete a key. Raises KeyError."""
        # the variable keeps the memory of the key alive until the call returns
        packed = self._packed(key)
        if library().bpf_map_delete_elem(self.fd, packed.ctypes.data) < 0:
            number = ctypes.get_errno()
            if number == errno.ENOENT:
                raise KeyError(key)
            self._fail(number)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Yield the keys that existed when the iteration started, and their values."""
        entries = self._read()
        yield from zip(entries["key"], entries["value"], strict=True)

    def put_new(self, key: Any, values: npt.ArrayLike | None = None) -> Map:
        """Store a new map with these values (see write()) under a key of a map of maps.

        When this returns, no running program uses the previous map. The caller must close the `fd`
        of the new map. Raises LoadError.
        """
        if self.inner is None:
            raise LoadError(f"map {self.name} is not a map of maps of its C code")
        like = self.inner
        fd = library().bpf_map_create(
            like.kind, like.name.encode()[:LONGEST_NAME], like.key.itemsize, like.value.itemsize,
            like.max_entries, ctypes.byref(MapCreate(flags=like.flags)),
        )  # fmt: skip
        if fd < 0:
            self._fail(ctypes.get_errno())
        new = replace(like, fd=fd)
        try:
            if values is not None:
                new.write(values)
            self[key] = fd
        except BaseException:
            os.close(fd)
            raise
        return new

    def mapped(self) -> npt.NDArray[Any]:
        """Return the memory of an array with BPF_F_MMAPABLE, or of global variables.

        The array has shape (max_entries,). Programs see writes to it immediately, and the array
        shows writes of programs immediately.
        """
        if not self.flags & MMAPABLE:
            raise LoadError(
                f"map {self.name} cannot be mapped to memory, because it lacks BPF_F_MMAPABLE"
            )
        entry = self._wrapped(_rounded(self.value.itemsize, 8))
        try:
            memory = mmap.mmap(self.fd, _rounded(entry.itemsize * self.max_entries, mmap.PAGESIZE))
        except OSError as error:
            self._fail(error.errno or 0)
        values: npt.NDArray[Any] = np.frombuffer(memory, entry, self.max_entries)["_"]["_"]
        return values

    @property
    def _entry(self) -> np.dtype[Any]:
        return np.dtype([("key", self.key), ("value", self.value, self._cpus)])

    @property
    def _cpus(self) -> tuple[int, ...]:
        return (library().libbpf_num_possible_cpus(),) if self.kind in PER_CPU else ()

    @property
    def _stored(self) -> np.dtype[Any]:
        """Return the dtype of an entry in the format of the kernel.

        Values per CPU are padded to a multiple of 8 bytes.
        """
        return self._wrapped(_rounded(self.value.itemsize, 8) if self._cpus else 0)

    def _wrapped(self, size: int) -> np.dtype[Any]:
        """Return a dtype whose only field is a value of at most `size` bytes, in any shape."""
        size = max(size, self.value.itemsize)
        form: Any = {"names": ["_"], "formats": [self.value], "offsets": [0], "itemsize": size}
        return np.dtype([("_", np.dtype(form), self._cpus)])

    def _packed(self, key: Any) -> npt.NDArray[Any]:
        packed = np.zeros(1, [("_", self.key)])
        packed["_"][0] = key
        return packed

    def _looked_up(self, key: Any, flags: int) -> Any:
        found = np.zeros(1, self._stored)
        packed = self._packed(key)
        if library().bpf_map_lookup_elem_flags(
            self.fd, packed.ctypes.data, found.ctypes.data, flags
        ) < 0:  # fmt: skip
            number = ctypes.get_errno()
            if number == errno.ENOENT:
                raise KeyError(key)
            self._fail(number)
        return found["_"]["_"][0]

    def _read(self) -> npt.NDArray[Any]:
        # a hash map may contain one more entry per CPU
        room = self.max_entries + (os.cpu_count() or 1)
        keys, values = np.zeros(room, [("_", self.key)]), np.zeros(room, self._stored)
        here = ctypes.create_string_buffer(max(self.key.itemsize, 8))
        count, done, first = ctypes.c_uint32(), 0, True
        while done < room:
            count.value = room - done
            status = library().bpf_map_lookup_batch(
                self.fd, None if first else here, here,
                keys[done:].ctypes.data, values[done:].ctypes.data, ctypes.byref(count), None,
            )  # fmt: skip
            number = ctypes.get_errno() if status else 0
            if first and number in NO_BATCH:
                return self._read_singly()
            if number not in (0, errno.ENOENT):
                self._fail(number)
            done, first = done + count.value, False
            if number or not count.value:
                break
        return self._entries(keys[:done], values[:done])

    def _read_singly(self) -> npt.NDArray[Any]:
        keys, values = [], []
        key = np.zeros(1, [("_", self.key)])
        following = library().bpf_map_get_next_key
        more = following(self.fd, None, key.ctypes.data)
        while not more:
            value = np.zeros(1, self._stored)
            if not library().bpf_map_lookup_elem_flags(
                self.fd, key.ctypes.data, value.ctypes.data, 0
            ):
                keys.append(key.copy())
                values.append(value)
            more = following(self.fd, key.ctypes.data, key.ctypes.data)
        if not keys:
            return np.zeros(0, self._entry)
        return self._entries(np.concatenate(keys), np.concatenate(values))

    def _entries(self, keys: npt.NDArray[Any], values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        entries = np.zeros(len(keys), self._entry)
        entries["key"], entries["value"] = keys["_"], values["_"]["_"]
        return entries

    def _write(self, entries: npt.NDArray[Any]) -> None:
        keys = np.zeros(len(entries), [("_", self.key)])
        values = np.zeros(len(entries), self._stored)
        keys["_"], values["_"]["_"] = entries["key"], entries["value"]
        count = ctypes.c_uint32(len(entries))
        if not len(entries) or not library().bpf_map_update_batch(
            self.fd, keys.ctypes.data, values.ctypes.data, ctypes.byref(count), None
        ):
            return
        if (number := ctypes.get_errno()) not in NO_BATCH:
            self._fail(number)
        for key, value in zip(entries["key"], entries["value"], strict=True):
            self[key] = value

    def _fail(self, number: int) -> NoReturn:
        text = "it is full" if number == errno.E2BIG else explain_errno(number)
        raise LoadError(f"map {self.name} ({self.max_entries} entries): {text}")


def _rounded(size: int, step: int) -> int:
    return -(-size // step) * step
