"""Commands for default actions, and for table entries, which are identified by handles."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import finsy as fy
from finsy.p4schema import P4ActionRef, P4MatchType, P4Table

from importers.switch_cli.commands import Answer, CommandError, command, find
from importers.switch_cli.handles import Handles
from importers.switch_cli.values import match, number

WITH_PRIORITY = {P4MatchType.TERNARY, P4MatchType.RANGE, P4MatchType.OPTIONAL}
MAX_PRIORITY = 2**31 - 1  # maximum of the type of priorities in P4Runtime, which is int32
ARROW = "=>"


class Tables:
    """The tables of one switch.

    Entries that already exist also get handles, in the switch's order. They get them at the first
    command for their table.
    """

    def __init__(self, switch: fy.Switch) -> None:
        self._switch = switch
        # map from full table name to the entries of the table
        self._entries: dict[str, Handles[fy.P4TableEntry]] = {}

    # --- commands ---------------------------------------------------------------------------

    @command("table_add")
    async def add(self, table: str, action: str, *words: str) -> Answer:
        """Insert an entry, or set the default entry of a table that has no keys."""
        of_table = self.find(table)
        keys, params, priority = split(of_table, words)
        entry = replace(
            self.entry(of_table, keys, priority),
            action=action_call(of_table.actions, action, params),
        )
        if not len(of_table.match_fields):
            await self._modify_default(entry)
            return []
        return await self.insert(of_table, entry)

    @command("table_set_default")
    async def set_default(self, table: str, action: str, *params: str) -> Answer:
        """Change a table's default action."""
        of_table = self.find(table)
        call = action_call(of_table.actions, action, params)
        await self._modify_default(fy.P4TableEntry(of_table.name, action=call))
        return []

    @command("table_reset_default")
    async def reset_default(self, table: str) -> Answer:
        """Restore the program's default action."""
        await self._modify_default(fy.P4TableEntry(self.find(table).name))
        return []

    @command("table_modify")
    async def modify(self, table: str, action: str, handle: int, *params: str) -> Answer:
        """Change an entry's action."""
        of_table, handles = self.find(table), await self.handles(table)
        params = params[1:] if params[:1] == (ARROW,) else params
        call = action_call(of_table.actions, action, params)
        entry = replace(handles[handle], action=call)
        await self._switch.modify([entry])
        handles[handle] = entry
        return []

    @command("table_delete")
    async def delete(self, table: str, handle: int) -> Answer:
        """Delete an entry."""
        handles = await self.handles(table)
        await self._switch.delete([handles[handle]])
        handles.remove(handle)
        return []

    @command("table_clear")
    async def clear(self, table: str) -> Answer:
        """Delete all entries. The handles of new entries start at 0 again."""
        handles = await self.handles(table)
        await self._switch.delete([entry for _, entry in handles.items()])
        handles.clear()
        return []

    @command("table_set_timeout")
    async def set_timeout(self, table: str, handle: int, timeout_ms: int) -> Answer:
        """Set the idle timeout of an entry."""
        handles = await self.handles(table)
        entry = replace(handles[handle], idle_timeout_ns=timeout_ms * 1_000_000)
        await self._switch.modify([entry])
        handles[handle] = entry
        return []

    @command("table_num_entries", reads=True)
    async def count(self, table: str) -> Answer:
        """Return the number of entries."""
        return [str(len(list((await self.handles(table)).items())))]

    @command("table_dump", reads=True)
    async def dump(self, table: str) -> Answer:
        """Return all entries and their handles."""
        of_table, handles = self.find(table), await self.handles(table)
        lines = ["==========", "TABLE ENTRIES"]
        for handle, entry in handles.items():
            lines += [
                "**********",
                f"Dumping entry {handle:#x}",
                *self._describe_entry(of_table, entry),
            ]
        return [*lines, "=========="]

    # --- shared with other families of commands ----------------------------------------------

    def find(self, name: str) -> P4Table:
        """Return a table. The name may be full or abbreviated. Raises CommandError."""
        return find("table", name, self._switch.p4info.tables)

    async def handles(self, name: str) -> Handles[fy.P4TableEntry]:
        """Return the entries of a table, as a map from handle to entry."""
        table = self.find(name).name
        if table not in self._entries:
            self._entries[table] = Handles(f"entry of table {name}", versioned=True)
            for entry in await self._read_entries(self.find(name)):
                self._entries[table].add(entry)
        return self._entries[table]

    def entry(self, table: P4Table, keys: Sequence[str], priority: int) -> fy.P4TableEntry:
        """Return an entry without action, with its key in P4Runtime's format.

        Raises CommandError.
        """
        fields = list(table.match_fields)
        if len(keys) != len(fields):
            names = ", ".join(field.name for field in fields)
            raise CommandError(f"{len(keys)} keys: table {table.name} expects {names}")
        found = {field.name: match(field, word) for field, word in zip(fields, keys, strict=True)}
        given = {name: value for name, value in found.items() if value is not None}
        return fy.P4TableEntry(table.name, match=fy.Match(given), priority=priority)

    async def insert(self, table: P4Table, entry: fy.P4TableEntry) -> Answer:
        """Insert an entry, and give it a handle."""
        handles = await self.handles(table.name)
        await self._switch.insert([entry])
        return [f"Entry has been added with handle {handles.add(entry)}"]

    async def _modify_default(self, entry: fy.P4TableEntry) -> None:
        await self._switch.modify([replace(entry, is_default_action=True)])

    async def _read_entries(self, table: P4Table) -> list[fy.P4TableEntry]:
        """Read the entries of a table. The names of fields are full names.

        finsy would return only the last part of a name.
        """
        names = {field.alias: field.name for field in table.match_fields}
        found: Any = self._switch.read(fy.P4TableEntry(table.name))  # see controllers.tables
        return [
            replace(
                entry,
                table_id=table.name,
                match=fy.Match({names[key]: value for key, value in (entry.match or {}).items()}),
            )
            async for entry in found
        ]

    def _describe_entry(self, table: P4Table, entry: fy.P4TableEntry) -> list[str]:
        keys: dict[str, Any] = entry.match or {}
        lines = ["Match key:"]
        for field in table.match_fields:
            value = field.format_field(keys[field.name]) if field.name in keys else "*"
            lines.append(f"* {field.name:20}: {value}")
        if has_priority(table):
            lines.append(f"Priority: {MAX_PRIORITY - entry.priority}")
        return [*lines, _describe_action(table, entry)]


