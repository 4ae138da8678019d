"""The tables of BfRt, and their operations as P4Runtime requests.

In BfRt, everything is a table with keys and data: match-action tables, registers, counters, meters,
multicast groups (`pre`), mirror sessions and ports. Names of keys and data are those of BfRt.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import Empty, Queue
from typing import Any, SupportsInt, TypeVar

import finsy as fy
from finsy.p4client import P4ClientError
from finsy.p4schema import P4MatchType, P4StructType

from importers.switch_cli.commands import CommandError, find
from importers.switch_cli.tables import MAX_PRIORITY, WITH_PRIORITY
from importers.switch_cli.values import number
from telemark.errors import TestbedError
from telemark.session.error_reporting import refusal

PRIORITY = "$MATCH_PRIORITY"  # the smallest wins
AT_ONCE = 1024  # max entries per write request
CONNECT_S = 20.0  # longest wait for the answer of a switch
ONLY_ON_TOFINO = ("$", "tf1.", "tf2.", "tf3.")  # prefixes of tables of the device


T = TypeVar("T", "Table", "Digest")


class BfrtError(TestbedError):
    """A call that cannot be carried out. The message is one line."""


class Connection:
    """Blocking access to a switch, as scripts need it. finsy runs in a thread of its own.

    The connection becomes the primary one, also if another controller is connected.

    Raises BfrtError if there is no switch at the address (host:port).
    """

    def __init__(self, address: str, device_id: int) -> None:
        # finsy also requests gNMI, which these switches do not support, and logs what this raises
        logging.getLogger("finsy").setLevel(logging.CRITICAL + 1)
        # above the ids of other controllers, and of scripts that started earlier
        election_id = time.time_ns() // 1000
        options = fy.SwitchOptions(device_id=device_id, initial_election_id=election_id)
        self.switch = fy.Switch("switch", address, options)
        connected: Future[None] = Future()
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._stay_connected(connected))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        try:
            connected.result(CONNECT_S)
        except KeyboardInterrupt:
            self.close()
            raise
        except FutureTimeoutError:
            self.close()
            raise BfrtError(f"{address}: no P4Runtime answer within {CONNECT_S:g} s") from None
        except P4ClientError as error:
            self._thread.join()
            raise BfrtError(
                f"{address}: {refusal(error)}; expected the P4Runtime address of a running switch"
            ) from error
        except asyncio.CancelledError:
            raise BfrtError(
                f"{address}: cannot use the P4Info of the switch, for example since a table has"
                " two keys isValid()"
            ) from None

    def _run(self) -> None:
        self._loop.run_until_complete(self._task)
        for task in asyncio.all_tasks(self._loop):  # of gRPC; asyncio warns of tasks that remain
            task.cancel()
            with suppress(asyncio.CancelledError):
                self._loop.run_until_complete(task)
        self._loop.close()

    async def _stay_connected(self, connected: Future[None]) -> None:
        try:
            async with self.switch:
                connected.set_result(None)
                await asyncio.Event().wait()  # until close()
        except (P4ClientError, asyncio.CancelledError) as error:
            if not connected.done():
                connected.set_exception(error)

    def close(self) -> None:
        """End the connection."""
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    def subscribe(self, digest: str, received: Queue[tuple[str, list[Any]]]) -> None:
        """Put the name of the digest, and the list of its messages, into a queue as they arrive."""

        async def receive() -> None:
            async for each in self.switch.read_digests(alias):
                received.put((digest, list(each)))
                await self.switch.write([each.ack()])

        alias = self.switch.p4info.digests[digest].alias
        self._loop.call_soon_threadsafe(lambda: self.switch.create_task(receive()))
        entry = fy.P4DigestEntry(alias, max_list_size=100, max_timeout_ns=10**7)
        exists = self.read(digest, fy.P4DigestEntry(alias))  # from an earlier script
        self.write(digest, [~entry if exists else +entry])

    def require_up(self, where: str) -> None:
        """Raise BfrtError if the connection has ended."""
        if not self.switch.is_up:
            raise BfrtError(f"{where}: the connection to the switch has ended")

    def write(self, where: str, updates: Sequence[Any]) -> None:
        """Write updates (finsy's +entity, ~entity, -entity). Raises BfrtError."""
        for first in range(0, len(updates), AT_ONCE):
            self._call(where, self.switch.write([*updates[first : first + AT_ONCE]]))

    def read(self, where: str, entity: Any) -> list[Any]:
        """Return the entities that match. Raises BfrtError."""

        async def collect() -> list[Any]:
            found: Any = self.switch.read(entity)  # see controllers.tables
            return [each async for each in found]

        return self._call(where, collect())

    def _call(self, where: str, coroutine: Any) -> Any:
        try:
            self.require_up(where)
        except BfrtError:
            coroutine.close()
            raise
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
        except P4ClientError as error:
            raise BfrtError(f"{where}: rejected by the switch: {refusal(error)}") from error
        except ValueError as error:  # a number is too large for P4Runtime
            raise BfrtError(f"{where}: {' '.join(str(error).split())}") from error


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

    def _action(self, entry: Entry) -> fy.Action:
        missing = [of.name for of in self.data_fields(entry.action) if of.name not in entry.data]
        if missing:
            raise BfrtError(f"{self.name}: action {entry.action} needs {', '.join(missing)}")
        return fy.Action(str(entry.action), **entry.data)

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
        return Entry(keys, {**entry.action.args}, self._full_names[entry.action.name])


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

    def at(self, keys: Mapping[str, Key]) -> int:
        """Return the index of an entry. Raises BfrtError."""
        if self.index.name not in keys:
            raise BfrtError(f"{self.name}: no value for the key {self.index.name}")
        return keys[self.index.name].value


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
        return fy.P4RegisterEntry(self.name, index=self.at(entry.keys), data=data)

    def get(self, keys: Mapping[str, Key] | None = None) -> list[Entry]:
        index = None if keys is None else self.at(keys)
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
        return fy.P4CounterEntry(self.name, index=self.at(entry.keys), data=data)

    def get(self, keys: Mapping[str, Key] | None = None) -> list[Entry]:
        index = None if keys is None else self.at(keys)
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
        return fy.P4MeterEntry(self.name, index=self.at(entry.keys), config=config)

    def get(self, keys: Mapping[str, Key] | None = None) -> list[Entry]:
        index = None if keys is None else self.at(keys)
        names = [of.name for of in self.actions[None]]
        found = []
        for cell in self.connection.read(self.name, fy.P4MeterEntry(self.name, index=index)):
            c = cell.config
            values = [0] * 4 if c is None else [c.cir, c.pir, c.cburst, c.pburst]
            data = {n: v // self._factor for n, v in zip(names, values, strict=True)}
            found.append(Entry({self.index.name: Key(cell.index)}, data))
        return found


@dataclass
class StoredTable(Table):
    """A table of the device, e.g. of multicast nodes. Its entries are kept here."""

    entries: dict[int, Entry] = field(default_factory=dict)

    def add(self, *entries: Entry) -> None:
        for entry in entries:
            number = self.number(entry.keys)
            if number in self.entries:
                raise BfrtError(f"{self.name}: {self.keys[0].name} {number} already exists")
            self.write(number, entry, is_new=True)
            self.entries[number] = entry

    def modify(self, *entries: Entry) -> None:
        for entry in entries:
            number = self.number(entry.keys)
            self.existing(number)
            changed = self.merged(entry)
            self.write(number, changed, is_new=False)
            self.entries[number] = changed

    def delete(self, *keys: Mapping[str, Key]) -> None:
        for each in keys:
            number = self.number(each)
            self.existing(number)
            self.remove(number)
            del self.entries[number]

    def get(self, keys: Mapping[str, Key] | None = None) -> list[Entry]:
        if keys is None:
            return [*self.entries.values()]
        number = self.number(keys)
        return [self.entries[number]] if number in self.entries else []

    def existing(self, number: int) -> Entry:
        """Return an entry. Raises BfrtError."""
        if number not in self.entries:
            known = ", ".join(map(str, self.entries)) or "none"
            raise BfrtError(f"{self.name}: no {self.keys[0].name} {number}; existing: {known}")
        return self.entries[number]

    def number(self, keys: Mapping[str, Key]) -> int:
        """Return the value of the only key. Raises BfrtError."""
        if self.keys[0].name not in keys:
            raise BfrtError(f"{self.name}: no value for the key {self.keys[0].name}")
        return keys[self.keys[0].name].value

    def write(self, number: int, entry: Entry, *, is_new: bool) -> None:
        """Write an entry to the switch. Tables that do not override it only store entries."""

    def remove(self, number: int) -> None:
        """Delete an entry in the switch."""


class NodeTable(StoredTable):
    """Multicast nodes, which are part of groups."""

    groups: GroupTable

    def __init__(self, connection: Connection) -> None:
        data = [Field("$MULTICAST_RID", 16), Field("$MULTICAST_LAG_ID", is_list=True),
                Field("$DEV_PORT", 9, is_list=True)]  # fmt: skip
        super().__init__(
            connection, "$pre.node", "PRE_NODE", [Field("$MULTICAST_NODE_ID", 32)], {None: data}
        )

    def modify(self, *entries: Entry) -> None:
        super().modify(*entries)
        for entry in entries:
            self.groups.modify(*self.groups.with_node(self.number(entry.keys)))

    def remove(self, number: int) -> None:
        """Remove the node from its groups."""
        for group in self.groups.with_node(number):
            left = [node for node in group.data[GroupTable.NODES] if node != number]
            self.groups.modify(Entry(group.keys, {GroupTable.NODES: left}))

    def replicas(self, node: int) -> list[tuple[int, int]]:
        """Return the port and the rid of each copy. Raises BfrtError."""
        data = self.existing(node).data
        if data.get("$MULTICAST_LAG_ID"):
            raise BfrtError(f"{self.name}: node {node}: P4Runtime has no link aggregation groups")
        return [(port, data.get("$MULTICAST_RID", 0)) for port in data.get("$DEV_PORT", [])]


class GroupTable(StoredTable):
    """Multicast groups. The nodes of groups that an earlier script has added are unknown."""

    NODES = "$MULTICAST_NODE_ID"

    def __init__(self, connection: Connection, nodes: NodeTable) -> None:
        names = (self.NODES, "$MULTICAST_NODE_L1_XID_VALID", "$MULTICAST_NODE_L1_XID")
        data = [Field(name, is_list=True) for name in names]
        super().__init__(connection, "$pre.mgid", "PRE_MGID", [Field("$MGID", 16)], {None: data})
        self._nodes = nodes
        nodes.groups = self
        for group in connection.read(self.name, fy.P4MulticastGroupEntry()):
            self.entries[group.multicast_group_id] = Entry(
                {"$MGID": Key(group.multicast_group_id)}, {}
            )

    def with_node(self, node: int) -> list[Entry]:
        """Return the groups that contain a node."""
        return [each for each in self.entries.values() if node in each.data.get(self.NODES, [])]

    def write(self, number: int, entry: Entry, *, is_new: bool) -> None:
        replicas: list[tuple[int, int]] = []
        for node in entry.data.get(self.NODES, []):
            for port, rid in self._nodes.replicas(node):
                while (port, rid) in replicas:  # P4Runtime refuses equal copies
                    rid += 1
                replicas.append((port, rid))
        group = fy.P4MulticastGroupEntry(number, replicas=replicas)
        self.connection.write(self.name, [+group if is_new else ~group])

    def remove(self, number: int) -> None:
        self.connection.write(self.name, [-fy.P4MulticastGroupEntry(number)])


class MirrorTable(StoredTable):
    """Mirror sessions, which are clone sessions of P4Runtime."""

    PORT, LENGTH = "$ucast_egress_port", "$max_pkt_len"

    def __init__(self, connection: Connection) -> None:
        names = ("$direction", self.PORT, "$ucast_egress_port_valid", "$session_enable",
                 self.LENGTH, "$egress_port_queue", "$ingress_cos", "$packet_color")  # fmt: skip
        super().__init__(
            connection, "$mirror.cfg", "MIRROR_CFG", [Field("$sid", 16)],
            {"$normal": [Field(name) for name in names]},
        )  # fmt: skip
        for session in connection.read(self.name, fy.P4CloneSessionEntry()):
            data = dict(zip([self.PORT], session.replicas, strict=False))
            data |= {self.LENGTH: session.packet_length_bytes, "$session_enable": bool(data)}
            keys = {"$sid": Key(session.session_id)}
            self.entries[session.session_id] = Entry(keys, data, "$normal")

    def write(self, number: int, entry: Entry, *, is_new: bool) -> None:
        port, length = entry.data.get(self.PORT), entry.data.get(self.LENGTH, 0)
        is_valid = entry.data.get("$ucast_egress_port_valid", True)
        is_enabled = entry.data.get("$session_enable", True)
        if port is None or not is_valid:
            raise BfrtError(f"{self.name}: session {number}: expected {self.PORT}")
        session = fy.P4CloneSessionEntry(
            number, replicas=[port] if is_enabled else [], packet_length_bytes=length
        )
        self.connection.write(self.name, [+session if is_new else ~session])

    def remove(self, number: int) -> None:
        self.connection.write(self.name, [-fy.P4CloneSessionEntry(number)])


class PortTable(StoredTable):
    """Ports. The network defines their rates, so the settings have no effect."""

    def __init__(self, connection: Connection) -> None:
        names = ("$SPEED", "$FEC", "$N_LANES", "$PORT_ENABLE", "$AUTO_NEGOTIATION",
                 "$LOOPBACK_MODE", "$PORT_DIR", "$TX_MTU", "$RX_MTU")  # fmt: skip
        super().__init__(
            connection, "$PORT", "PORT_CFG", [Field("$DEV_PORT", 9)],
            {None: [Field(name) for name in names]},
        )  # fmt: skip


@dataclass(frozen=True)
class Digest:
    """A digest of the program. Its messages arrive after Tables.subscribe()."""

    name: str
    kind: str = "LEARN"


class Tables:
    """All tables and digests of a switch."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        info = connection.switch.p4info
        self.digests = [Digest(each.name) for each in info.digests]
        # names of digests, and messages: maps from field to value
        self.received: Queue[tuple[str, list[Any]]] = Queue()
        self._subscribed: set[str] = set()
        nodes = NodeTable(connection)
        self.of_device: list[Table] = [
            nodes, GroupTable(connection, nodes), MirrorTable(connection), PortTable(connection)
        ]  # fmt: skip
        self.of_program: list[Table] = [
            *(MatchTable(connection, table) for table in info.tables),
            *(RegisterTable(connection, each) for each in info.registers),
            *(CounterTable(connection, each) for each in info.counters),
            *(MeterTable(connection, each, "BYTES" in each.unit.name) for each in info.meters),
        ]

    def next_digest(self, timeout_s: float) -> tuple[str, list[Any]] | None:
        """Return name and messages of the next digest, or None if none arrives in time.

        Raises BfrtError if the connection has ended.
        """
        try:
            return self.received.get(timeout=timeout_s)
        except Empty:
            self.require_up()
            return None

    def require_up(self) -> None:
        """Raise BfrtError if the connection has ended."""
        self._connection.require_up("digests")

    def find(self, name: str) -> Table:
        """Return the table with this name. Raises BfrtError.

        `pipe.` may precede the name, and names of device tables may lack the `$`.
        """
        for table in self.of_device:
            if table.name in (name, f"${name}"):
                return table
        if name.startswith(ONLY_ON_TOFINO):
            raise BfrtError(f"{name}: only a Tofino has this table")
        return _find("table", name, self.of_program)

    def find_digest(self, name: str) -> Digest:
        """Return the digest with this name. Raises BfrtError."""
        return _find("digest", name, self.digests)

    def subscribe(self, digest: Digest) -> None:
        """Let the switch send the messages of a digest, which arrive in `received`."""
        if digest.name not in self._subscribed:
            self._subscribed.add(digest.name)
            self._connection.subscribe(digest.name, self.received)


def _find(kind: str, name: str, objects: Sequence[T]) -> T:
    try:
        return find(kind, name.removeprefix("pipe."), objects)
    except CommandError as error:
        raise BfrtError(str(error)) from None


def _widths(register: Any) -> dict[str, int]:
    """Return the numbers of bits of a register's fields. BfRt calls an only number f1."""
    of = register.type_spec
    if isinstance(of, P4StructType):
        return {name: getattr(member, "bitwidth", 1) for name, member in of.members.items()}
    return {"f1": getattr(of, "bitwidth", 1)}


def data_of(table: Table, action: str | None, given: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Convert the values of data fields to numbers or lists of numbers. Raises BfrtError.

    Text stays text in tables of the device (`$direction`: "INGRESS").
    """
    fields = {of.name: of for of in table.data_fields(action)}
    found: dict[str, Any] = {}
    for name, value in given:
        if name not in fields:
            known = ", ".join(fields) or "none"
            raise BfrtError(f"{table.name}: no data field {name!r}; expected {known}")
        of = fields[name]
        if isinstance(table, RegisterTable) and isinstance(value, list | tuple):
            value = next(iter(value), value)  # one value per pipe
        if of.is_list != isinstance(value, list | tuple):
            expected = "a list" if of.is_list else "one value"
            raise BfrtError(f"{table.name}: {name}: {value!r}: expected {expected}")
        if isinstance(value, list | tuple):
            found[name] = [table.value(of, each) for each in value]
        elif isinstance(value, str) and isinstance(table, StoredTable):
            found[name] = value
        else:
            found[name] = table.value(of, value)
    return found
