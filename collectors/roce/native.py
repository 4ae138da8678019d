"""The responder's C: built once, loaded, its functions typed."""

import ctypes
from ctypes import POINTER, c_bool, c_char_p, c_int, c_uint8, c_uint32, c_uint64
from ctypes import c_void_p as handle
from functools import cache

import collectors
from collectors.roce import C_FOLDER
from collectors.roce.shared import NUMBERS, SHARED, Config, Connection, Counters, Gid
from minip4 import simulator
from minip4.native import build, layouts
from minip4.native.library import Signatures, declare

_FUNCTIONS: Signatures = {
    "roce_create": (handle, [POINTER(Config)]),
    "roce_destroy": (None, [handle]),
    "roce_register": (c_uint32, [handle, handle, c_uint64, c_uint64, c_uint32, c_uint8]),
    "roce_connect": (c_uint32, [handle, POINTER(Connection)]),
    "roce_disconnect": (c_bool, [handle, c_uint32]),
    "roce_expected": (c_uint32, [handle, c_uint32]),
    "roce_receive": (None, [handle, handle, c_uint32, handle, handle]),
    "roce_refusals": (c_uint32, [handle, handle]),
    "roce_management": (c_uint32, [handle, handle]),
    "roce_completions": (c_uint32, [handle, handle, c_uint32]),
    "roce_card_open": (handle, [handle, c_char_p]),
    "roce_card_close": (None, [handle]),
    "roce_card_run": (c_int, [handle, c_int, c_int]),
    "roce_card_send": (c_int, [handle, c_char_p, c_uint32]),
    "roce_card_drops": (c_uint64, [handle]),
    "roce_bypass_open": (c_int, [c_char_p, POINTER(Gid)]),
    "roce_get_counts": (None, [handle, POINTER(Counters)]),
}


@cache
def library(*, sanitize: bool = False) -> ctypes.CDLL:
    """Raises ToolchainError where there is no C compiler; `sanitize` is that of shared_object()."""
    with build.shared_object(
        sorted(C_FOLDER.glob("*.c")),
        [build.Generated(layouts.checks(SHARED, NUMBERS))],
        include=[C_FOLDER, collectors.C_FOLDER, simulator.C_FOLDER],
        sanitize=sanitize,
    ) as built:
        loaded = ctypes.CDLL(str(built))
    declare(loaded, loaded, _FUNCTIONS, errno=True)
    return loaded
