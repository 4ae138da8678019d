"""The tables of a program in BfRt, and their operations as P4Runtime requests.

In BfRt, everything is a table with keys and data: match-action tables, members of action profiles,
groups of selectors, registers, counters and meters. Names of keys and data are those of BfRt.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, SupportsInt

import finsy as fy
from finsy.p4schema import P4MatchType, P4StructType

from importers.bfrt.connection import BfrtError, Connection
from importers.switch_cli.commands import CommandError
from importers.switch_cli.tables import MAX_PRIORITY, WITH_PRIORITY
from importers.switch_cli.values import number

PRIORITY = "$MATCH_PRIORITY"  # the smallest wins


@dataclass(frozen=True)
class Field:
    """A key or a data field: its name, its width in bits, and how a key matches."""

    name: str
    bits: int = 64
    match: str = "exact"  # exact, ternary, lpm or range
    is_list: bool = False


@dataclass(frozen=True)
class Key:
    """The value of a key: `second` is a mask, a prefix length, or the end of a range."""

    value: int
    second: int | None = None


class PerPipe(list[int]):
    """The values of a register's cell per pipe. All ports of minip4 belong to one pipe.

    Hence there is one value, which has every index, since a script may use any pipe.
    """

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(0 if isinstance(index, int) else index)


@dataclass(frozen=True)
class Entry:
    """An entry. Data fields of registers are lists with a value per pipe."""

    keys: Mapping[str, Key]
    data: Mapping[str, Any]
    action: str | None = None
    is_default: bool = False


@dataclass
class Table(ABC):
    """A table of BfRt. `kind` is its type in BfRt's info()."""

    connection: Connection
    name: str
    kind: str
    keys: list[Field]
    actions: dict[str | None, list[Field]]  # data fields by action; None: without an action

    @abstractmethod
    def add(self, *entries: Entry) -> None:
        """Insert entries. Raises BfrtError."""

    @abstractmethod
    def modify(self, *entries: Entry) -> None:
        """Change entries. Raises BfrtError."""

    @abstractmethod
    def delete(self, *keys: Mapping[str, Key]) -> None:
        """Delete entries. Raises BfrtError."""

    @abstractmethod
    def get(self, keys: Mapping[str, Key] | None = None) -> list[Entry]:
        """Return the entry with these keys if it exists, or all entries. Raises BfrtError."""

    def put(self, *entries: Entry) -> None:
        """Change entries, or insert those that do not exist. Raises BfrtError."""
        for entry in entries:
            (self.modify if self.get(entry.keys) else self.add)(entry)

    def clear(self) -> None:
        """Delete all entries."""
        self.delete(*(entry.keys for entry in self.get()))

    def action_name(self, name: str | None) -> str | None:
        """Return the full name of an action. Raises BfrtError."""
        if name is None or name in self.actions:
            return name
        found = [full for full in self.actions if full and full.endswith(f".{name}")]
        if len(found) != 1:
            known = ", ".join(full for full in self.actions if full) or "none"
            raise BfrtError(f"{self.name}: no action {name!r}; expected one of {known}")
        return found[0]

    def data_fields(self, action: str | None) -> list[Field]:
        """Return the data fields of an action. Raises BfrtError."""
        name = self.action_name(action)
        if name not in self.actions:
            known = ", ".join(full for full in self.actions if full)
            raise BfrtError(f"{self.name}: no action; expected one of {known}")
        return self.actions[name]

    def number(self, keys: Mapping[str, Key]) -> int:
        """Return the value of the first key. Raises BfrtError."""
        if self.keys[0].name not in keys:
            raise BfrtError(f"{self.name}: no value for the key {self.keys[0].name}")
        return keys[self.keys[0].name].value

    def value(self, of: Field, given: Any) -> int:
        """Convert a value: a number, text such as "0x0a" or an address, or bytes."""
        if isinstance(given, bytes | bytearray):
            given = int.from_bytes(given, "big")
        if not isinstance(given, str | SupportsInt):
            raise BfrtError(f"{self.name}: {of.name}: {given!r}: expected a number or text")
        try:
            return number(given if isinstance(given, str) else str(int(given)), of.bits)
        except (CommandError, ValueError, OverflowError) as error:  # the last two for NaN, inf
            raise BfrtError(f"{self.name}: {of.name}: {error}") from None

    def second(self, of: Field, given: Any) -> int:
        """Convert a mask, a prefix length, or the end of a range."""
        return self.value(
            replace(of, bits=of.bits.bit_length()) if of.match == "lpm" else of, given
        )

    def call(self, entry: Entry) -> fy.Action:
        """Return the action of an entry with its arguments. Raises BfrtError."""
        missing = [of.name for of in self.data_fields(entry.action) if of.name not in entry.data]
        if missing:
            raise BfrtError(f"{self.name}: action {entry.action} needs {', '.join(missing)}")
        return fy.Action(str(entry.action), **entry.data)

    def merged(self, entry: Entry) -> Entry:
        """Return an entry with the old values of the data fields that it lacks."""
        missing = {of.name for of in self.data_fields(entry.action)} - {*entry.data}
        old = [each.data for each in self.get(entry.keys)] if missing else []
        return replace(entry, data={k: v for data in (*old, entry.data) for k, v in data.items()})


