"""A network in C, as Python has it until it is freed."""

import ctypes

from minip4.engine.errors import EngineError


class Handle:
    """What functions of the C take; once the network is freed, nobody gets it any more."""

    def __init__(self, created: int) -> None:
        self._pointer: ctypes.c_void_p | None = ctypes.c_void_p(created)

    @property
    def pointer(self) -> ctypes.c_void_p:
        """Raises EngineError for a network that has ended."""
        if self._pointer is None:
            raise EngineError("the network has ended: ask it inside its `with` block")
        return self._pointer

    def take(self) -> ctypes.c_void_p | None:
        """For whoever frees it; None: somebody has."""
        taken, self._pointer = self._pointer, None
        return taken


class Caller:
    """What calls functions of a network in C."""

    def __init__(self, library: ctypes.CDLL, network: Handle) -> None:
        self._library = library
        self._network = network

    @property
    def _handle(self) -> ctypes.c_void_p:
        return self._network.pointer
