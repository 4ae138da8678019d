"""The collector's C: built once, loaded, its functions typed."""

import ctypes
from ctypes import POINTER, c_uint32, c_uint64
from functools import cache

from collectors.int import C_FOLDER
from collectors.int.shared import NUMBERS, SHARED, Input, Output, Settings
from minip4 import simulator
from minip4.native import build, layouts
from minip4.native.library import Signatures, declare

SOURCES = ("decode.c", "metadata.c", "packet.c", "stack.c")
HEADERS = ("decoder.h",)

_FUNCTIONS: Signatures = {
    "int_decode": (
        c_uint32,
        [POINTER(Settings), POINTER(Input), POINTER(Output), POINTER(c_uint64)],
    ),
}


@cache
def library() -> ctypes.CDLL:
    """Raises ToolchainError where there is no C compiler."""
    with build.shared_object(
        [C_FOLDER / name for name in SOURCES],
        [build.Generated(layouts.checks(SHARED, NUMBERS))],
        include=[C_FOLDER, simulator.C_FOLDER],
    ) as built:
        loaded = ctypes.CDLL(str(built))
    declare(loaded, loaded, _FUNCTIONS)
    return loaded
