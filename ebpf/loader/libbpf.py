"""ctypes bindings of libbpf: functions and structures that the loader uses."""

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint32, c_uint64
from ctypes import c_void_p as handle
from functools import cache
from typing import Any

from ebpf.loader.errors import LoadError
from minip4.native.library import Signatures, declare

NAME = "libbpf.so.1"
DEBUG = 2  # LIBBPF_DEBUG, the level of messages that are no warnings
# libbpf asks the verifier for a log of 16 MB, and the reason is at the end of the log
LONGEST_LOG = 17 << 20


class _Options(ctypes.Structure):
    """Base class of libbpf's structures for options. Their first field is their size."""

    def __init__(self, *arguments: Any, **fields: Any) -> None:
        super().__init__(*arguments, size=ctypes.sizeof(self), **fields)


class TestRun(_Options):
    """struct bpf_test_run_opts."""

    __test__ = False  # pytest would otherwise treat this class as a test class
    _fields_ = [
        ("size", c_size_t),
        ("data_in", handle), ("data_out", handle),
        ("data_size_in", c_uint32), ("data_size_out", c_uint32),
        ("context_in", handle), ("context_out", handle),
        ("context_size_in", c_uint32), ("context_size_out", c_uint32),
        ("verdict", c_uint32), ("repeat", c_int), ("duration", c_uint32),
        ("flags", c_uint32), ("cpu", c_uint32), ("batch_size", c_uint32),
    ]  # fmt: skip


class TcHook(_Options):
    """struct bpf_tc_hook."""

    _fields_ = [("size", c_size_t), ("device", c_int), ("point", c_int), ("parent", c_uint32)]


class TcOptions(_Options):
    """struct bpf_tc_opts."""

    _fields_ = [("size", c_size_t), ("program", c_int), ("flags", c_uint32), ("id", c_uint32),
                ("handle", c_uint32), ("priority", c_uint32)]  # fmt: skip


class MapCreate(_Options):
    """struct bpf_map_create_opts."""

    _fields_ = [("size", c_size_t), ("btf_fd", c_uint32), ("btf_key_type_id", c_uint32),
                ("btf_value_type_id", c_uint32), ("btf_vmlinux_value_type_id", c_uint32),
                ("inner_map_fd", c_uint32), ("flags", c_uint32)]  # fmt: skip


PRINT = ctypes.CFUNCTYPE(c_int, c_int, c_char_p, handle)  # level, format, va_list
SAMPLE = ctypes.CFUNCTYPE(c_int, handle, handle, c_size_t)  # context, data, number of bytes

_FUNCTIONS: Signatures = {
    "libbpf_set_print": (handle, [PRINT]),
    "libbpf_num_possible_cpus": (c_int, []),
    "bpf_object__open_file": (handle, [c_char_p, handle]),
    "bpf_object__load": (c_int, [handle]),
    "bpf_object__close": (None, [handle]),
    "bpf_object__btf": (handle, [handle]),
    "bpf_object__next_program": (handle, [handle, handle]),
    "bpf_object__next_map": (handle, [handle, handle]),
    "bpf_program__name": (c_char_p, [handle]),
    "bpf_program__fd": (c_int, [handle]),
    "bpf_program__type": (c_int, [handle]),
    "bpf_map__name": (c_char_p, [handle]),
    "bpf_map__fd": (c_int, [handle]),
    "bpf_map__type": (c_int, [handle]),
    "bpf_map__key_size": (c_uint32, [handle]),
    "bpf_map__value_size": (c_uint32, [handle]),
    "bpf_map__max_entries": (c_uint32, [handle]),
    "bpf_map__set_max_entries": (c_int, [handle, c_uint32]),
    "bpf_map__map_flags": (c_uint32, [handle]),
    "bpf_map__btf_key_type_id": (c_uint32, [handle]),
    "bpf_map__btf_value_type_id": (c_uint32, [handle]),
    "bpf_map__inner_map": (handle, [handle]),
    "bpf_map__initial_value": (handle, [handle, POINTER(c_size_t)]),
    "btf__raw_data": (handle, [handle, POINTER(c_uint32)]),
    "bpf_map_create": (c_int, [c_int, c_char_p, c_uint32, c_uint32, c_uint32, POINTER(MapCreate)]),
    "bpf_map_lookup_elem_flags": (c_int, [c_int, handle, handle, c_uint64]),
    "bpf_map_update_elem": (c_int, [c_int, handle, handle, c_uint64]),
    "bpf_map_delete_elem": (c_int, [c_int, handle]),
    "bpf_map_get_next_key": (c_int, [c_int, handle, handle]),
    "bpf_map_lookup_batch": (c_int, [c_int, handle, handle, handle, handle, POINTER(c_uint32),
                                     handle]),
    "bpf_map_update_batch": (c_int, [c_int, handle, handle, POINTER(c_uint32), handle]),
    "ring_buffer__new": (handle, [c_int, SAMPLE, handle, handle]),
    "ring_buffer__poll": (c_int, [handle, c_int]),
    "ring_buffer__consume": (c_int, [handle]),
    "ring_buffer__free": (None, [handle]),
    "bpf_prog_test_run_opts": (c_int, [c_int, POINTER(TestRun)]),
    "bpf_tc_hook_create": (c_int, [POINTER(TcHook)]),
    "bpf_tc_attach": (c_int, [POINTER(TcHook), POINTER(TcOptions)]),
    "bpf_tc_detach": (c_int, [POINTER(TcHook), POINTER(TcOptions)]),
}  # fmt: skip

# messages of libbpf since the list was cleared; after a failure, also the verifier's log
said: list[str] = []


@cache
def library() -> ctypes.CDLL:
    """Return libbpf, whose functions have declared types.

    Messages of libbpf are appended to `said`. Raises LoadError.
    """
    try:
        loaded = ctypes.CDLL(NAME)
        declare(loaded, loaded, _FUNCTIONS, errno=True)
    except OSError as error:
        raise LoadError(
            f"{NAME} is missing or too old; run ./setup.sh (package libbpf-dev; the package of "
            f"Ubuntu 22.04 is too old): {error}"
        ) from None
    loaded.libbpf_set_print(_print)
    return loaded


@PRINT
def _print(level: int, form: bytes, arguments: int) -> int:
    if level == DEBUG:
        return 0
    text = ctypes.create_string_buffer(LONGEST_LOG)
    ctypes.CDLL(None).vsnprintf(text, c_size_t(len(text)), form, handle(arguments))
    said.append(text.value.decode(errors="replace"))
    return 0


def each(following: Any, whole: int) -> Sequence[int]:
    """Return all programs or all maps of an object.

    `following` is libbpf's function that returns the program or map after a given one.
    """
    listed = []
    at = following(whole, None)
    while at:
        listed.append(at)
        at = following(whole, at)
    return listed
