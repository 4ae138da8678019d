"""The names of the Python module bfrt_grpc.client.

A script connects to BfRt's gRPC port of its own machine. Here, its ClientInterface is the switch
that the caller of the script has chosen with use().
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from importers.bfrt import tables
from importers.bfrt.connection import BfrtError
from importers.bfrt.switch import Tables, data_of
from importers.bfrt.tables import Entry, MatchTable

# Scripts catch these errors of BfRt.
BfruntimeRpcException = BfruntimeReadWriteRpcException = BfrtError
BfruntimeForwardingRpcException = BfruntimeSubscribeRpcException = BfrtError

_switch: list[Tables] = []


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise BfrtError(f"bfrt_grpc.client: {name} is not supported")


class _Object:
    """An object of bfrt_grpc.client. A name that it lacks ends the script with one line."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise BfrtError(f"bfrt_grpc.client: {type(self).__name__}.{name} is not supported")


def use(switch: Tables) -> None:
    """Let ClientInterface return the tables of this switch."""
    _switch[:] = [switch]


@dataclass(frozen=True)
class Target:
    """Device and pipe. P4Runtime has no pipes, so they have no effect."""

    device_id: int = 0
    pipe_id: int = 0xFFFF
    direction: int = 0xFF
    prsr_id: int = 0xFF


@dataclass(frozen=True)
class KeyTuple:
    """The value of one key."""

    name: str
    value: Any = None
    mask: Any = None
    prefix_len: int | None = None
    low: Any = None
    high: Any = None


class DataTuple:
    """The value of one data field."""

    def __init__(self, name: str, *values: Any, **named: Any) -> None:
        """BfRt has one parameter per type: val, float_val, str_val, int_arr_val, bool_val, ..."""
        given = [value for value in (*values, *named.values()) if value is not None]
        self.name = name
        self.value = given[0] if given else None


class _Key(_Object):
    """The keys of an entry."""

    def __init__(self, entry: Entry, table: tables.Table) -> None:
        self.entry = entry
        self._table = table

    def to_dict(self) -> dict[str, dict[str, int]]:
        """Return a map from key to its value, with mask, prefix_len, or low and high."""
        found = {}
        for of in self._table.keys:
            key = self.entry.keys.get(of.name)
            if key is None:
                continue
            second = {"ternary": "mask", "lpm": "prefix_len"}.get(of.match)
            if of.match == "range":
                found[of.name] = {"low": key.value, "high": key.second or 0}
            else:
                found[of.name] = {"value": key.value}
                if second is not None:
                    found[of.name][second] = key.second or 0
        return found

    def __str__(self) -> str:
        return str(self.to_dict())


class _Data(_Object):
    """The data of an entry, or of a message of a digest."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry

    def to_dict(self) -> dict[str, Any]:
        """Return a map from data field to its value, with action_name and is_default_entry."""
        return {
            **self.entry.data,
            "action_name": self.entry.action, "is_default_entry": self.entry.is_default,
        }  # fmt: skip

    def __str__(self) -> str:
        return str(self.to_dict())


class _Info(_Object):
    """Names of a table's fields. Annotations have no effect: text is always converted by width."""

    def __init__(self, table: tables.Table) -> None:
        self._table = table
        self.key_dict = {of.name: of for of in table.keys}
        self.data_dict = {of.name: of for of in table.actions.get(None, [])}

    def key_field_name_list_get(self) -> list[str]:
        return [of.name for of in self._table.keys]

    def data_field_name_list_get(self, action_name: str | None = None) -> list[str]:
        return [of.name for of in self._table.data_fields(action_name)]

    def action_name_list_get(self) -> list[str]:
        return [name for name in self._table.actions if name is not None]

    def name_get(self) -> str:
        return f"pipe.{self._table.name}"

    def type_get(self) -> str:
        return self._table.kind

    def key_field_annotation_add(self, name: str, annotation: str) -> None:
        pass

    def data_field_annotation_add(self, name: str, action_name: str, annotation: str) -> None:
        pass


