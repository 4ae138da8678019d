"""Parser value sets: ValueSetEntry (spec 9.8)."""

from collections.abc import Iterator

from finsy.proto import p4r

from minip4.engine.keys import Exact
from minip4.runtime.dataplane import Dataplane
from minip4.runtime.entities.rates import MODIFY, Operation, Undo, check_modify
from minip4.runtime.p4info.match import decode_key
from minip4.runtime.p4info.schema import MatchType, Schema
from minip4.runtime.status import Code, StatusError, engine_calls, unimplemented


class ValueSets:
    """The value sets of one pipeline, as written by the client."""

    def __init__(self, schema: Schema, dataplane: Dataplane) -> None:
        self._schema = schema
        self._dataplane = dataplane
        self._entries: dict[int, p4r.ValueSetEntry] = {}

    def prepare(self, kind: int, message: p4r.ValueSetEntry) -> Operation:
        """Check the new content of a value set and return the operation."""
        value_set = self._schema.value_set(message.value_set_id)
        what = f"value set {value_set.preamble.name}"
        check_modify(what, kind)
        if len(message.members) > value_set.size:
            raise StatusError(
                Code.RESOURCE_EXHAUSTED,
                f"{what}: {len(message.members)} members, but the program allows "
                f"at most {value_set.size}",
            )
        self._values(message)
        return lambda: self._write(what, message)

    def read(self, message: p4r.ValueSetEntry) -> Iterator[p4r.Entity]:
        """Yield the content of one value set; id 0 selects all value sets."""
        wanted = message.value_set_id
        if wanted:
            self._schema.value_set(wanted)
        for number in self._schema.value_sets:
            if wanted in (0, number):
                yield p4r.Entity(value_set_entry=self._entry(number))

    def state(self) -> Iterator[p4r.Update]:
        """Return the updates that recreate this state in an empty pipeline."""
        for entry in self._entries.values():
            yield p4r.Update(type=MODIFY, entity=p4r.Entity(value_set_entry=entry))

    def _write(self, what: str, message: p4r.ValueSetEntry) -> Undo:
        old = self._entry(message.value_set_id)
        name = self._schema.value_set(message.value_set_id).preamble.name
        with engine_calls(what):
            self._dataplane.value_set_set(name, self._values(message))
        self._entries[message.value_set_id] = message
        return lambda: self._entries.update({message.value_set_id: old})

    def _entry(self, number: int) -> p4r.ValueSetEntry:
        return self._entries.get(number) or p4r.ValueSetEntry(value_set_id=number)

    def _values(self, message: p4r.ValueSetEntry) -> list[int]:
        """Return the members of a value set; each member is the concatenation of its fields."""
        value_set = self._schema.value_set(message.value_set_id)
        what = f"value set {value_set.preamble.name}"
        fields = self._schema.match_fields(what, value_set.match)
        if any(f.kind != MatchType.EXACT for f in fields):
            raise unimplemented(f"{what}: only exact matches are supported")
        members = []
        for member in message.members:
            value = 0
            for part, field in zip(decode_key(what, fields, member.match), fields, strict=True):
                assert isinstance(part, Exact)
                value = value << field.bitwidth | part.value
            members.append(value)
        return members
