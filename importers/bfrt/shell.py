"""The names of bfrt_python: `bfrt.program.pipe.Ingress.table.add_with_action(...)`."""

from __future__ import annotations

import json as json_format
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from ipaddress import ip_address
from typing import Any

from importers.bfrt.connection import BfrtError
from importers.bfrt.device import StoredTable
from importers.bfrt.switch import Digest, Tables, data_of
from importers.bfrt.tables import Entry, Field, Key, MatchTable, Table

# suffixes of the two parameters of a key
_PAIRS = {
    "ternary": ("", "_mask"), "lpm": ("", "_p_length"), "range": ("_start", "_end")
}  # fmt: skip
_WITH_ACTION = ("add_with_", "mod_with_", "entry_with_", "set_default_with_")
_TARGET = ("pipe", "gress_dir", "prsr_id")  # parameters of all methods, without effect
_MAX_DEPTH = 20  # words of a name


def ip(text: str) -> int:
    """Convert an address."""
    return int(ip_address(text))


def mac(text: str) -> int:
    """Convert an address."""
    return int(text.replace(":", "").replace("-", ""), 16)


class Shell:
    """The global `bfrt` of a script. Any name is the name of the program."""

    def __init__(self, tables: Tables) -> None:
        self.pre = _Folder("pre", tables.of_device[:2], "$pre.")
        self.mirror = _Folder("mirror", tables.of_device[2:3], "$mirror.")
        self.port = _Folder("port", tables.of_device[3:], "$")
        # functions that the script has registered, by the name of their digest
        self.callbacks: dict[str, Callable[..., Any]] = {}
        self.p4_programs_list = ["program"]
        self._program = _Program(tables, self.callbacks)

    def __getattr__(self, name: str) -> _Program:
        if name in ("tf1", "tf2", "tf3"):
            raise BfrtError(f"bfrt.{name}: only a Tofino has these tables")
        return self._program

    def complete_operations(self) -> None:
        """Do nothing, since each call waits for its answer."""

    batch_begin = batch_end = batch_flush = complete_operations


class _Program:
    def __init__(self, tables: Tables, callbacks: dict[str, Callable[..., Any]]) -> None:
        learn = [_Learn(tables, digest, callbacks) for digest in tables.digests]
        self.pipe = _Folder("pipe", tables.of_program, "", learn)

    def __getattr__(self, pipeline: str) -> Any:
        """Return one of several pipelines, whose name is the start of the names of its tables."""
        return getattr(self.pipe, pipeline)


class _Learn:
    """A digest in bfrt_python."""

    def __init__(
        self, tables: Tables, digest: Digest, callbacks: dict[str, Callable[..., Any]]
    ) -> None:
        self.name = digest.name
        self._tables = tables
        self._digest = digest
        self._callbacks = callbacks

    def callback_register(self, callback: Callable[..., Any]) -> None:
        """Let a function be called for each list of messages, after the end of the script."""
        self._callbacks[self.name] = callback
        self._tables.subscribe(self._digest)

    def callback_deregister(self) -> None:
        """Cancel callback_register()."""
        if self.name not in self._callbacks:
            raise BfrtError(f"{self.name}: no callback is registered")
        del self._callbacks[self.name]