class MatchTable(Table):
    """A match-action table of the program."""

    def __init__(self, connection: Connection, table: Any) -> None:
        fields = [
            Field(_key_name(f.name), f.bitwidth, _MATCHES[f.match_type]) for f in table.match_fields
        ]
        actions: dict[str | None, list[Field]] = {
            action.name: [Field(p.name, p.bitwidth) for p in action.params]
            for action in table.actions
        }
        super().__init__(connection, table.name, "MATCH_DIRECT", fields, actions)
        self.has_priority = any(f.match_type in WITH_PRIORITY for f in table.match_fields)
        self.size = table.size
        self._has_const_default = table.const_default_action is not None
        self._full_names = {action.alias: action.name for action in table.actions}
        # map from name of a key in BfRt to its name in P4Runtime
        self._names = {_key_name(f.name): f.alias for f in table.match_fields}
        if self.has_priority:
            self.keys.append(Field(PRIORITY, 31))

    def add(self, *entries: Entry) -> None:
        self.connection.write(self.name, [+self._entry(each.keys, each) for each in entries])

    def modify(self, *entries: Entry) -> None:
        self.connection.write(self.name, [~self._entry(each.keys, each) for each in entries])

    def delete(self, *keys: Mapping[str, Key]) -> None:
        self.connection.write(self.name, [-self._entry(each) for each in keys])

    def get(self, keys: Mapping[str, Key] | None = None) -> list[Entry]:
        wanted = fy.P4TableEntry(self.name) if keys is None else self._entry(keys)
        read = self.connection.read(self.name, wanted)
        found = [self._found(each) for each in read if not each.is_const]
        if keys is None:
            return found
        # P4Runtime returns all entries if the key matches everything
        return [each for each in found if self._is_same(self._entry(each.keys), wanted)]

    def clear(self) -> None:
        """Delete all entries, and restore the default action, as BfRt does."""
        super().clear()
        if not self._has_const_default:
            self.reset_default()

    @staticmethod
    def _is_same(one: fy.P4TableEntry, other: fy.P4TableEntry) -> bool:
        return (one.match, one.priority) == (other.match, other.priority)

    def set_default(self, entry: Entry) -> None:
        """Set the default action. Raises BfrtError."""
        default = fy.P4TableEntry(self.name, action=self._action(entry), is_default_action=True)
        self.connection.write(self.name, [~default])

    def reset_default(self) -> None:
        """Restore the default action of the program. Raises BfrtError."""
        self.connection.write(self.name, [~fy.P4TableEntry(self.name, is_default_action=True)])

    def default(self) -> Entry:
        """Return the default entry. Raises BfrtError."""
        wanted = fy.P4TableEntry(self.name, is_default_action=True)
        action = self.connection.read(self.name, wanted)[0].action
        return Entry({}, {**action.args}, self._full_names[action.name], is_default=True)

    def _action(self, entry: Entry) -> Any:
        return self.call(entry)

    def _entry(self, keys: Mapping[str, Key], entry: Entry | None = None) -> fy.P4TableEntry:
        match: dict[str, Any] = {}
        priority = 0
        for of in self.keys:
            given = keys.get(of.name)
            everything = (1 << of.bits) - 1
            if of.name == PRIORITY:
                priority = MAX_PRIORITY - (given.value if given else 0)
            elif of.match == "exact":
                if given is None:
                    raise BfrtError(f"{self.name}: no value for the key {of.name}")
                match[self._names[of.name]] = given.value
            elif given is None:
                continue
            elif of.match == "ternary":
                mask = everything if given.second is None else given.second
                if mask:
                    match[self._names[of.name]] = (given.value & mask, mask)
            elif of.match == "lpm":
                length = of.bits if given.second is None else given.second
                if length:
                    kept = everything ^ (everything >> length)
                    match[self._names[of.name]] = (given.value & kept, length)
            else:
                last = given.value if given.second is None else given.second
                if (given.value, last) != (0, everything):
                    match[self._names[of.name]] = (given.value, last)
        action = None if entry is None else self._action(entry)
        return fy.P4TableEntry(self.name, match=fy.Match(match), priority=priority, action=action)

    def _found(self, entry: Any) -> Entry:
        given = entry.match or {}
        keys = {}
        for of in self.keys:
            if of.name == PRIORITY:
                keys[of.name] = Key(MAX_PRIORITY - entry.priority)
            elif of.match == "exact":
                keys[of.name] = Key(int(given[self._names[of.name]]))
            else:
                nothing = (0, (1 << of.bits) - 1) if of.match == "range" else (0, 0)
                keys[of.name] = Key(*given.get(self._names[of.name], nothing))
        if entry.action is None:
            return Entry(keys, {})
        return Entry(keys, *self._data(entry.action))

    def _data(self, action: Any) -> tuple[dict[str, Any], str | None]:
        """Return the data fields of an entry that was read, and its action."""
        return {**action.args}, self._full_names[action.name]


