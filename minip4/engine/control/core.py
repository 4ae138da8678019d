"""Base of class Engine: the C engine, its lock, and lookup of names."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from minip4.engine import model as m
from minip4.engine.codegen.generator import Generator
from minip4.engine.codegen.tables import action_words
from minip4.engine.errors import InvalidArgument, NotFound
from minip4.engine.keys import check_width
from minip4.engine.shared import HOLD_KINDS, Hold

T = TypeVar("T")


def named(items: Mapping[str, T], name: str, kind: str) -> T:
    """Look up an object by name. Raises NotFound."""
    try:
        return items[name]
    except KeyError:
        raise NotFound(f"{kind} {name!r}: the program has no such object") from None


class Core:
    library: ctypes.CDLL
    handle: ctypes.c_void_p
    program: m.Program
    generator: Generator
    clock: Callable[[], int] = staticmethod(time.monotonic_ns)
    """Returns the driver's time in nanoseconds.

    A driver with another clock replaces this function.
    """

    def __init__(self) -> None:
        self._mutex = threading.RLock()

    def locked(self) -> threading.RLock:
        """Lock the control plane for one thread. Packets do not wait for this lock, see lock.h."""
        return self._mutex

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Apply all writes of the `with` block atomically at its end.

        An exception undoes them.

        Reads within the block may return the previous state.
        """
        with self._mutex:
            self.library.engine_batch_begin(self.handle)
            try:
                yield
            except BaseException:
                self.library.engine_batch_abort(self.handle)
                raise
            self.library.engine_batch_commit(self.handle)

    def holds(self, *, forget: bool = False) -> dict[str, dict[str, int]]:
        """Return the hold times of the lock: a map from hold_kind to fields of struct hold.

        The values are since the start, or since the last call with `forget`.
        """
        holds = (Hold * len(HOLD_KINDS))()
        with self._mutex:
            self.library.engine_holds(self.handle, holds, forget)
        return {kind: {field[0]: getattr(hold, field[0]) for field in Hold._fields_}
                for kind, hold in zip(HOLD_KINDS, holds, strict=True)}  # fmt: skip

    def packets_waited(self) -> tuple[int, int]:
        """Return how often packets waited for the control plane, and the longest wait in ns."""
        numbers = (ctypes.c_uint64 * 2)()
        with self._mutex:
            self.library.engine_packets_waited(self.handle, numbers)
        return numbers[0], numbers[1]

    def _call(self, actions: tuple[m.Action, ...], name: str, params: list[int], size: int,
              what: str) -> list[int]:  # fmt: skip
        """Return the words of an entry with an action: the head word and `size` words of data."""
        action = next((a for a in actions if a.name == name), None)
        if action is None:
            known = ", ".join(a.name for a in actions)
            raise NotFound(f"{what}: no action {name!r}; expected one of: {known}")
        if len(params) != len(action.params):
            raise InvalidArgument(
                f"{what}: action {name} takes {len(action.params)} parameters, not {len(params)}"
            )
        for value, param in zip(params, action.params, strict=True):
            check_width(value, param.width, f"{what}: parameter {param.name} of {name}")
        data = action_words(action, tuple(params))
        return [action.id, *data, *[0] * (size - len(data))]
