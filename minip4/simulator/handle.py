"""A pointer to a network in C, valid until the network is freed."""

import ctypes

from minip4.engine.errors import EngineError


class Handle:
    """Handle of a network for calls of C functions.

    The handle is invalid after the network was freed.
    """

    def __init__(self, created: int) -> None:
        self._pointer: ctypes.c_void_p | None = ctypes.c_void_p(created)

    @property
    def pointer(self) -> ctypes.c_void_p:
        """Return the pointer. Raises EngineError if the network was closed."""
        if self._pointer is None:
            raise EngineError("the network is closed; use it inside its `with` block")
        return self._pointer

    def take(self) -> ctypes.c_void_p | None:
        """Return the pointer in order to free it, or None if it was freed before."""
        taken, self._pointer = self._pointer, None
        return taken


class Caller:
    """Base class of objects that call the C functions of a network."""

    def __init__(self, library: ctypes.CDLL, network: Handle) -> None:
        self._library = library
        self._network = network

    @property
    def _handle(self) -> ctypes.c_void_p:
        return self._network.pointer
