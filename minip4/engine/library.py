"""The engine's shared object: builds it for one program, loads it, and declares its C functions."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from ctypes import (
    POINTER,
    c_bool,
    c_int,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
)
from ctypes import c_void_p as handle
from pathlib import Path

from minip4 import engine, ports, wire
from minip4.engine import shared, tna
from minip4.engine.errors import (
    AlreadyExists,
    EngineError,
    InvalidArgument,
    NotFound,
    TableFull,
    TooLarge,
)
from minip4.engine.shared import DigestSample, Hold, MeterRates, QueueConfig, QueueState
from minip4.native import build, layouts
from minip4.native.library import Library, Signatures
from minip4.ports import shared as ports_shared
from minip4.wire import shared as wire_shared
from minip4.wire.shared import LinkConfig

NO_ERRORS = ("-Wno-error", "-Werror=incompatible-pointer-types", "-Werror=int-conversion")
"""Compiler flags for generated C.

The code is correct for all widths: a value has one of three types (codegen/expressions.py), a
constant has exactly one type (layout.literal), and a store states its type. A P4 programmer could
not fix the remaining warnings, so they are not errors; test_widths.py enables them.
"""

# The driver of ports moves frames between engines and interfaces in real time. It needs Linux.
HAS_DRIVER = sys.platform == "linux"
SHARED = (*wire_shared.SHARED, *shared.SHARED)
NUMBERS = {**wire_shared.NUMBERS, **shared.NUMBERS}

words = POINTER(c_uint64)


_TRACE_FUNCTIONS: Signatures = {"engine_trace_read": (c_uint32, [handle, words, c_uint32, words])}

_FUNCTIONS: Signatures = {
    "engine_create": (handle, [handle, c_uint64]),
    "engine_destroy": (None, [handle]),
    "engine_advance": (c_uint64, [handle, c_uint64]),
    "engine_catch_up": (None, [handle, c_uint64]),
    "engine_set_port": (None, [handle, c_uint16, c_bool]),
    "engine_set_clock": (None, [handle, c_int64, c_int32, c_uint64]),
    "engine_pool": (handle, [handle]),
    "engine_share_pool": (None, [handle, handle]),
    "engine_set_priorities": (None, [handle, c_uint32]),
    "engine_deflect_on_drop": (None, [handle, c_bool]),
    "engine_set_cpu_port": (None, [handle, c_uint16]),
    "engine_set_link": (c_bool, [handle, c_uint16, POINTER(LinkConfig)]),
    "engine_counters": (None, [handle, handle]),
    "engine_port_counters": (None, [handle, c_uint16, handle]),
    "engine_set_queue": (None, [handle, c_uint16, c_uint32, POINTER(QueueConfig), c_uint64]),
    "engine_queue_state": (None, [handle, c_uint16, c_uint32, POINTER(QueueState)]),
    "engine_drops": (None, [handle, c_uint32, words]),
    "engine_table_add": (
        c_int64,
        [handle, c_uint32, words, words, c_uint32, c_int32, words, c_uint64],
    ),
    "engine_table_find": (c_int64, [handle, c_uint32, words, words, c_uint32, c_int32]),
    "engine_table_modify": (c_int, [handle, c_uint32, c_int64, words]),
    "engine_table_delete": (c_int, [handle, c_uint32, c_int64]),
    "engine_table_used": (c_uint32, [handle, c_uint32]),
    "engine_table_stride": (c_uint32, [handle, c_uint32]),
    "engine_table_copy": (c_uint32, [handle, c_uint32, POINTER(c_uint32), c_uint32, words]),
    "engine_table_copy_one": (c_bool, [handle, c_uint32, c_int64, words]),
    "engine_table_set_timeout": (c_int, [handle, c_uint32, c_int64, c_uint64]),
    "engine_table_watched": (c_uint32, [handle, c_uint32]),
    "engine_table_age": (
        c_uint32,
        [handle, c_uint32, POINTER(c_uint32), c_uint64, c_uint32, words],
    ),
    "engine_table_set_count": (c_int, [handle, c_uint32, c_int64, words]),
    "engine_table_default": (words, [handle, c_uint32]),
    "engine_table_set_default": (c_int, [handle, c_uint32, words]),
    "engine_table_reset_default": (c_int, [handle, c_uint32]),
    "engine_batch_begin": (None, [handle]),
    "engine_batch_commit": (None, [handle]),
    "engine_batch_abort": (None, [handle]),
    "engine_holds": (None, [handle, POINTER(Hold), c_bool]),
    "engine_packets_waited": (None, [handle, words]),
    "engine_array_read": (None, [handle, c_int, c_uint32, c_uint64, c_uint64, words]),
    "engine_array_write": (
        c_int,
        [handle, c_int, c_uint32, c_uint64, c_uint32, c_uint32, words],
    ),
    "engine_meter_set": (c_int, [handle, c_bool, c_uint32, c_int64, POINTER(MeterRates)]),
    "engine_meter_set_counts": (c_int, [handle, c_bool, c_uint32, c_int64, words]),
    "engine_meter_get": (c_int, [handle, c_bool, c_uint32, c_int64, POINTER(MeterRates), words]),
    "engine_member_add": (c_int64, [handle, c_uint32, words]),
    "engine_member_modify": (c_int, [handle, c_uint32, c_uint32, words]),
    "engine_member_delete": (c_int, [handle, c_uint32, c_uint32]),
    "engine_group_add": (c_int64, [handle, c_uint32]),
    "engine_group_set": (c_int, [handle, c_uint32, c_uint32, POINTER(c_uint32), c_uint32]),
    "engine_group_delete": (c_int, [handle, c_uint32, c_uint32]),
    "engine_value_set": (c_int, [handle, c_uint32, words, c_uint32]),
    "engine_replicas_set": (
        c_int,
        [handle, c_bool, c_uint32, POINTER(c_uint16), c_uint32, c_uint32],
    ),
    "engine_replicas_delete": (c_int, [handle, c_bool, c_uint32]),
    "engine_digests_take": (c_uint32, [handle, c_uint32, POINTER(DigestSample)]),
    "engine_collect": (None, [handle, c_uint16]),
    "engine_inject": (c_bool, [handle, c_uint16, POINTER(c_uint8), c_uint32, c_uint64]),
    "engine_take": (c_int64, [handle, POINTER(c_uint16), POINTER(c_uint8), c_uint32]),
    "engine_repeat": (
        None,
        [handle, c_uint16, POINTER(c_uint8), c_uint32, c_uint32, c_uint32, c_uint64],
    ),
}


def load(
    generated: str, *, architecture: str = "v1model", is_large: bool = False, sanitize: bool,
    trace: bool = False,
) -> ctypes.CDLL:  # fmt: skip
    """Build the engine of one program (once per content) and load it.

    Long code is compiled with less optimization. With `sanitize`, it is built with AddressSanitizer
    and UBSan; with `trace`, it has the functions of trace.h. Raises ToolchainError and TooLarge.
    """
    c_folders = [engine.C_FOLDER, wire.C_FOLDER]
    checks = layouts.checks(SHARED, NUMBERS)
    if HAS_DRIVER:
        c_folders.append(ports.C_FOLDER)
        checks += layouts.checks(ports_shared.SHARED, ports_shared.NUMBERS)
    sources, folders = c_sources(architecture, tuple(c_folders))
    program = build.Generated(generated, (*NO_ERRORS, *(("-O1",) if is_large else ())))
    functions = {**_FUNCTIONS, **(_TRACE_FUNCTIONS if trace else {})}
    try:
        with build.shared_object(
            _units(sources, folders), [program, build.Generated(checks)], include=folders,
            flags=("-DMINIP4_TRACE",) if trace else (), sanitize=sanitize,
        ) as path:  # fmt: skip
            return Library(path, functions, last="memory_release", stays=sanitize)
    except build.OverLimits as error:
        raise TooLarge(str(error)) from error


def c_sources(architecture: str, folders: tuple[Path, ...]) -> tuple[list[Path], tuple[Path, ...]]:
    """Return the C files in the folders for an architecture, and the folders to include."""
    sources = [source for folder in folders for source in sorted(folder.glob("*.c"))]
    if architecture == "tna":  # TNA has its own code path for packets
        sources.remove(engine.C_FOLDER / "pipeline.c")
        sources += sorted(tna.C_FOLDER.glob("*.c"))
        folders += (tna.C_FOLDER,)
    return sources, folders


def _units(sources: Sequence[Path], include: Sequence[Path]) -> list[build.Unit]:
    """Return the translation units of C files.

    Each folder is a unit. Tables have a unit of their own, so that cc needs a similar time for each
    unit. ports.WORKER is compiled only once for engines and Workers.
    """
    units: dict[tuple[Path, bool], list[Path]] = {}
    for source in sources:
        if source not in ports.WORKER.files:
            is_table = source.name.startswith("table")
            units.setdefault((source.parent, is_table), []).append(source)
    workers = [ports.WORKER] if ports.C_FOLDER in include else []
    return [*(build.Unit(files, include) for files in units.values()), *workers]


_ERRORS: dict[int, tuple[type[EngineError], str]] = {
    -1: (NotFound, "no such entry"),
    -2: (AlreadyExists, "an entry with this key exists already"),
    -3: (TableFull, "it is full; it has as many entries as its declared size"),
    -4: (EngineError, "out of memory"),
    -5: (InvalidArgument, "not valid"),
}


def check(result: int, what: str) -> int:
    """Return the result of a C function, or raise the EngineError that it encodes."""
    if result >= 0:
        return result
    error, text = _ERRORS[result]
    refusal = error(f"{what}: {text}")
    refusal.reason = text
    raise refusal


def array(values: list[int]) -> ctypes.Array[c_uint64]:
    """Return words as a C array."""
    return (c_uint64 * max(1, len(values)))(*values)
