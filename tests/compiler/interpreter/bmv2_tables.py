"""Lookup of entries in a BMv2 table, by a search through all entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass
class Entry:
    """An entry of a table.

    For each key field, it has a mask, and the minimum and maximum of the masked value.
    """

    fields: list[tuple[int, int, int]]  # mask, min, max
    prefix: int  # prefix length of the lpm field
    priority: int  # the entry with the smallest priority wins
    action_id: int
    data: list[int]
    packets: int = 0
    bytes: int = 0


def number(text: str) -> int:
    return -int(text[1:], 16) if text.startswith("-") else int(text, 16)


def exact(keys: list[int], action_id: int, data: list[int]) -> Entry:
    return Entry([(-1, key, key) for key in keys], 0, 0, action_id, data)


def entries(table: Json, widths: list[int]) -> list[Entry]:
    """Return the const entries of the program."""
    found = []
    for entry in table.get("entries", []):
        fields, prefix = [], 0
        for key, width in zip(entry["match_key"], widths, strict=True):
            ones = (1 << width) - 1
            if key["match_type"] == "range":
                fields.append((ones, number(key["start"]), number(key["end"])))
                continue
            mask, value = ones, number(key["key"])
            if key["match_type"] == "lpm":
                prefix = key["prefix_length"]
                mask = ones >> (width - prefix) << (width - prefix)
            elif key["match_type"] in ("ternary", "optional"):
                mask = number(key["mask"])
            fields.append((mask, value & mask, value & mask))
        action = entry["action_entry"]
        data = [number(d) for d in action["action_data"]]
        found.append(Entry(fields, prefix, entry.get("priority", 0), action["action_id"], data))
    return found


def find(table: Json, known: list[Entry], keys: list[int]) -> Entry | None:
    matching = [
        entry
        for entry in known
        if all(
            low <= key & mask <= high
            for (mask, low, high), key in zip(entry.fields, keys, strict=True)
        )
    ]
    if table["match_type"] == "lpm":
        return max(matching, key=lambda e: e.prefix, default=None)
    return min(matching, key=lambda e: e.priority, default=None)
