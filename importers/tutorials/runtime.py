"""sX-runtime.json of p4lang/tutorials: table entries, multicast groups and clone sessions.

A value is a number, or a string with an IPv4, IPv6 or MAC address. An exact value may be in a list.
An LPM field is [value, prefix length], a ternary field is [value, mask], and a range field is [low,
high].
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import finsy as fy

from telemark.json_input import Document
from telemark.network import Network
from telemark.session.error_reporting import refusal

Entity: TypeAlias = fy.P4TableEntry | fy.P4MulticastGroupEntry | fy.P4CloneSessionEntry
MOST_PORT = 0xFFFF_FFFF
KEYS = ("target", "p4info", "bmv2_json", "table_entries", "multicast_group_entries",
        "clone_session_entries")  # fmt: skip


@dataclass(frozen=True)
class RuntimeFile:
    """Table entries, groups and sessions of one file."""

    document: Document

    @property
    def program(self) -> str | None:
        """Name of the program to which the entries belong."""
        blob = self.document.get("bmv2_json")
        return None if blob is None else Path(blob.text()).stem

    async def write(self, switch: fy.Switch, _net: Network) -> list[str]:
        """Write the content. Return a message with the numbers of entities. Raises TestbedError."""
        for key, _ in self.document.items():
            if key not in KEYS:
                self.document.wrong(f"only the keys {', '.join(KEYS)}; found {key}")
        written = 0
        for key, made in (
            ("table_entries", _table_entry),
            ("multicast_group_entries", _multicast_group),
            ("clone_session_entries", _clone_session),
        ):
            entries = self.document.get(key)
            for entry in entries.entries() if entries is not None else []:
                await _write(switch, made(entry), entry)
                written += 1
        return [f"{written} entries of {self.document.path.name}"]


async def _write(switch: fy.Switch, entity: Entity, entry: Document) -> None:
    """Write one entity. If the switch reports an error, add the location in the file."""
    try:
        if isinstance(entity, fy.P4TableEntry) and entity.is_default_action:
            # a table always has a default entry, so the entry is modified and not inserted
            await switch.modify([entity])
        else:
            await switch.insert([entity])
    except fy.P4ClientError as error:
        entry.wrong(f"a valid entry; switch {switch.name} reports {refusal(error)}")
    except ValueError as error:
        entry.wrong(f"names in the program: {' '.join(str(error).split())}")


def _table_entry(entry: Document) -> fy.P4TableEntry:
    match, parameters = entry.get("match"), entry.get("action_params")
    fields = {} if match is None else {name: _value(field) for name, field in match.items()}
    values = {} if parameters is None else {name: _value(each) for name, each in parameters.items()}
    default, priority = entry.get("default_action"), entry.get("priority")
    return fy.P4TableEntry(
        entry["table"].text(),
        match=fy.Match(fields),
        action=fy.Action(entry["action_name"].text(), **values),
        priority=0 if priority is None else priority.natural(2**31 - 1),
        is_default_action=default is not None and bool(default.value),
    )


def _value(value: Document) -> Any:
    """Convert a value for finsy. The result is a number, a string, or a pair of these."""
    if not isinstance(value.value, list):
        return _scalar(value)
    parts = [_scalar(part) for part in value.entries()]
    if len(parts) not in (1, 2):
        value.wrong("one value, or a pair")
    return parts[0] if len(parts) == 1 else tuple(parts)


def _scalar(value: Document) -> int | str:
    if isinstance(value.value, bool) or not isinstance(value.value, int | str):
        value.wrong("a number or an address")
    return value.value


def _multicast_group(entry: Document) -> fy.P4MulticastGroupEntry:
    number = entry["multicast_group_id"].natural(0xFFFF)
    return fy.P4MulticastGroupEntry(number, replicas=_replicas(entry))


def _clone_session(entry: Document) -> fy.P4CloneSessionEntry:
    length = entry.get("packet_length_bytes")
    return fy.P4CloneSessionEntry(
        entry["clone_session_id"].natural(0x7FFF),
        packet_length_bytes=0 if length is None else length.natural(0xFFFF),
        replicas=_replicas(entry),
    )


def _replicas(entry: Document) -> list[tuple[int, int]]:
    """Return pairs of a port and an instance. A missing instance is 0."""
    replicas = []
    for replica in entry["replicas"].entries():
        instance = replica.get("instance")
        replicas.append((replica["egress_port"].natural(MOST_PORT),
                         0 if instance is None else instance.natural(0xFFFF)))  # fmt: skip
    return replicas
