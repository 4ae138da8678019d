"""The engine's shared object: built for one program, loaded, its C functions typed."""

from __future__ import annotations

import _ctypes
import ctypes
import threading
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from ctypes import (
    POINTER,
    c_bool,
    c_double,
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
from typing import Any

from minip4 import engine, ports, wire
from minip4.engine.errors import (
    AlreadyExists,
    EngineError,
    InvalidArgument,
    NotFound,
    TableFull,
)
from minip4.native import build

DIGEST_WORDS = 32
FRAME_ROOM = 1024 + 9216  # PACKET_ROOM + PACKET_MAX_FRAME of packet.h

words = POINTER(c_uint64)


class MeterRates(ctypes.Structure):
    """struct meter_rates of control.h."""

    _fields_ = [
        (name, c_uint64)
        for name in ("committed_rate", "committed_burst", "peak_rate", "peak_burst")
    ]


class DigestSample(ctypes.Structure):
    """struct digest_sample of program.h."""

    _fields_ = [("digest", c_uint16), ("words", c_uint16), ("word", c_uint64 * DIGEST_WORDS)]


class CrcCustom(ctypes.Structure):
    """struct crc_custom of hash.h."""

    _fields_ = [
        ("width", ctypes.c_uint),
        ("polynomial", c_uint64),
        ("initial", c_uint64),
        ("final_xor", c_uint64),
        ("data_reflected", c_bool),
        ("remainder_reflected", c_bool),
    ]


class LinkConfig(ctypes.Structure):
    """struct link_config of link.h."""

    _fields_ = [
        ("rate_bps", c_uint64),
        ("delay_ns", c_uint64),
        ("jitter_ns", c_uint64),
        ("loss", c_double),
        ("reorder", c_double),
        ("reorder_ns", c_uint64),
        ("seed", c_uint64),
    ]


class LinkCounters(ctypes.Structure):
    """struct link_counters of link.h."""

    _fields_ = [
        (name, c_uint64)
        for name in ("sent_packets", "sent_bytes", "delivered_packets", "delivered_bytes",
                     "lost_packets", "lost_bytes")
    ]  # fmt: skip


class QueueConfig(ctypes.Structure):
    """struct queue_config of engine.h."""

    _fields_ = [
        (name, c_uint64) for name in ("depth_packets", "depth_bytes", "rate_pps", "rate_bps")
    ]


class QueueState(ctypes.Structure):
    """struct queue_state of engine.h."""

    _fields_ = [
        ("config", QueueConfig),
        ("packets", c_uint64),
        ("bytes", c_uint64),
        ("drops", c_uint64),
    ]


class Hold(ctypes.Structure):
    """struct hold of lock.h."""

    _fields_ = [
        (name, c_uint64) for name in ("count", "longest_ns", "longest_cpu_ns", "most_words")
    ]


HOLD_KINDS = ("entry", "commit", "read", "state", "settings")
"""enum hold_kind of lock.h, in its order."""

COUNTER, REGISTER = range(2)
"""enum array_kind of control.h."""

COPY_HEAD = 2
"""Words before the slot in an entry that is copied out: see table.h."""

Signatures = Mapping[str, tuple[Any, Sequence[Any]]]
"""Of C functions, by name: what they return, and what they take."""

_TRACE_FUNCTIONS: Signatures = {"engine_trace_read": (c_uint32, [handle, words, c_uint32, words])}

_FUNCTIONS: Signatures = {
    "engine_create": (handle, [handle, c_uint64]),
    "engine_destroy": (None, [handle]),
    "engine_advance": (c_uint64, [handle, c_uint64]),
    "engine_catch_up": (None, [handle, c_uint64]),
    "engine_set_port": (None, [handle, c_uint16, c_bool]),
    "engine_set_clock": (None, [handle, c_int64, c_int32, c_uint64]),
    "engine_pool": (handle, [handle]),
    "engine_share_pool": (c_bool, [handle, handle]),
    "packet_pool_phv_size": (c_uint32, [handle]),
    "engine_set_priorities": (None, [handle, c_uint32]),
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
    "engine_crc_custom": (c_int, [handle, c_uint32, POINTER(CrcCustom)]),
    "engine_collect": (None, [handle, c_uint16]),
    "engine_inject": (c_bool, [handle, c_uint16, POINTER(c_uint8), c_uint32, c_uint64]),
    "engine_take": (c_int64, [handle, POINTER(c_uint16), POINTER(c_uint8), c_uint32]),
    "engine_repeat": (
        None,
        [handle, c_uint16, POINTER(c_uint8), c_uint32, c_uint32, c_uint32, c_uint64],
    ),
}


_loading = threading.RLock()  # finalizers may run in whoever holds it
_users: Counter[str] = Counter()  # Libraries of each path: they share what is mapped


class Library(ctypes.CDLL):
    """A program's shared object; unmapped as soon as nothing refers to it: then no engine of it is
    open and no driver runs it, since these do."""

    def __init__(self, path: Path, functions: Signatures, *, stays: bool) -> None:
        with _loading:
            # RTLD_LOCAL: engines of several programs in a process do not see each other's symbols.
            super().__init__(str(path), ctypes.RTLD_LOCAL)
            if not stays:  # as AddressSanitizer's must, which names functions at the very end
                _users[self._name] += 1
                memory_release = address(self, "memory_release")
                unmapping = weakref.finalize(self, _unmap, self._name, self._handle, memory_release)
                unmapping.atexit = False
        declare(self, self, functions)


def _unmap(path: str, mapped: int, memory_release: int) -> None:
    with _loading:
        _users[path] -= 1
        if not _users[path]:
            del _users[path]
            ctypes.CFUNCTYPE(None)(memory_release)()
        _ctypes.dlclose(mapped)


def declare(
    to: object, library: ctypes.CDLL, functions: Signatures, *, errno: bool = False
) -> None:
    """Make C functions attributes of `to`. They do not refer to the library: keep that, too."""
    for name, (result, arguments) in functions.items():
        kind = ctypes.CFUNCTYPE(result, *arguments, use_errno=errno)
        setattr(to, name, kind(address(library, name)))


def address(library: ctypes.CDLL, name: str) -> int:
    """Where a function or an object of a library lies."""
    return _ctypes.dlsym(library._handle, name)  # ctypes.cast() would refer to the library for good


def load(
    generated: str, *, is_large: bool = False, sanitize: bool, trace: bool = False
) -> ctypes.CDLL:
    """Build (once for each content) and load the engine of one program.

    Raises ToolchainError and TooLarge.
    """
    folders = (engine.C_FOLDER, ports.C_FOLDER, wire.C_FOLDER)
    sources = [source for folder in folders for source in sorted(folder.glob("*.c"))]
    functions = {**_FUNCTIONS, **(_TRACE_FUNCTIONS if trace else {})}
    with build.shared_object(
        sources, generated, include=folders, is_large=is_large, sanitize=sanitize, trace=trace
    ) as path:
        return Library(path, functions, stays=sanitize)


_ERRORS: dict[int, tuple[type[EngineError], str]] = {
    -1: (NotFound, "there is no such entry"),
    -2: (AlreadyExists, "there is one with this key already"),
    -3: (TableFull, "it is full: it holds as many entries as it was declared to"),
    -4: (EngineError, "memory is short"),
    -5: (InvalidArgument, "not valid"),
}


def check(result: int, what: str) -> int:
    """Return what C returned, or raise the EngineError that it stands for."""
    if result >= 0:
        return result
    error, text = _ERRORS[result]
    refusal = error(f"{what}: {text}")
    refusal.reason = text
    raise refusal


def array(values: list[int]) -> ctypes.Array[c_uint64]:
    """Words for C."""
    return (c_uint64 * max(1, len(values)))(*values)
