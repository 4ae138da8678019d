"""Inserts the wanted entries into a switch's tables, and deletes all other entries.

An earlier controller may have inserted other entries.
"""

from collections.abc import Sequence

import finsy as fy
from finsy.proto import p4r

_Key = tuple[int, int, frozenset[bytes]]


async def reconcile(
    switch: fy.Switch, wanted: Sequence[fy.P4TableEntry], may_stay: Sequence[fy.P4TableEntry] = ()
) -> None:
    """Insert, modify and delete entries until the switch's tables contain exactly the wanted ones.

    Entries that are unchanged or in `may_stay` are not touched, so their traffic is not affected.
    Default actions are set first. Then entries are inserted in the given order. So each entry takes
    effect after the entries that precede it. Raises finsy's P4ClientError.
    """
    encoded = [entry.encode(switch.p4info) for entry in wanted]
    defaults = [entity for entity in encoded if entity.table_entry.is_default_action]
    new = {_key(entity): entity for entity in encoded if not entity.table_entry.is_default_action}
    old = {_key(entity): entity for entity in await _present(switch)}
    staying = new.keys() | {_key(entry.encode(switch.p4info)) for entry in may_stay}
    await switch.delete([entity for key, entity in old.items() if key not in staying])
    await switch.modify(
        [
            *defaults,
            *(entity for key, entity in new.items()
              if key in old and entity.table_entry.action != old[key].table_entry.action),
        ]
    )  # fmt: skip
    await switch.insert([entity for key, entity in new.items() if key not in old])


async def _present(switch: fy.Switch) -> list[p4r.Entity]:
    """Return the entries of all tables, except for default entries and constant entries."""
    constant = {table.id for table in switch.p4info.tables if table.is_const}
    # finsy declares read() as a coroutine in its overloads, but read() is an async generator.
    found = switch.read([fy.P4TableEntry()])
    entities = [entry.encode(switch.p4info) async for entry in found]  # type: ignore[attr-defined]
    return [entity for entity in entities if entity.table_entry.table_id not in constant]


def _key(entity: p4r.Entity) -> _Key:
    entry = entity.table_entry
    match = frozenset(field.SerializeToString(deterministic=True) for field in entry.match)
    return entry.table_id, entry.priority, match
