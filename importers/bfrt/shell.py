"""The names of bfrt_python: `bfrt.program.pipe.Ingress.table.add_with_action(...)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from importers.bfrt.tables import (
    PRIORITY,
    BfrtError,
    Entry,
    Field,
    Key,
    MatchTable,
    Table,
    Tables,
    data_of,
)

# suffix of the second parameter of a key
_SECOND = {"ternary": "mask", "lpm": "p_length", "range": "end"}
_WITH_ACTION = ("add_with_", "mod_with_", "entry_with_", "set_default_with_")


class Shell:
    """The global `bfrt` of a script. Any name is the name of the program."""

    def __init__(self, tables: Tables) -> None:
        self.pre = _Folder("pre", tables.of_device[:2], "$pre.")
        self.mirror = _Folder("mirror", tables.of_device[2:3], "$mirror.")
        self.port = _Folder("port", tables.of_device[3:], "$")
        self._program = _Program(tables)

    def __getattr__(self, name: str) -> _Program:
        if name.startswith("tf"):
            raise BfrtError(f"bfrt.{name}: only a Tofino has these tables")
        return self._program

    def complete_operations(self) -> None:
        """Do nothing, since each call waits for its answer."""

    batch_begin = batch_end = batch_flush = complete_operations


class _Program:
    def __init__(self, tables: Tables) -> None:
        self.pipe = _Folder("pipe", tables.of_program)


class _Folder:
    """Tables whose names begin with the name of a control."""

    def __init__(self, name: str, tables: Sequence[Table], prefix: str = "") -> None:
        self._name = name
        self._tables = tables
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        full = self._prefix + name
        for table in self._tables:
            # `port` is the only table of the device that is in capitals
            if full in (table.name, table.name.lower()):
                return Node(table)
        inside = [table for table in self._tables if table.name.startswith(f"{full}.")]
        if not inside:
            known = ", ".join(table.name for table in self._tables)
            raise BfrtError(f"bfrt: {self._name}.{name}: no such table; tables: {known}")
        return _Folder(f"{self._name}.{name}", inside, f"{full}.")

    def info(self, return_info: bool = False, print_info: bool = True) -> Any:
        """Return or print the names and types of the tables."""
        found = [
            {"full_name": f"pipe.{table.name}", "type": table.kind, "node": Node(table)}
            for table in self._tables
        ]
        if print_info:
            for each in found:
                print(f"{each['full_name']:60} {each['type']}")
        return found if return_info else None


class Node:
    """A table in bfrt_python. The methods for actions have the action in their name."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._short = _short_names([of.name for of in table.keys])

    def __getattr__(self, name: str) -> Callable[..., Any]:
        for start in _WITH_ACTION:
            if name.startswith(start):
                action = self._action(name.removeprefix(start))
                method = getattr(self, "_" + start.removesuffix("_with_"))
                return partial(method, action)
        raise BfrtError(f"{self._table.name}: no method {name!r}")

    def add(self, *values: Any, **named: Any) -> None:
        """Insert an entry of a table without actions."""
        self._add(None, *values, **named)

    def mod(self, *values: Any, **named: Any) -> None:
        """Change an entry of a table without actions."""
        self._mod(None, *values, **named)

    def entry(self, *values: Any, **named: Any) -> Item:
        """Return an entry, which push() writes."""
        return self._entry(None, *values, **named)

    def delete(self, *values: Any, **named: Any) -> None:
        """Delete the entry with these keys."""
        self._table.delete(self._split(None, values, named, only_keys=True).keys)

    def clear(self, *_options: Any, **_more: Any) -> None:
        """Delete all entries, or set all cells to 0."""
        self._table.clear()

    def reset_default(self) -> None:
        """Restore the default action of the program."""
        self._match_table().reset_default()

    def get(self, *values: Any, regex: bool = False, **named: Any) -> Any:
        """Return the entry with these keys, or with `regex` all entries."""
        for option in ("from_hw", "print_ents", "return_ents", "pipe"):
            named.pop(option, None)
        if regex:
            return [Item(self._table, entry) for entry in self._table.get()]
        keys = self._split(None, values, named, only_keys=True).keys
        found = self._table.get(keys)
        if not found:
            raise BfrtError(f"{self._table.name}: no entry with these keys")
        return Item(self._table, found[0])

    def dump(self, *, return_ents: bool = False, print_ents: bool = True, **_options: Any) -> Any:
        """Print all entries, or return them."""
        found = self.get(regex=True)
        if not return_ents and print_ents:
            print(f"----- {self._table.name} dump start -----")
            for item in found:
                print(item)
            print("----- dump end -----")
        return found if return_ents else None

    def info(self, return_info: bool = False, print_info: bool = True) -> Any:
        """Return or print the keys and the data fields."""
        table = self._table
        found = {
            "full_name": f"pipe.{table.name}", "type": table.kind,
            "key_fields": [of.name for of in table.keys],
            "data_fields": {a or "": [of.name for of in data] for a, data in table.actions.items()},
        }  # fmt: skip
        if print_info:
            print(found)
        return found if return_info else None

    def operation_register_sync(self, *_options: Any) -> None:
        """Do nothing, since reads return the values of the switch."""

    operation_counter_sync = operation_register_sync

    def _add(self, action: str | None, *values: Any, **named: Any) -> None:
        self._table.add(self._split(action, values, named))

    def _mod(self, action: str | None, *values: Any, **named: Any) -> None:
        self._table.modify(self._split(action, values, named))

    def _entry(self, action: str | None, *values: Any, **named: Any) -> Item:
        return Item(self._table, self._split(action, values, named))

    def _set_default(self, action: str | None, *values: Any, **named: Any) -> None:
        entry = self._split(action, values, named, only_data=True)
        self._match_table().set_default(entry)

    def _match_table(self) -> MatchTable:
        if not isinstance(self._table, MatchTable):
            raise BfrtError(f"{self._table.name}: this table has no default entry")
        return self._table

    def _action(self, name: str) -> str | None:
        """Return the full name of an action, given with `_` for `.`."""
        for full in self._table.actions:
            if full and full.replace(".", "_").lstrip("$") == name:
                return full
        return self._table.action_name(name)

    def _split(
        self, action: str | None, values: Sequence[Any], named: Mapping[str, Any],
        *, only_keys: bool = False, only_data: bool = False,
    ) -> Entry:  # fmt: skip
        """Return the entry that the arguments of a call describe. Raises BfrtError."""
        table = self._table
        parts: list[tuple[str, Field | None]] = []  # parameters, in the order of the call
        if not only_data:
            for of in table.keys:
                parts.append((self._short[of.name], of))
                if of.match in _SECOND:
                    parts.append((f"{self._short[of.name]}_{_SECOND[of.match]}", None))
        data = [] if only_keys else table.actions[action]
        short_data = _short_names([of.name for of in data])
        known = [name for name, _ in parts] + [short_data[of.name] for of in data]
        if len(values) > len(known):
            raise BfrtError(f"{table.name}: {len(values)} values; expected {', '.join(known)}")
        given = dict(zip(known, values, strict=False))
        for name, value in named.items():
            name = "match_priority" if name.upper() == PRIORITY[1:] else name
            right = _start_of_range(name, known)
            if right not in known or right in given:
                why = "is given twice" if right in given else "is unknown"
                raise BfrtError(f"{table.name}: {name} {why}; expected {', '.join(known)}")
            given[right] = value
        keys = {}
        for name, key in parts:
            if key is not None and given.get(name) is not None:
                second = None
                if key.match in _SECOND:
                    second = self._second(key, given.get(f"{name}_{_SECOND[key.match]}"))
                keys[key.name] = Key(table.value(key, given[name]), second)
        pairs = [(of.name, given[short_data[of.name]]) for of in data
                 if given.get(short_data[of.name]) is not None]  # fmt: skip
        return Entry(keys, data_of(table, action, pairs) if data else {}, action)

    def _second(self, of: Field, value: Any) -> int | None:
        if value is None:
            return None
        return self._table.value(replace(of, bits=max(of.bits, 8)), value)