MEMBER, GROUP = "$ACTION_MEMBER_ID", "$SELECTOR_GROUP_ID"


class IndirectTable(MatchTable):
    """A match-action table with an action profile: its entries have a member or a group."""

    def __init__(self, connection: Connection, table: Any) -> None:
        super().__init__(connection, table)
        names = [MEMBER, GROUP] if table.action_profile.with_selector else [MEMBER]
        self.kind = "MATCH_INDIRECT_SELECTOR" if len(names) > 1 else "MATCH_INDIRECT"
        self.actions = {None: [Field(name, 32) for name in names]}

    def set_default(self, entry: Entry) -> None:
        raise BfrtError(f"{self.name}: P4Runtime cannot set a member as the default action")

    def default(self) -> Entry:
        raise BfrtError(f"{self.name}: the default action is not a member")

    def _action(self, entry: Entry) -> Any:
        if len(entry.data) != 1:
            names = " or ".join(of.name for of in self.actions[None])
            raise BfrtError(f"{self.name}: {len(entry.data)} data fields; expected {names}")
        return fy.P4IndirectAction(member_id=entry.data.get(MEMBER), group_id=entry.data.get(GROUP))

    def _data(self, action: Any) -> tuple[dict[str, Any], str | None]:
        pairs = {MEMBER: action.member_id, GROUP: action.group_id}
        return {name: value for name, value in pairs.items() if value is not None}, None


class MemberTable(Table):
    """The members of an action profile."""

    def __init__(self, connection: Connection, profile: Any, users: Sequence[Any]) -> None:
        """`users` are the tables with this profile."""
        actions: dict[str | None, list[Field]] = {
            action.name: [Field(p.name, p.bitwidth) for p in action.params]
            for table in users for action in table.actions
        }  # fmt: skip
        super().__init__(connection, profile.name, "ACTION_PROFILE", [Field(MEMBER, 32)], actions)
        self._full_names = {a.alias: a.name for table in users for a in table.actions}

    def add(self, *entries: Entry) -> None:
        self.connection.write(self.name, [+self._member(e.keys, self.call(e)) for e in entries])

    def modify(self, *entries: Entry) -> None:
        self.connection.write(self.name, [~self._member(e.keys, self.call(e)) for e in entries])

    def delete(self, *keys: Mapping[str, Key]) -> None:
        self.connection.write(self.name, [-self._member(each) for each in keys])

    def get(self, keys: Mapping[str, Key] | None = None) -> list[Entry]:
        wanted = fy.P4ActionProfileMember(self.name) if keys is None else self._member(keys)
        return [
            Entry({MEMBER: Key(each.member_id)}, {**each.action.args},
                  self._full_names[each.action.name])
            for each in self.connection.read(self.name, wanted)
            if keys is None or each.member_id == wanted.member_id  # P4Runtime's 0 means all
        ]  # fmt: skip

    def _member(self, keys: Mapping[str, Key], action: Any = None) -> Any:
        number = self.number(keys)
        return fy.P4ActionProfileMember(self.name, member_id=number, action=action)


