"""Records the calls that Python makes to an engine, as C code that repeats them on a new engine."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

SILENT = ("engine_create", "engine_destroy", "engine_queue_state", "engine_table_stride",
          "engine_table_used", "engine_table_copy", "engine_table_copy_one",
          "engine_table_watched")  # fmt: skip
"""Calls that make or unmake the engine, or that only ask."""


class Recorder:
    """Wrapper of an engine's library. It forwards each call to the library, and records it."""

    def __init__(self, library: ctypes.CDLL, handle: ctypes.c_void_p) -> None:
        self._library = library
        self._handle = handle
        self._calls: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = getattr(self._library, name)

        def call(*arguments: Any) -> Any:
            if name not in SILENT:
                self._calls.append(f"    {name}({', '.join(map(self._text, arguments))});")
            return function(*arguments)

        return call

    def source(self) -> str:
        """Return the C function fill_engine(), which makes the recorded calls."""
        calls = "\n".join(self._calls)
        return (
            '#include "control.h"\nvoid fill_engine(struct engine *e);\n'
            f"void fill_engine(struct engine *e)\n{{\n    (void)e;\n{calls}\n}}\n"
        )

    def _text(self, value: Any) -> str:
        if value is self._handle:
            return "e"
        if value is None:
            return "NULL"
        if hasattr(value, "_obj"):  # an argument from byref()
            value = value._obj
        if isinstance(value, ctypes.Array):
            items = ", ".join(str(item) for item in value)
            return f"({_C_TYPES[value._type_]}[]){{{items}}}"
        if isinstance(value, ctypes.Structure):
            fields = ", ".join(str(getattr(value, field[0])) for field in value._fields_)
            kind = _STRUCTURES[type(value).__name__.lstrip("_")]
            return f"&(struct {kind}){{{fields}}}"
        return str(int(getattr(value, "value", value)))


_C_TYPES = {
    ctypes.c_uint64: "uint64_t",
    ctypes.c_uint32: "uint32_t",
    ctypes.c_uint16: "uint16_t",
}
_STRUCTURES = {"MeterRates": "meter_rates", "LinkConfig": "link_config",
               "QueueConfig": "queue_config"}  # fmt: skip
