"""Checks of the numbers and names in a BMv2 JSON document before it is used.

The document becomes C code and may come from a controller. Therefore, each number in the C code
must be a number in the document.
"""

from __future__ import annotations

from typing import Any

from minip4.engine.errors import InvalidArgument

NUMBERS = frozenset({
    "action_id", "bitwidth", "compressed_bitwidth", "id", "max_length", "max_size",
    "prefix_length", "priority", "rate_count", "size", "timeout",
})  # fmt: skip
NAMES = frozenset({"header_type", "init_state", "init_table", "name", "op", "union_type"})
SECTIONS = ("header_types", "headers", "parsers", "deparsers", "actions", "calculations",
            "pipelines")  # fmt: skip
MAX_NUMBER = 2**32 - 1
MAX_WIDTH = 2**20  # maximum bits of a field
MAX_DEPTH = 400  # nesting of objects and lists; Python's own limit is 1000 calls


# sections whose objects the C code numbers, so a name must not occur twice
NUMBERED = ("register_arrays", "counter_arrays", "meter_arrays", "parse_vsets", "calculations",
            "pipelines")  # fmt: skip


def _check_unique(path: str, items: Any) -> None:
    names: set[str] = set()
    for item in items if isinstance(items, list) else []:
        name = item.get("name") if isinstance(item, dict) else None
        if isinstance(name, str) and name in names:
            raise _invalid(path, f"names that differ, not {name!r} twice")
        names.add(str(name))


def check_document(document: dict[str, Any]) -> None:
    """Check the types of numbers and names, and that no section is missing.

    Raises InvalidArgument.
    """
    waiting: list[tuple[str, Any, int]] = [("", document, 0)]
    while waiting:
        path, node, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise _invalid(path, f"at most {MAX_DEPTH} levels of objects and lists")
        if isinstance(node, dict):
            for key, value in node.items():
                _check_member(f"{path}.{key}", key, value)
                if key != "source_info":
                    waiting.append((f"{path}.{key}", value, depth + 1))
        elif isinstance(node, list):
            waiting += [(f"{path}[{i}]", value, depth + 1) for i, value in enumerate(node)]
    for section in SECTIONS:
        if not isinstance(document.get(section), list):
            raise _invalid(f".{section}", "a list")
    for section in NUMBERED:
        _check_unique(f".{section}", document.get(section, []))
    tables = [p.get("tables") for p in document["pipelines"] if isinstance(p, dict)]
    lists = [each for each in tables if isinstance(each, list)]
    _check_unique(".pipelines[].tables", [table for each in lists for table in each])
    for i, type_ in enumerate(document.get("header_types", [])):
        for j, item in enumerate(type_.get("fields", [])):
            width = item[1] if isinstance(item, list) and len(item) > 1 else None
            if width != "*" and not is_number(width, MAX_WIDTH):
                raise _invalid(f".header_types[{i}].fields[{j}]", f"a width up to {MAX_WIDTH}")


def _check_member(path: str, key: str, value: Any) -> None:
    if key in NUMBERS and value is not None and not is_number(value, MAX_NUMBER):
        raise _invalid(path, f"a number from 0 to {MAX_NUMBER}")
    if key in NAMES and value is not None and not isinstance(value, str):
        raise _invalid(path, "a name")


def is_number(value: Any, largest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= largest


def _invalid(path: str, expected: str) -> InvalidArgument:
    return InvalidArgument(f"not BMv2 JSON as p4c writes it: {path[1:]}: expected {expected}")
