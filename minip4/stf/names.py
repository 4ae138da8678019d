"""Names and values of STF scripts.

A name may be a suffix, and a value may have wildcards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from minip4.engine import model as m
from minip4.engine.control.tables import prefix_mask
from minip4.engine.errors import NotFound
from minip4.engine.keys import Exact, Lpm, MatchKey, Range, Ternary

T = TypeVar("T")

# matches a word, a comment, or an unterminated quote
_TOKEN = re.compile(r'((?:"[^"]*"|[^\s"#])+)|#.*|(")')
_QUOTED = re.compile(r'"[^"]*"')
# matches a name, the character after it, and the rest
_NAMED = re.compile(r'("[^"]*"|[^":(]*)([:(])(.*)')
_ITEM = re.compile(r'(?:"[^"]*"|[^",])+')


@dataclass(frozen=True, slots=True)
class Call:
    action: str
    params: list[int]


def split(line: str) -> list[str]:
    """Split a line, without its comment, into words.

    Blanks and `#` in quotes belong to a name.
    """
    tokens = _TOKEN.findall(line)
    if any(quote for _, quote in tokens):
        raise ValueError(f"{line.strip()}: unterminated quote")
    return [word for word, _ in tokens if word]


def has_parenthesis(word: str) -> bool:
    """Return whether the word starts the parameters of an action, with a `(` that is not quoted."""
    return "(" in _QUOTED.sub("", word)


def find(items: Mapping[str, T], name: str, kind: str) -> T:
    """Look up an object by name or unique suffix, ignoring quotes. Raises NotFound."""
    name = name.strip('"')
    if name in items:
        return items[name]
    found = [item for full, item in items.items() if full.endswith("." + name)]
    if len(found) != 1:
        problem = (
            "several names end with it"
            if found
            else f"expected one of: {', '.join(items) or 'none'}"
        )
        raise NotFound(f"{kind} {name!r}: {problem}")
    return found[0]


def parse_call(actions: Iterable[m.Action], text: str) -> Call:
    """Parse `name(parameter:value, ...)`."""
    match = _NAMED.fullmatch(text.strip())
    if match is None or match[2] != "(" or not match[3].endswith(")"):
        raise ValueError(f"{text!r}: expected ACTION(NAME:VALUE, ...)")
    action = find({a.name: a for a in actions}, match[1].strip(), "action")
    given = {}
    for item in _ITEM.findall(match[3][:-1]):
        pair = _NAMED.fullmatch(item.strip())
        if pair is None or pair[2] != ":":
            raise ValueError(f"action {action.name}: {item.strip()!r}: expected NAME:VALUE")
        given[pair[1].strip().strip('"')] = pair[3]
    params = []
    for param in action.params:
        if param.name not in given:
            raise ValueError(f"action {action.name}: no value for parameter {param.name}")
        params.append(int(given.pop(param.name), 0))
    if given:
        raise ValueError(f"action {action.name} has no parameter {', '.join(given)}")
    return Call(action.name, params)


def parse_key(table: m.Table, words: list[str]) -> list[MatchKey]:
    """Parse `field:value ...`.

    An omitted field matches any value, if its match kind allows this.
    """
    names = {k.name: i for i, k in enumerate(table.key)}
    given: dict[int, str] = {}
    for word in words:
        pair = _NAMED.fullmatch(word)
        if pair is None or pair[2] != ":":
            raise ValueError(f"table {table.name}: {word!r}: expected FIELD:VALUE")
        name = re.sub(r"\$(\d+)", r"[\1]", pair[1])
        given[find(names, name, f"key of table {table.name}")] = pair[3]
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
            raise ValueError(f"table {table.name}, {k.name}: {text!r} is not a prefix")
        return Lpm(value, length)
    return Ternary(value, mask)


def _any(match_type: str, ones: int) -> MatchKey:
    if match_type == "lpm":
        return Lpm(0, 0)
    return Range(0, ones) if match_type == "range" else Ternary(0, 0)


def _value_and_mask(text: str, ones: int) -> tuple[int, int]:
    """Parse a number whose digits may be the wildcard `*`."""
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
