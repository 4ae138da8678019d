"""The collector's C: built once, loaded, its functions typed."""

import ctypes
from ctypes import POINTER, c_uint32, c_uint64
from ctypes import c_void_p as handle
from functools import cache

import collectors
from collectors.int import C_FOLDER
from collectors.int.shared import (
    NUMBERS,
    SHARED,
    IndexConfig,
    IndexCounters,
    Input,
    Output,
    Settings,
)
from minip4 import simulator
from minip4.native import build, layouts
from minip4.native.library import Signatures, declare

_FUNCTIONS: Signatures = {
    "int_decode": (
        c_uint32,
        [POINTER(Settings), POINTER(Input), POINTER(Output), POINTER(c_uint64)],
    ),
    "int_index_create": (handle, [POINTER(IndexConfig)]),
    "int_index_destroy": (None, [handle]),
    "int_index_add": (None, [handle, POINTER(Output)]),
    "int_index_settle": (None, [handle, c_uint64]),
    "int_index_end": (None, [handle, c_uint64]),
    "int_index_counters": (None, [handle, POINTER(IndexCounters)]),
    "int_index_flow_count": (c_uint32, [handle]),
    "int_index_flows": (c_uint32, [handle, handle]),
    "int_index_sources": (c_uint32, [handle, handle]),
    "int_index_take_gaps": (c_uint32, [handle, handle]),
    "int_index_take_changes": (c_uint32, [handle, handle]),
}


@cache
def library() -> ctypes.CDLL:
    """Raises ToolchainError where there is no C compiler."""
    with build.shared_object(
        sorted(C_FOLDER.glob("*.c")),
        [build.Generated(layouts.checks(SHARED, NUMBERS))],
        include=[C_FOLDER, collectors.C_FOLDER, simulator.C_FOLDER],
    ) as built:
        loaded = ctypes.CDLL(str(built))
    declare(loaded, loaded, _FUNCTIONS)
    return loaded