class Item:
    """An entry in bfrt_python."""

    def __init__(self, table: Table, entry: Entry) -> None:
        self._table = table
        self._entry = entry

    @property
    def key(self) -> dict[bytes, Any]:
        """The keys by name. As in bfrt_python, names are bytes."""
        return {name.encode(): key.value for name, key in self._entry.keys.items()}

    @property
    def data(self) -> dict[bytes, Any]:
        """The data by name. As in bfrt_python, names are bytes."""
        return {name.encode(): value for name, value in self._entry.data.items()}

    @property
    def action(self) -> str | None:
        """The full name of the action."""
        return self._entry.action

    def push(self) -> None:
        """Write the entry."""
        self._table.add(self._entry)

    def remove(self) -> None:
        """Delete the entry."""
        self._table.delete(self._entry.keys)

    def update(self) -> None:
        """Read the entry again."""
        self._entry = self._table.get(self._entry.keys)[0]

    def __str__(self) -> str:
        keys = ", ".join(
            f"{name}={key.value:#x}" + ("" if key.second is None else f"/{key.second:#x}")
            for name, key in self._entry.keys.items()
        )
        data = ", ".join(f"{name}={value}" for name, value in self._entry.data.items())
        return f"{keys} -> {self._entry.action or ''}({data})"


def _short_names(names: Sequence[str]) -> dict[str, str]:
    """Return the parameter of each field: its last word, or the whole name if others share it.

    A name without its `$` is in small letters if it is a key of the device.
    """
    last = [name.rpartition(".")[2].lstrip("$") for name in names]
    found = {}
    for name, word in zip(names, last, strict=True):
        whole = name.replace(".", "_").lstrip("$")
        found[name] = word if last.count(word) == 1 else whole
        if name == PRIORITY:
            found[name] = "match_priority"
    return found


def _start_of_range(name: str, known: Sequence[str]) -> str:
    """Return the parameter of the start of a range, which scripts call `KEY_start`."""
    start = name.removesuffix("_start")
    return start if name not in known and f"{start}_end" in known else name
