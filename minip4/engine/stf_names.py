"""Names and values of STF scripts: names may be shortened to a suffix, values hold wildcards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from minip4.engine import model as m
from minip4.engine.errors import NotFound
from minip4.engine.keys import Exact, Lpm, MatchKey, Range, Ternary
from minip4.engine.tables import prefix_mask

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    action: str
    params: list[int]


def find(items: Mapping[str, T], name: str, kind: str) -> T:
    """Look up by name, or by what alone ends with it. Raises NotFound."""
    if name in items:
        return items[name]
    found = [item for full, item in items.items() if full.endswith("." + name)]
    if len(found) != 1:
        problem = "several end with it" if found else f"there are {', '.join(items) or 'none'}"
        raise NotFound(f"{kind} {name!r}: {problem}")
    return found[0]


def parse_call(actions: Iterable[m.Action], text: str) -> Call:
    """`name(parameter:value, ...)`"""
    match = re.fullmatch(r"([^(]+)\((.*)\)", text.replace(" ", ""))
    if match is None:
        raise ValueError(f"{text!r}: expected ACTION(NAME:VALUE, ...)")
    action = find({a.name: a for a in actions}, match[1], "action")
    items = [item for item in match[2].split(",") if item]
    for item in items:
        if ":" not in item:
            raise ValueError(f"action {action.name}: {item!r}: expected NAME:VALUE")
    given = dict(item.split(":", 1) for item in items)
    params = []
    for param in action.params:
        if param.name not in given:
            raise ValueError(f"action {action.name}: no value for parameter {param.name}")
        params.append(int(given.pop(param.name), 0))
    if given:
        raise ValueError(f"action {action.name} has no parameter {', '.join(given)}")
    return Call(action.name, params)


def parse_key(table: m.Table, words: list[str]) -> list[MatchKey]:
    """`field:value ...`; a field left out matches anything, where its match kind can say so."""
    names = {k.name: i for i, k in enumerate(table.key)}
    given: dict[int, str] = {}
    for word in words:
        name, _, value = word.partition(":")
        name = re.sub(r"\$(\d+)", r"[\1]", name)
        given[find(names, name, f"key of table {table.name}")] = value
    return [_match(table, k, given.get(i)) for i, k in enumerate(table.key)]


def _match(table: m.Table, k: m.KeyField, text: str | None) -> MatchKey:
    ones = (1 << k.width) - 1
    if text is None:
        if k.match_type == "exact":
            raise ValueError(f"table {table.name}: no value for exact field {k.name}")
        return _any(k.match_type, ones)
    if k.match_type == "exact":
        return Exact(int(text, 0))
    if k.match_type == "range":
        low, _, high = text.partition("..")
        return Range(int(low, 0), int(high or low, 0))
    value, mask = _value_and_mask(text, ones)
    if k.match_type == "lpm":
        if "/" in text:
            return Lpm(value, int(text.split("/")[1], 0))
        length = mask.bit_count()
        if mask != prefix_mask(k.width, length):
            raise ValueError(f"table {table.name}, {k.name}: {text!r} is no prefix")
        return Lpm(value, length)
    return Ternary(value, mask)


def _any(match_type: str, ones: int) -> MatchKey:
    if match_type == "lpm":
        return Lpm(0, 0)
    return Range(0, ones) if match_type == "range" else Ternary(0, 0)


def _value_and_mask(text: str, ones: int) -> tuple[int, int]:
    """A number, whose digits may be `*` for any."""
    number = text.split("/", maxsplit=1)[0]
    if "*" not in number:
        return int(number, 0), ones
    base = {"0x": 16, "0b": 2}.get(number[:2].lower())
    if base is None:
        raise ValueError(f"{text!r}: wildcards need a hexadecimal or binary number")
    digits = number[2:]
    top = {16: "f", 2: "1"}[base]
    value = int(digits.replace("*", "0"), base)
    mask = int("".join("0" if d == "*" else top for d in digits), base)
    return value, mask & ones
