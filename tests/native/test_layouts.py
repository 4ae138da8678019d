"""Structures that C and Python share. If only one side changes, the C code does not compile."""

import ctypes
from ctypes import c_double, c_int64, c_uint8, c_uint32, c_uint64
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import numpy as np
import pytest
from small_programs import json_of

import minip4
from minip4.engine import library
from minip4.engine.engine import Engine
from minip4.errors import ToolchainError
from minip4.native import build, layouts
from minip4.native.layouts import Shared
from minip4.ports import shared as ports_shared
from minip4.simulator import shared as simulator_shared

HEADER = """#include <stdint.h>
struct pair { uint32_t small; uint64_t large; double parts[2]; void *at; };
struct record { uint16_t id; uint64_t number; } __attribute__((packed));
enum { ROOM = 7 };
"""
FIELDS = [("small", c_uint32), ("large", c_uint64), ("parts", c_double * 2),
          ("at", ctypes.c_void_p)]  # fmt: skip
RECORD = np.dtype([("id", ">u2"), ("number", ">u8")])


def structure(fields: list[tuple[str, Any]]) -> type[ctypes.Structure]:
    return type("Pair", (ctypes.Structure,), {"_fields_": fields})


def compiled(folder: Path, shared: list[Shared], numbers: dict[str, int] | None = None) -> None:
    (folder / "pair.h").write_text(HEADER)
    text = layouts.checks(shared, numbers)
    with build.shared_object([], [build.Generated(text)], include=[folder]):
        pass


def test_equal_layouts_compile(tmp_path: Path) -> None:
    shared = [Shared("pair.h", "struct pair", structure(FIELDS)),
              Shared("pair.h", "struct record", RECORD)]  # fmt: skip
    compiled(tmp_path, shared, {"ROOM": 7, "(uint64_t)ROOM << 32": 7 << 32})


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ([("tiny", c_uint32), *FIELDS[1:]], "no member named .tiny"),
        ([FIELDS[1], FIELDS[0], *FIELDS[2:]], "struct pair: Python has large, uint64_t, at byte 0"),
        ([("small", c_uint8), *FIELDS[1:]], "struct pair: Python has small, uint8_t, at byte 0"),
        ([FIELDS[0], ("large", c_int64), *FIELDS[2:]], "Python has large, int64_t, at byte 8"),
        ([*FIELDS[:2], ("parts", c_double * 1), FIELDS[3]], r"parts, double\[1\], at byte 16"),
        ([*FIELDS[:3], ("at", c_uint64)], "Python has at, uint64_t, at byte 32"),
        ([("small", ctypes.c_void_p), *FIELDS[1:]], "Python has small, 8 bytes, at byte 0"),
        (FIELDS[:3], "struct pair has 32 bytes in Python"),
        ([*FIELDS, ("more", c_uint64)], "no member named .more"),
    ],
    ids=[
        "name",
        "order",
        "size",
        "sign",
        "count",
        "pointer",
        "no pointer",
        "missing",
        "additional",
    ],
)
def test_a_structure_of_another_layout_is_refused_in_a_line(
    tmp_path: Path, fields: list[tuple[str, Any]], told: str
) -> None:
    with pytest.raises(ToolchainError, match=told) as refused:
        compiled(tmp_path, [Shared("pair.h", "struct pair", structure(fields))])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("dtype", "told"),
    [
        (np.dtype([("number", ">u8"), ("id", ">u2")]), "Python has number, uint64_t, at byte 0"),
        (np.dtype([("id", ">i2"), ("number", ">u8")]), "Python has id, int16_t, at byte 0"),
        (np.dtype([("id", ">u2"), ("number", ">u8")], align=True), "number, uint64_t, at byte 8"),
        (np.dtype([("id", ">u2")]), "struct record has 2 bytes in Python"),
    ],
    ids=["order", "sign", "padding", "missing"],
)
def test_a_record_of_another_layout_is_refused(
    tmp_path: Path, dtype: np.dtype[np.void], told: str
) -> None:
    with pytest.raises(ToolchainError, match=told):
        compiled(tmp_path, [Shared("pair.h", "struct record", dtype)])


def test_a_number_that_c_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="ROOM is 8 in Python"):
        compiled(tmp_path, [Shared("pair.h", "struct record", RECORD)], {"ROOM": 8})


def test_an_engine_is_not_loaded_where_the_two_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hold(ctypes.Structure):
        _fields_ = [(name, c_uint64) for name in ("count", "longest_ns", "max_words")]

    monkeypatch.setattr(library, "SHARED", [Shared("lock.h", "struct hold", Hold)])
    with pytest.raises(ToolchainError, match="struct hold: Python has max_words, uint64_t, at"):
        Engine(json_of())


def test_every_structure_of_minip4_is_compared() -> None:
    for module in walk_packages(minip4.__path__, "minip4."):
        import_module(module.name)
    found = {each for each in ctypes.Structure.__subclasses__()
             if each.__module__.startswith("minip4.")}  # fmt: skip
    compared = {
        each.python for each in (*library.SHARED, *ports_shared.SHARED, *simulator_shared.SHARED)
    }
    assert {each.__name__ for each in found - compared} == set()
    assert len(found) == 18