def _describe_action(table: P4Table, entry: fy.P4TableEntry) -> str:
    if isinstance(entry.action, fy.Action):
        action = table.actions[entry.action.name]
        widths = {param.name: (param.bitwidth + 7) // 8 for param in action.params}
        args = [f"{entry.action.args[name]:0{2 * size}x}" for name, size in widths.items()]
        return f"Action entry: {action.name} - {', '.join(args)}"
    return f"Index: {entry.action.format_str(table)}" if entry.action else "EMPTY"


def has_priority(table: P4Table) -> bool:
    """Return whether the entries of a table have priorities."""
    return any(field.match_type in WITH_PRIORITY for field in table.match_fields)


def split(table: P4Table, words: Sequence[str]) -> tuple[list[str], list[str], int]:
    """Split KEYS => PARAMETERS [PRIORITY].

    Returns the keys, the parameters, and the priority for P4Runtime.

    In simple_switch_CLI, the entry with the smallest number takes precedence. In P4Runtime, the
    entry with the largest number does. Raises CommandError.
    """
    rest, priority = list(words), 0
    if has_priority(table):
        last = rest.pop() if rest else ""
        if not last.isdecimal() or int(last) >= MAX_PRIORITY:
            raise CommandError(
                f"priority {last!r}: table {table.name} expects a priority at the end, from 0 "
                f"(highest) to {MAX_PRIORITY - 1}"
            )
        priority = MAX_PRIORITY - int(last)
    if ARROW not in rest:
        raise CommandError(f"no {ARROW} between the keys and the action's parameters")
    arrow = rest.index(ARROW)
    return rest[:arrow], rest[arrow + 1 :], priority


def action_call(actions: Iterable[Any], name: str, words: Sequence[str]) -> fy.Action:
    """Return an action of a table or profile, with parameters. Raises CommandError."""
    action: P4ActionRef = find("action", name, actions)
    params = list(action.params)
    if len(words) != len(params):
        names = ", ".join(param.name for param in params) or "none"
        raise CommandError(f"{len(words)} parameters: action {name} expects {names}")
    values: dict[str, int] = {}
    for param, word in zip(params, words, strict=True):
        try:
            values[param.name] = number(word, param.bitwidth)
        except CommandError as error:
            raise CommandError(f"parameter {param.name}: {error}") from None
    return fy.Action(action.name, **values)
