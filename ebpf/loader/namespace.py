"""Network namespaces: run a function in a thread in another namespace."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

from ebpf.loader.errors import LoadError
from telemark.backends.real.isolation import CLONE_NEWNET

OWN = "/proc/thread-self/ns/net"


@contextmanager
def entered(namespace: int) -> Iterator[None]:
    """Enter a network namespace in this thread, given by a file descriptor. Raises LoadError."""
    before = os.open(OWN, os.O_RDONLY)
    try:
        _enter(namespace)
        try:
            yield
        finally:
            _enter(before)
    finally:
        os.close(before)


def _enter(namespace: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNET):
        why = os.strerror(ctypes.get_errno())
        raise LoadError(f"no network namespace can be entered ({why}): run as root")
