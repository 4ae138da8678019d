"""All tables and digests of a switch, by their names in BfRt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from queue import Empty, Queue
from typing import Any, TypeVar

from importers.bfrt.connection import BfrtError, Connection
from importers.bfrt.device import (
    GroupTable,
    MirrorTable,
    NodeTable,
    PortHandleTable,
    PortTable,
    StoredTable,
)
from importers.bfrt.tables import (
    CounterTable,
    IndirectTable,
    MatchTable,
    MemberTable,
    MeterTable,
    RegisterTable,
    SelectorTable,
    Table,
)
from importers.switch_cli.commands import CommandError, find

ONLY_ON_TOFINO = ("$", "tf1.", "tf2.", "tf3.")  # prefixes of tables of the device

T = TypeVar("T", "Table", "Digest")


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
            nodes, GroupTable(connection, nodes), MirrorTable(connection), PortTable(connection),
            PortHandleTable(connection),
        ]  # fmt: skip
        users = {p.name: [t for t in info.tables if t.action_profile is p]
                 for p in info.action_profiles}  # fmt: skip
        # clear_all_tables() deletes the entries of tables before groups, and groups before members
        self.of_program: list[Table] = [
            *(
                (IndirectTable if table.action_profile else MatchTable)(connection, table)
                for table in info.tables
            ),
            *(SelectorTable(connection, p) for p in info.action_profiles if p.with_selector),
            *(MemberTable(connection, p, users[p.name]) for p in info.action_profiles),
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
        """Make the switch send the messages of a digest. They arrive in `received`."""
        if digest.name not in self._subscribed:
            self._subscribed.add(digest.name)
            self._connection.subscribe(digest.name, self.received)


def _find(kind: str, name: str, objects: Sequence[T]) -> T:
    try:
        return find(kind, name.removeprefix("pipe."), objects)
    except CommandError as error:
        raise BfrtError(str(error)) from None


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