class SelectorTable(Table):
    """The groups of an action selector. A member whose status is false is not in its group."""

    STATUS, SIZE = "$ACTION_MEMBER_STATUS", "$MAX_GROUP_SIZE"

    def __init__(self, connection: Connection, profile: Any) -> None:
        self._profile = profile.name
        # P4Info has the profile; the selector of the program is an annotation
        names = [a.body.strip('"') for a in profile.annotations if a.name == "selector"]
        data = [Field(MEMBER, 32, is_list=True), Field(self.STATUS, 1, is_list=True),
                Field(self.SIZE, 32)]  # fmt: skip
        super().__init__(
            connection, names[0] if names else f"{profile.name}_sel", "SELECTOR",
            [Field(GROUP, 32)], {None: data},
        )  # fmt: skip

    def add(self, *entries: Entry) -> None:
        self.connection.write(self.name, [+self._group(each) for each in entries])

    def modify(self, *entries: Entry) -> None:
        groups = []
        for entry in entries:
            changed = self.merged(entry)
            if MEMBER in entry.data and self.STATUS not in entry.data:
                changed = replace(entry, data={**changed.data, self.STATUS: []})
            groups.append(self._group(changed))
        self.connection.write(self.name, [~each for each in groups])

    def delete(self, *keys: Mapping[str, Key]) -> None:
        self.connection.write(self.name, [-self._group(Entry(each, {})) for each in keys])

    def get(self, keys: Mapping[str, Key] | None = None) -> list[Entry]:
        group = fy.P4ActionProfileGroup(self._profile)
        wanted = group if keys is None else self._group(Entry(keys, {}))
        found = []
        for each in self.connection.read(self.name, wanted):
            if keys is not None and each.group_id != wanted.group_id:  # P4Runtime's 0 means all
                continue
            members = [m.member_id for m in each.members or () for _ in range(m.weight)]
            data = {MEMBER: members, self.STATUS: [1] * len(members), self.SIZE: each.max_size}
            found.append(Entry({GROUP: Key(each.group_id)}, data))
        return found

    def _group(self, entry: Entry) -> Any:
        members = entry.data.get(MEMBER, [])
        statuses = entry.data.get(self.STATUS) or [1] * len(members)
        if len(statuses) != len(members):
            raise BfrtError(f"{self.name}: {len(members)} members, but {len(statuses)} statuses")
        weights = Counter(m for m, is_on in zip(members, statuses, strict=True) if is_on)
        return fy.P4ActionProfileGroup(
            self._profile, group_id=self.number(entry.keys), max_size=entry.data.get(self.SIZE, 0),
            members=[fy.P4Member(m, weight=weight) for m, weight in weights.items()],
        )  # fmt: skip


def _key_name(name: str) -> str:
    """Return BfRt's name of a key: the key isValid() ends with $valid."""
    return name.removesuffix("$") if name.endswith(".$valid$") else name


_MATCHES = {
    P4MatchType.EXACT: "exact",
    P4MatchType.TERNARY: "ternary",
    P4MatchType.OPTIONAL: "ternary",
    P4MatchType.LPM: "lpm",
    P4MatchType.RANGE: "range",
}


class ArrayTable(Table):
    """A register, counter or meter: its entries exist from the start."""

    index: Field
    size: int

    @abstractmethod
    def cell(self, entry: Entry) -> Any:
        """Return the entity of P4Runtime for an entry. Raises BfrtError."""

    def add(self, *entries: Entry) -> None:
        """Write cells. Fields that are not given become 0."""
        self.connection.write(self.name, [~self.cell(entry) for entry in entries])

    def modify(self, *entries: Entry) -> None:
        self.add(*(self.merged(entry) for entry in entries))

    def delete(self, *keys: Mapping[str, Key]) -> None:
        raise BfrtError(f"{self.name}: its entries cannot be deleted; use clear()")

    def clear(self) -> None:
        self.add(*(Entry({self.index.name: Key(i)}, {}) for i in range(self.size)))


