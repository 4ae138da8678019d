"""The handle of a network in C, valid until it is freed."""

import ctypes

from minip4.engine.errors import EngineError


class Handle:
    """The pointer to a network that C functions take; unavailable once the network is freed."""

    def __init__(self, created: int) -> None:
        self._pointer: ctypes.c_void_p | None = ctypes.c_void_p(created)

    @property
    def pointer(self) -> ctypes.c_void_p:
        """The pointer. Raises EngineError for a network that has ended."""
        if self._pointer is None:
            raise EngineError("the network has ended: use it inside its `with` block")
        return self._pointer

    def take(self) -> ctypes.c_void_p | None:
        """Take the pointer in order to free it; None if it was already taken."""
        taken, self._pointer = self._pointer, None
        return taken


class Caller:
    """Base class of objects that call C functions of a network."""

    def __init__(self, library: ctypes.CDLL, network: Handle) -> None:
        self._library = library
        self._network = network

    @property
    def _handle(self) -> ctypes.c_void_p:
        return self._network.pointer
