"""Shared objects in this process: loads them, declares C functions, and unmaps them."""

import _ctypes
import ctypes
import threading
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Signatures = Mapping[str, tuple[Any, Sequence[Any]]]
"""For each C function: its return type and its parameter types."""

# reentrant, because a finalizer may run in the thread that holds the lock
_loading = threading.RLock()
_users: Counter[str] = Counter()  # number of Library objects per path; they share one mapping


class Library(ctypes.CDLL):
    """A shared object. It is unmapped when nothing refers to it.

    The C function `last` is called before the shared object is unmapped.

    With `stays`, the shared object is never unmapped, because AddressSanitizer resolves function
    names when the process exits.
    """

    def __init__(self, path: Path, functions: Signatures, *, last: str, stays: bool) -> None:
        with _loading:
            # RTLD_LOCAL hides the symbols of a shared object from the others in this process.
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
    """Add C functions as attributes to the object `to`.

    The functions do not refer to the library, so the caller must keep the library alive, too.
    """
    for name, (result, arguments) in functions.items():
        kind = ctypes.CFUNCTYPE(result, *arguments, use_errno=errno)
        setattr(to, name, kind(address(library, name)))


def address(library: ctypes.CDLL, name: str) -> int:
    """Return the address of a function or object in a library."""
    return _ctypes.dlsym(library._handle, name)  # ctypes.cast() would refer to the library forever
