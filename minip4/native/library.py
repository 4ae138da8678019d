"""Shared objects in this process: loaded, with typed C functions, and unmapped again."""

import _ctypes
import ctypes
import threading
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Signatures = Mapping[str, tuple[Any, Sequence[Any]]]
"""Of C functions, by name: what they return, and what they take."""

_loading = threading.RLock()  # reentrant: finalizers may run in the thread that holds it
_users: Counter[str] = Counter()  # Libraries of each path: they share what is mapped


class Library(ctypes.CDLL):
    """A shared object; unmapped when nothing refers to it, after a call of its function `last`.

    With `stays` it is never unmapped: AddressSanitizer resolves function names at the very end.
    """

    def __init__(self, path: Path, functions: Signatures, *, last: str, stays: bool) -> None:
        with _loading:
            # RTLD_LOCAL: shared objects in a process do not see each other's symbols.
            super().__init__(str(path), ctypes.RTLD_LOCAL)
            if not stays:
                _users[self._name] += 1
                function = address(self, last)
                unmapping = weakref.finalize(self, _unmap, self._name, self._handle, function)
                unmapping.atexit = False
        declare(self, self, functions)


def _unmap(path: str, mapped: int, last: int) -> None:
    with _loading:
        _users[path] -= 1
        if not _users[path]:
            del _users[path]
            ctypes.CFUNCTYPE(None)(last)()
        _ctypes.dlclose(mapped)


def declare(
    to: object, library: ctypes.CDLL, functions: Signatures, *, errno: bool = False
) -> None:
    """Make C functions attributes of `to`.

    They do not refer to the library: keep that alive, too.
    """
    for name, (result, arguments) in functions.items():
        kind = ctypes.CFUNCTYPE(result, *arguments, use_errno=errno)
        setattr(to, name, kind(address(library, name)))


def address(library: ctypes.CDLL, name: str) -> int:
    """Return the address of a function or an object of a library."""
    return _ctypes.dlsym(library._handle, name)  # ctypes.cast() would refer to the library for good