class RegisterTable(ArrayTable):
    """A register of numbers (`NAME.f1`) or of structs (`NAME.field`)."""

    def __init__(self, connection: Connection, register: Any) -> None:
        self.index, self.size = Field("$REGISTER_INDEX", 32), register.size
        self._is_struct = isinstance(register.type_spec, P4StructType)
        widths = _widths(register).items()
        data = [Field(f"{register.name}.{name}", bits) for name, bits in widths]
        super().__init__(connection, register.name, "REGISTER", [self.index], {None: data})

    def cell(self, entry: Entry) -> Any:
        given = {of.name: entry.data.get(of.name, 0) for of in self.actions[None]}
        values = {
            name.rpartition(".")[2]: value[0] if isinstance(value, list) else value
            for name, value in given.items()
        }
        data: Any = values if self._is_struct else values["f1"]
        return fy.P4RegisterEntry(self.name, index=self.number(entry.keys), data=data)

    def get(self, keys: Mapping[str, Key] | None = None) -> list[Entry]:
        index = None if keys is None else self.number(keys)
        cells = self.connection.read(self.name, fy.P4RegisterEntry(self.name, index=index))
        return [
            Entry(
                {self.index.name: Key(cell.index)},
                {of.name: PerPipe([_part(cell.data, of.name)]) for of in self.actions[None]},
            )
            for cell in cells
        ]


def _part(data: Any, name: str) -> int:
    return int(data[name.rpartition(".")[2]] if isinstance(data, Mapping) else data)


class CounterTable(ArrayTable):
    """A counter that is not part of a table."""

    def __init__(self, connection: Connection, counter: Any) -> None:
        self.index, self.size = Field("$COUNTER_INDEX", 32), counter.size
        data = [Field("$COUNTER_SPEC_PKTS"), Field("$COUNTER_SPEC_BYTES")]
        super().__init__(connection, counter.name, "COUNTER", [self.index], {None: data})

    def cell(self, entry: Entry) -> Any:
        packets, size = (entry.data.get(of.name, 0) for of in self.actions[None])
        data = fy.P4CounterData(packet_count=packets, byte_count=size)
        return fy.P4CounterEntry(self.name, index=self.number(entry.keys), data=data)

    def get(self, keys: Mapping[str, Key] | None = None) -> list[Entry]:
        index = None if keys is None else self.number(keys)
        packets, size = (of.name for of in self.actions[None])
        return [
            Entry(
                {self.index.name: Key(cell.index)},
                {packets: cell.data.packet_count, size: cell.data.byte_count},
            )
            for cell in self.connection.read(self.name, fy.P4CounterEntry(self.name, index=index))
        ]


class MeterTable(ArrayTable):
    """A meter that is not part of a table. Rates are in kbit/s or packets/s, bursts in kbit."""

    def __init__(self, connection: Connection, meter: Any, is_bytes: bool) -> None:
        self.index, self.size = Field("$METER_INDEX", 32), meter.size
        units = ("KBPS", "KBITS") if is_bytes else ("PPS", "PKTS")
        # P4Runtime counts bytes: 1 kbit is 125 bytes
        self._factor = 125 if is_bytes else 1
        data = [Field(f"$METER_SPEC_{name}_{units[name.endswith('BS')]}")
                for name in ("CIR", "PIR", "CBS", "PBS")]  # fmt: skip
        super().__init__(connection, meter.name, "METER", [self.index], {None: data})

    def cell(self, entry: Entry) -> Any:
        cir, pir, cbs, pbs = (
            entry.data.get(of.name, 0) * self._factor for of in self.actions[None]
        )
        config = fy.P4MeterConfig(cir=cir, cburst=cbs, pir=pir, pburst=pbs)
        return fy.P4MeterEntry(self.name, index=self.number(entry.keys), config=config)

    def get(self, keys: Mapping[str, Key] | None = None) -> list[Entry]:
        index = None if keys is None else self.number(keys)
        names = [of.name for of in self.actions[None]]
        found = []
        for cell in self.connection.read(self.name, fy.P4MeterEntry(self.name, index=index)):
            c = cell.config
            values = [0] * 4 if c is None else [c.cir, c.pir, c.cburst, c.pburst]
            data = {n: v // self._factor for n, v in zip(names, values, strict=True)}
            found.append(Entry({self.index.name: Key(cell.index)}, data))
        return found


def _widths(register: Any) -> dict[str, int]:
    """Return the numbers of bits of a register's fields. BfRt calls an only number f1."""
    of = register.type_spec
    if isinstance(of, P4StructType):
        return {name: getattr(member, "bitwidth", 1) for name, member in of.members.items()}
    return {"f1": getattr(of, "bitwidth", 1)}