class _Folder:
    """Tables and digests whose names begin with the name of a control."""

    def __init__(
        self, name: str, tables: Sequence[Table], prefix: str = "", learn: Sequence[_Learn] = ()
    ) -> None:
        self._name = name
        self._tables = tables
        self._prefix = prefix
        self._learn = learn

    def __getattr__(self, name: str) -> Any:
        full = self._prefix + name
        for table in self._tables:
            # `port` is the only table of the device that is in capitals
            if full in (table.name, table.name.lower()):
                return Node(table)
        inside = [table for table in self._tables if table.name.startswith(f"{full}.")]
        learn = [each for each in self._learn if f"{each.name}.".startswith(f"{full}.")]
        if learn and learn[0].name == full:
            return learn[0]
        if not inside and not learn:
            known = ", ".join(table.name for table in self._tables)
            why = "only a Tofino has this table" if self._prefix == "$" else "no such table"
            raise BfrtError(f"bfrt: {self._name}.{name}: {why}; tables: {known}")
        return _Folder(f"{self._name}.{name}", inside, f"{full}.", learn)

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

    def get_default(self, **_options: Any) -> Item:
        """Return the default entry."""
        return Item(self._table, self._match_table().default())

    def get(self, *values: Any, regex: bool = False, **named: Any) -> Any:
        """Return the entry with these keys, or -1; with `regex` return all entries."""
        for option in ("from_hw", "print_ents", "return_ents"):
            named.pop(option, None)
        if regex:
            if values or named:
                raise BfrtError(f"{self._table.name}: get() cannot search keys; get all entries")
            return [Item(self._table, entry) for entry in self._table.get()]
        keys = self._split(None, values, named, only_keys=True).keys
        found = self._table.get(keys)
        if not found:
            print(f"{self._table.name}: no entry with these keys")
            return -1
        return Item(self._table, found[0])

    def dump(self, *, return_ents: bool = False, json: bool = False, **_options: Any) -> Any:
        """Print all entries, or return them, as text with `json`."""
        found = self.get(regex=True)
        if json:
            return json_format.dumps([item.raw() for item in found])
        if return_ents:
            return found
        print(
            f"----- {self._table.name} Dump Start -----", *found, "----- Dump End -----", sep="\n"
        )
        return None

    def info(self, return_info: bool = False, print_info: bool = True, **_options: Any) -> Any:
        """Return or print the keys, the data fields, and the number of entries (`usage`)."""
        table = self._table
        found = {
            "full_name": f"pipe.{table.name}", "type": table.kind, "usage": len(table.get()),
            "key_fields": [of.name for of in table.keys],
            "data_fields": {a or "": [of.name for of in data] for a, data in table.actions.items()},
        }  # fmt: skip
        if print_info:
            print(found)
        return found if return_info else None

    def operation_register_sync(self, *_options: Any) -> None:
        """Do nothing, since reads return the values of the switch."""

    operation_counter_sync = operation_register_sync

    def symmetric_mode_set(self, _is_symmetric: bool) -> None:
        """Do nothing, since there is one pipe."""

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
        """Return the entry that the arguments of a call describe. Raises BfrtError.

        As in bfrt_python, a missing parameter is 0, and a key without value and mask matches
        everything.
        """
        table = self._table
        keys = [] if only_data else table.keys
        data = [] if only_keys else table.data_fields(action)
        short_keys, short_data = _parameters(keys, data)
        parameters = {
            of.name: [name + suffix for suffix in _PAIRS.get(of.match, ("",))]
            for of, name in zip(keys, short_keys, strict=True)
        }
        known = [name for names in parameters.values() for name in names] + short_data
        if len(values) > len(known):
            raise BfrtError(f"{table.name}: {len(values)} values; expected {', '.join(known)}")
        given = dict(zip(known, values, strict=False))
        any_case = {name.lower(): name for name in known}
        for name, value in named.items():
            right = name if name in known else any_case.get(name.lower())
            if right is None and name in _TARGET:
                continue
            if right is None or right in given:
                why = "is unknown" if right is None else "is given twice"
                raise BfrtError(f"{table.name}: {name} {why}; expected {', '.join(known)}")
            given[right] = value
        found = {}
        for of in keys:
            pair = [given.get(name) for name in parameters[of.name]]
            if of.match != "ternary" or pair != [None, None]:
                found[of.name] = self._key(of, *pair)
        needed = None if action is None or isinstance(table, StoredTable) else 0
        pairs = [(of.name, given.get(name, needed))
                 for of, name in zip(data, short_data, strict=True)]  # fmt: skip
        used = [(name, needed if value is None else value) for name, value in pairs]
        used = [(name, value) for name, value in used if value is not None]
        return Entry(found, data_of(table, action, used) if data else {}, action)

    def _key(self, of: Field, first: Any, second: Any = None) -> Key:
        value = self._table.value(of, 0 if first is None else first)
        if of.match == "exact" or (of.match == "ternary" and second is None):
            return Key(value)
        return Key(value, self._table.second(of, 0 if second is None else second))


class Item:
    """An entry in bfrt_python. As there, the names in `key` and `data` are bytes."""

    def __init__(self, table: Table, entry: Entry) -> None:
        self._table = table
        self._keys = entry.keys
        self.key = {name.encode(): key.value for name, key in entry.keys.items()}
        self.data = {name.encode(): value for name, value in entry.data.items()}
        self.action = entry.action

    def push(self, **_options: Any) -> None:
        """Change the entry in the switch, or insert it."""
        pairs = [(name.decode(), value) for name, value in self.data.items()]
        data = data_of(self._table, self.action, pairs) if pairs else {}
        self._table.put(Entry(self._keys, data, self.action))

    def remove(self, **_options: Any) -> None:
        """Delete the entry."""
        self._table.delete(self._keys)

    def update(self, **_options: Any) -> None:
        """Read the entry again."""
        for entry in self._table.get(self._keys):
            self.__init__(self._table, entry)  # type: ignore[misc]

    def raw(self) -> dict[str, Any]:
        """Return the entry as it is in JSON."""
        return {
            "table_name": f"pipe.{self._table.name}", "action": self.action,
            "key": {name.decode(): value for name, value in self.key.items()},
            "data": {name.decode(): value for name, value in self.data.items()},
        }  # fmt: skip

    def __str__(self) -> str:
        keys = ", ".join(
            f"{name}={key.value:#x}" + ("" if key.second is None else f"/{key.second:#x}")
            for name, key in self._keys.items()
        )
        data = ", ".join(f"{name.decode()}={value}" for name, value in self.data.items())
        return f"{keys} -> {self.action or ''}({data})"


def _parameters(keys: Sequence[Field], data: Sequence[Field]) -> tuple[list[str], list[str]]:
    """Return the parameters of the keys and data fields: as few last words as are unique.

    A name without its `$` is `MATCH_PRIORITY` or a field of a table of the device.
    """
    names = [of.name for of in (*keys, *data)]
    for word in ("$", "[", "]", "-", ":"):
        names = [name.replace(word, "" if word == "$" else "_") for name in names]
    for depth in range(1, _MAX_DEPTH):
        short = ["_".join(name.split(".")[-depth:]) for name in names]
        if len({*short}) == len(short):
            return short[: len(keys)], short[len(keys) :]
    return [f"{name}_key" for name in short[: len(keys)]], [
        f"{name}_data" for name in short[len(keys) :]
    ]