class Table(_Object):
    """A table of bfrt_info."""

    def __init__(self, table: tables.Table) -> None:
        self._table = table
        self.info = _Info(table)

    def make_key(self, parts: Sequence[KeyTuple]) -> _Key:
        fields = self.info.key_dict
        keys = {}
        for part in parts:
            if part.name not in fields:
                raise BfrtError(
                    f"{self._table.name}: no key {part.name!r}; expected {', '.join(fields)}"
                )
            of = fields[part.name]
            value, second = part.value, part.mask
            if part.low is not None:
                value, second = part.low, part.high
            if part.prefix_len is not None:
                second = part.prefix_len
            converted = None if second is None else self._table.second(of, second)
            keys[of.name] = tables.Key(self._table.value(of, value), converted)
        return _Key(Entry(keys, {}), self._table)

    def make_data(
        self, parts: Sequence[DataTuple] = (), action_name: str | None = None, get: bool = False
    ) -> _Data:
        action = self._table.action_name(action_name)
        pairs = [(part.name, part.value) for part in parts if part.value is not None]
        return _Data(Entry({}, data_of(self._table, action, pairs) if pairs else {}, action))

    def entry_add(
        self, target: Target, key_list: Any = None, data_list: Any = None, *_: Any, **_options: Any
    ) -> None:
        self._table.add(*self._joined(key_list, data_list))

    def entry_mod(
        self, target: Target, key_list: Any = None, data_list: Any = None, *_: Any, **_options: Any
    ) -> None:
        self._table.modify(*self._joined(key_list, data_list))

    def entry_add_or_mod(
        self, target: Target, key_list: Any = None, data_list: Any = None, *_: Any, **_options: Any
    ) -> None:
        self._table.put(*self._joined(key_list, data_list))

    def entry_del(self, target: Target, key_list: Any = None, *_: Any, **_options: Any) -> None:
        if not key_list:
            self._table.clear()
        else:
            self._table.delete(*(key.entry.keys for key in _listed(key_list)))

    def entry_get(
        self, target: Target, key_list: Any = None, *_: Any, **_options: Any
    ) -> Iterator[tuple[_Data, _Key]]:
        wanted: list[Mapping[str, tables.Key] | None] = [k.entry.keys for k in _listed(key_list)]
        found = [e for each in wanted or [None] for e in self._table.get(each)]
        if key_list and not found:
            raise BfrtError(f"{self._table.name}: no entry with these keys")
        return iter([(_Data(entry), _Key(entry, self._table)) for entry in found])

    def default_entry_set(self, target: Target, data: _Data, *_: Any, **_options: Any) -> None:
        self._match_table().set_default(data.entry)

    def default_entry_reset(self, target: Target, **_options: Any) -> None:
        self._match_table().reset_default()

    def default_entry_get(
        self, target: Target, *_: Any, **_options: Any
    ) -> Iterator[tuple[_Data, None]]:
        return iter([(_Data(self._match_table().default()), None)])

    def usage_get(self, target: Target, *_options: Any) -> Iterator[int]:
        return iter([len(self._table.get())])

    def operations_execute(self, target: Target, table_op: str, **_options: Any) -> None:
        """Do nothing: reads return the values of the switch (`Sync`)."""

    def _joined(self, key_list: Any, data_list: Any) -> list[Entry]:
        keys, data = _listed(key_list), _listed(data_list)
        if len(keys) != len(data):
            raise BfrtError(f"{self._table.name}: {len(keys)} keys, but {len(data)} data")
        return [
            Entry(key.entry.keys, each.entry.data, each.entry.action)
            for key, each in zip(keys, data, strict=True)
        ]

    def _match_table(self) -> MatchTable:
        if not isinstance(self._table, MatchTable):
            raise BfrtError(f"{self._table.name}: this table has no default entry")
        return self._table


def _listed(items: Any) -> Sequence[Any]:
    if items is None:
        return []
    return items if isinstance(items, list | tuple) else [items]


@dataclass(frozen=True)
class _DigestList:
    """Messages of a digest that arrived together."""

    messages: Sequence[Mapping[str, Any]]
    target: Target


class _Learn(_Object):
    """A digest of bfrt_info."""

    def make_data_list(self, digest: _DigestList) -> list[_Data]:
        return [_Data(Entry({}, message)) for message in digest.messages]


class _TableDict(dict[str, Table]):
    """Map from the names of tables, which may be abbreviated, to tables."""

    def __init__(self, switch: Tables) -> None:
        self._find = switch.find
        super().__init__({of.name: Table(of) for of in (*switch.of_program, *switch.of_device)})

    def __missing__(self, name: str) -> Table:
        return self[self._find(name).name]


class _AnyName(str):
    """The name of the program, which P4Info lacks: equal to each name that a script expects."""

    def __eq__(self, _other: object) -> bool:
        return True

    def __ne__(self, _other: object) -> bool:
        return False

    __hash__ = str.__hash__


class _BfrtInfo(_Object):
    def __init__(self, switch: Tables) -> None:
        self._switch = switch
        self.p4_name = _AnyName("program")
        self.table_dict = _TableDict(switch)

    def p4_name_get(self) -> str:
        return self.p4_name

    def table_get(self, name: str) -> Table:
        return self.table_dict[name]

    def learn_get(self, name: str) -> _Learn:
        self._switch.subscribe(self._switch.find_digest(name))
        return _Learn()


class ClientInterface(_Object):
    """The connection of a script. The address that it gives has no effect."""

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        if not _switch:
            raise BfrtError("no switch; run the script with `telemark bfrt`")
        self._switch = _switch[0]
        self._info = _BfrtInfo(self._switch)

    def bind_pipeline_config(self, p4_name: str) -> None:
        """Do nothing: the switch has only one program."""

    def bfrt_info_get(self, p4_name: str | None = None) -> _BfrtInfo:
        return self._info

    def clear_all_tables(self) -> None:
        for table in self._switch.of_program:
            table.clear()

    def digest_get(self, timeout: float = 1) -> _DigestList:
        """Wait for messages of the digests that learn_get() has returned. Timeout in s."""
        found = self._switch.next_digest(timeout)
        if found is None:
            raise RuntimeError("no digest within the timeout")
        return _DigestList(found[1], Target())

    def tear_down_stream(self) -> None:
        """Do nothing: the connection ends with the script."""

    _tear_down_stream = __del__ = tear_down_stream


def ipv4_to_bytes(address: str) -> bytearray:
    """Convert an address."""
    return bytearray(ip_address(address).packed)


ipv6_to_bytes = ipv4_to_bytes


def mac_to_bytes(address: str) -> bytearray:
    """Convert an address."""
    return bytearray(int(byte, 16) for byte in address.split(":"))


def to_bytes(value: int, length: int) -> bytearray:
    """Convert a number, the most significant byte first."""
    return bytearray(value.to_bytes(length, "big"))
