"""Index of P4Info: from id to object, with error messages that name the id."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypeVar

from finsy.proto import p4i, p4t

from minip4.runtime.p4info import translation
from minip4.runtime.p4info.values import Values
from minip4.runtime.status import invalid, unimplemented

MatchType = p4i.MatchField.MatchType
# match kinds whose entries have priorities
RANKED_KINDS = (MatchType.TERNARY, MatchType.RANGE, MatchType.OPTIONAL)

MAX_DEPTH = 32  # maximum nesting of types
PORT_BITS = 9  # width of a port number in v1model
_PORT_FIELDS = ("ingress_port", "egress_port")

_T = TypeVar("_T")
_Typed = p4i.MatchField | p4i.Action.Param | p4i.ControllerPacketMetadata.Metadata


@dataclass(frozen=True, slots=True)
class Param:
    id: int
    name: str
    values: Values


@dataclass(frozen=True, slots=True)
class Action:
    id: int
    name: str
    params: tuple[Param, ...]


@dataclass(frozen=True, slots=True)
class MatchField:
    id: int
    name: str
    values: Values
    kind: int  # enum MatchType of P4Info

    @property
    def bitwidth(self) -> int:
        """Bit width in the data plane."""
        return self.values.bitwidth


@dataclass(slots=True)
class Table:
    id: int
    name: str
    fields: tuple[MatchField, ...]
    entry_actions: dict[int, Action]
    default_actions: dict[int, Action]
    size: int
    is_const: bool
    const_default_action: bool
    action_profile: int  # P4Info id, or 0 if the table has none
    idle_timeout: bool
    has_priority: bool
    direct_counter: p4i.DirectCounter | None = None
    direct_meter: p4i.DirectMeter | None = None


@dataclass(slots=True)
class ActionProfile:
    id: int
    name: str
    with_selector: bool
    size: int
    max_group_size: int
    # max_group_size limits the number of members, not the sum of their weights
    sum_of_members: bool
    actions: dict[int, Action] = field(default_factory=dict)


def _check_types(types: p4t.P4TypeInfo) -> None:
    """Reject types with unknown members, types that contain themselves, and deep nesting."""
    members = {f"struct {name}": [m.type_spec for m in struct.members]
               for name, struct in types.structs.items()}  # fmt: skip
    members |= {f"type {name}": [new.original_type] for name, new in types.new_types.items()}
    parts = {name: {part for spec in specs for part in _named_types(spec)}
             for name, specs in members.items()}  # fmt: skip
    depths: dict[str, int] = {}
    try:
        for name in TopologicalSorter(parts).static_order():
            if name not in parts:
                raise invalid(f"P4Info has no {name}, which one of its types uses")
            depths[name] = 1 + max((depths[part] for part in parts[name]), default=0)
            if depths[name] > MAX_DEPTH:
                raise invalid(f"{name}: more than {MAX_DEPTH} types are nested")
    except CycleError as error:
        raise invalid(f"{error.args[1][0]} contains itself") from None


def _named_types(spec: p4t.P4DataTypeSpec) -> Iterator[str]:
    kind = spec.WhichOneof("type_spec")
    if kind == "struct":
        yield f"struct {spec.struct.name}"
    elif kind == "new_type":
        yield f"type {spec.new_type.name}"
    elif kind == "tuple":
        for member in spec.tuple.members:
            yield from _named_types(member)


class Schema:
    """The objects of a P4Info message, by id.

    The objects have the same names as in the BMv2 JSON.
    """

    def __init__(self, p4info: p4i.P4Info) -> None:
        self.p4info = p4info
        _check_types(p4info.type_info)
        self.translations = translation.translations(p4info.type_info)
        self.actions = {a.preamble.id: self._action(a) for a in p4info.actions}
        self.counters = _by_id(p4info.counters)
        self.meters = _by_id(p4info.meters)
        self.registers = _by_id(p4info.registers)
        self.digests = _by_id(p4info.digests)
        self.value_sets = _by_id(p4info.value_sets)
        self.controller_headers = {
            header.preamble.name: header for header in p4info.controller_packet_metadata
        }
        self.tables = {t.preamble.id: self._table(t) for t in p4info.tables}
        self.profiles = {p.preamble.id: self._profile(p) for p in p4info.action_profiles}
        for counter in p4info.direct_counters:
            self.table(counter.direct_table_id).direct_counter = counter
        for meter in p4info.direct_meters:
            self.table(meter.direct_table_id).direct_meter = meter

    def table(self, table_id: int) -> Table:
        return self._find(self.tables, table_id, "table")

    def action(self, action_id: int) -> Action:
        return self._find(self.actions, action_id, "action")

    def profile(self, profile_id: int) -> ActionProfile:
        return self._find(self.profiles, profile_id, "action profile")

    def counter(self, counter_id: int) -> p4i.Counter:
        return self._find(self.counters, counter_id, "counter")

    def meter(self, meter_id: int) -> p4i.Meter:
        return self._find(self.meters, meter_id, "meter")

    def register(self, register_id: int) -> p4i.Register:
        return self._find(self.registers, register_id, "register")

    def digest(self, digest_id: int) -> p4i.Digest:
        return self._find(self.digests, digest_id, "digest")

    def value_set(self, value_set_id: int) -> p4i.ValueSet:
        return self._find(self.value_sets, value_set_id, "value set")

    @property
    def ports(self) -> Values:
        """Return the type of the ports of replicas and of watch ports.

        P4Info does not state this type. The port field in packet-in and packet-out headers has this
        type, too.
        """
        for header in self.controller_headers.values():
            for metadata in header.metadata:
                of = self.translations.get(metadata.type_name.name)
                if of is not None and metadata.name in _PORT_FIELDS:
                    return of
        return Values(PORT_BITS)

    def values(self, of: _Typed) -> Values:
        """Return the conversion of a field or parameter between controller and data plane."""
        return self.translations.get(of.type_name.name) or Values(of.bitwidth)

    def match_fields(self, owner: str, fields: Iterable[p4i.MatchField]) -> tuple[MatchField, ...]:
        """Return the declared key of a table or value set. Raises StatusError."""
        return tuple(self._match_field(owner, f) for f in fields)

    def _match_field(self, owner: str, match: p4i.MatchField) -> MatchField:
        if match.WhichOneof("match") != "match_type":
            raise unimplemented(
                f"{owner}, field {match.name}: match kind {match.other_match_type!r} is not "
                "supported"
            )
        of = self.values(match)
        translation.check_kind(owner, match, of)
        return MatchField(match.id, match.name, of, match.match_type)

    def _action(self, action: p4i.Action) -> Action:
        params = tuple(Param(p.id, p.name, self.values(p)) for p in action.params)
        return Action(action.preamble.id, action.preamble.name, params)

    def _find(self, objects: dict[int, _T], number: int, kind: str) -> _T:
        try:
            return objects[number]
        except KeyError:
            raise invalid(
                f"no {kind} has id {number:#010x} in the P4Info of this pipeline"
            ) from None

    def _table(self, table: p4i.Table) -> Table:
        refs = [(self.action(ref.id), ref.scope) for ref in table.action_refs]
        fields = self.match_fields(f"table {table.preamble.name}", table.match_fields)
        return Table(
            id=table.preamble.id,
            name=table.preamble.name,
            fields=fields,
            entry_actions={a.id: a for a, scope in refs if scope != p4i.ActionRef.DEFAULT_ONLY},
            default_actions={a.id: a for a, scope in refs if scope != p4i.ActionRef.TABLE_ONLY},
            size=table.size,
            is_const=table.is_const_table,
            const_default_action=table.const_default_action_id != 0,
            action_profile=table.implementation_id,
            idle_timeout=table.idle_timeout_behavior == p4i.Table.NOTIFY_CONTROL,
            has_priority=any(f.kind in RANKED_KINDS for f in fields),
        )

    def _profile(self, profile: p4i.ActionProfile) -> ActionProfile:
        preamble = profile.preamble
        actions: dict[int, Action] = {}
        for table_id in profile.table_ids:
            actions.update(self.table(table_id).entry_actions)
        return ActionProfile(
            preamble.id, preamble.name, profile.with_selector, profile.size,
            profile.max_group_size, profile.HasField("sum_of_members"), actions,
        )  # fmt: skip


def _by_id(objects: Iterable[Any]) -> dict[int, Any]:
    return {entry.preamble.id: entry for entry in objects}
