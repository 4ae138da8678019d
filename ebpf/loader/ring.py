"""Ring buffers. Programs use them to send records to user space."""

import ctypes
from collections.abc import Callable

from ebpf.loader.errors import LoadError, explain_errno
from ebpf.loader.libbpf import SAMPLE, library
from ebpf.loader.maps import Map
from telemark.backends.real.isolation import uninterrupted


class Ring:
    """A map of type RINGBUF. `take` is called with each record, in the order of reservation.

    If `take` raises an exception, poll() and drain() first process all records, and then raise it.
    Raises LoadError.
    """

    def __init__(self, buffer: Map, take: Callable[[bytes], None]) -> None:
        self._take = take
        self._error: BaseException | None = None
        # the C code has the address of this object, so the object must stay alive
        self._callback = SAMPLE(self._taken)
        self._handle = library().ring_buffer__new(buffer.fd, self._callback, None, None)
        if not self._handle:
            raise LoadError(f"map {buffer.name}: {explain_errno(ctypes.get_errno())}")

    def poll(self, timeout_ms: int) -> None:
        """Process the records that are waiting, and those that arrive within the given time."""
        # without this, an exception (Ctrl-C) outside of the `try` of _taken() would be lost
        with uninterrupted():
            library().ring_buffer__poll(self._handle, timeout_ms)
        self._raise()

    def drain(self) -> None:
        """Process the records that are waiting."""
        with uninterrupted():
            library().ring_buffer__consume(self._handle)
        self._raise()

    def close(self) -> None:
        """Release the ring."""
        library().ring_buffer__free(self._handle)

    def _taken(self, _context: int | None, at: int, size: int) -> int:
        try:
            self._take(ctypes.string_at(at, size))
        except BaseException as error:  # exceptions cannot pass through C code
            self._error = error
        return 0

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error
