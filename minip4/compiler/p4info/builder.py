"""Builds the P4Info message from what Collector found."""

from __future__ import annotations

import re
from typing import Any

from finsy.proto import p4i

from minip4.compiler import syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.lower.names import control_plane_name, key_name
from minip4.compiler.lower.objects import (
    Environment,
    ExternObject,
    annotation_numbers,
    evaluate,
    evaluate_number,
)
from minip4.compiler.lower.program import Architecture
from minip4.compiler.lower.tables import DEFAULT_SIZE
from minip4.compiler.p4info import symbols as ids
from minip4.compiler.p4info.annotations import add_annotations, add_documentation
from minip4.compiler.p4info.contents import Collector, TableItem, property_object
from minip4.compiler.p4info.symbols import Symbols
from minip4.compiler.p4info.type_info import (
    TypeInfo,
    flat_fields,
    translated_width,
    type_name,
    value_bytes,
)

_MATCH_TYPES = {"exact": 2, "lpm": 3, "ternary": 4, "range": 5, "optional": 6}
_COUNTER_UNITS = {"bytes": 1, "packets": 2, "packets_and_bytes": 3}
_METER_UNITS = {"bytes": 1, "packets": 2}
_INSTANCE_KINDS = {
    "counter": ids.COUNTER,
    "direct_counter": ids.DIRECT_COUNTER,
    "meter": ids.METER,
    "direct_meter": ids.DIRECT_METER,
    "register": ids.REGISTER,
    "action_profile": ids.ACTION_PROFILE,
    "action_selector": ids.ACTION_PROFILE,
}
_PROFILE_ANNOTATIONS = ("max_group_size", "selector_size_semantics", "max_member_weight")


class Builder:
    def __init__(self, program: syntax.Program, architecture: Architecture) -> None:
        self._program = program
        self._architecture = architecture
        self._contents = Collector(program, architecture).collect()
        self._symbols = Symbols()
        self._info: Any = p4i.P4Info()
        self._types = TypeInfo(self._info.type_info, program.errors)
        self._digests: list[tuple[str, types.Type]] = []
        self._controller_headers = [
            d
            for d in program.declarations
            if isinstance(d, syntax.StructDeclaration)
            and d.keyword == "header"
            and d.annotation("controller_header") is not None
        ]

    def build(self) -> p4i.P4Info:
        self._collect_symbols()
        for name, action in self._contents.actions.items():
            if action.annotation("hidden") is None:
                self._action(name, action)
        for item in self._contents.objects:
            if isinstance(item, TableItem):
                if item.table.annotation("hidden") is None:
                    self._table(item)
            else:
                self._object(item)
        for name, value_set in self._contents.value_sets.items():
            self._value_set(name, value_set)
        for header in self._controller_headers:
            if header.annotation("hidden") is None:
                self._controller_header(header)
        self._add_digests()
        if self._contents.calls_externs:
            self._info.type_info.SetInParent()
        self._package()
        return self._info

    # -- names

    def _collect_symbols(self) -> None:
        symbols, contents = self._symbols, self._contents
        for name, action in contents.actions.items():
            symbols.add(ids.ACTION, name, action)
        for item in contents.objects:
            if isinstance(item, TableItem):
                symbols.add(ids.TABLE, item.name, item.table)
                for prop in ("implementation", "counters", "meters"):
                    made = property_object(item, prop)
                    if made is not None and made.declaration is None:
                        symbols.add(_INSTANCE_KINDS[made.type.name], made.name)
            elif item.type.name in _INSTANCE_KINDS:
                symbols.add(_INSTANCE_KINDS[item.type.name], item.name, item.declaration)
        for name, value_set in contents.value_sets.items():
            symbols.add(ids.VALUE_SET, name, value_set)
        for header in self._controller_headers:
            symbols.add(ids.CONTROLLER_HEADER, control_plane_name(header), header)
        for of, _ in contents.digests:
            named = isinstance(of, types.StructLike | types.Enum | types.SerializableEnum)
            if named:
                assert isinstance(of, types.Named)
                name = control_plane_name(of.declaration)
            else:
                name = f"digest_{len(self._digests)}"
            if name not in (known for known, _ in self._digests):
                self._digests.append((name, of))
            symbols.add(ids.DIGEST, name)
        symbols.assign()

    def _preamble(
        self,
        message: Any,
        kind: int,
        name: str,
        annotations: list[syntax.Annotation],
        skip: tuple[str, ...] = (),
    ) -> None:
        preamble = message.preamble
        preamble.id = self._symbols.id(kind, name)
        preamble.name = name
        preamble.alias = self._symbols.alias(name)
        add_annotations(preamble, annotations, skip)
        add_documentation(preamble, annotations)

    # -- actions

    def _action(self, name: str, action: syntax.Action) -> None:
        message = self._info.actions.add()
        self._preamble(message, ids.ACTION, name, action.annotations)
        parameters = [p for p in action.parameters if p.direction == ""]
        if name in self._contents.called_only:
            parameters = []  # its arguments come from the program, not from the control plane
        for parameter, number in zip(parameters, _field_ids(parameters), strict=True):
            param = message.params.add()
            param.id = number
            param.name = control_plane_name(parameter)
            add_annotations(param, parameter.annotations)
            add_documentation(param, parameter.annotations)
            self._typed(param, parameter.type, parameter.source)

    def _typed(self, message: Any, of: types.Type, source: syntax.Source) -> None:
        """Fills bitwidth and type_name."""
        self._info.type_info.SetInParent()
        plain = types.strip_newtypes(of)
        if isinstance(plain, types.Enum):
            message.type_name.name = control_plane_name(plain.declaration)
        else:
            width = types.width_in_bits(plain)
            translation = None
            if isinstance(of, types.NewType):
                translation = of.declaration.annotation("p4runtime_translation")
            if translation is not None:
                width = translated_width(translation)
            elif plain is types.ERROR:
                width = 0
            if width is None:
                raise P4Error(f"the control plane cannot see a value of type {of}", source)
            if width:
                message.bitwidth = width
        self._types.note(of)
        name = type_name(of)
        if name is not None:
            message.type_name.name = name

    # -- tables

    def _table(self, item: TableItem) -> None:
        self._info.type_info.SetInParent()
        table, message = item.table, self._info.tables.add()
        self._preamble(message, ids.TABLE, item.name, table.annotations)
        message.size = self._size(item)
        self._default_action(item, message)
        for name, reference in item.actions:
            self._action_reference(message, name, reference.annotations)
        names = [name for name, _ in item.actions]
        if item.default[1] is None and item.default[0] not in names:
            message.action_refs.add(
                id=self._symbols.id(ids.ACTION, item.default[0]),
                annotations=["@defaultonly"],
                scope=p4i.ActionRef.DEFAULT_ONLY,
            )
        self._match_fields(table, message)
        if table.entries is not None:
            message.is_const_table = table.are_entries_const
            message.has_initial_entries = bool(table.entries)
        self._table_properties(item, message)

    def _size(self, item: TableItem) -> int:
        size = item.table.property("size")
        if size is None:
            return DEFAULT_SIZE
        return evaluate_number(size.value, item.owner.environment) or DEFAULT_SIZE

    def _default_action(self, item: TableItem, message: Any) -> None:
        name, reference = item.default
        number = self._symbols.id(ids.ACTION, name)
        if item.table.is_default_action_const:
            message.const_default_action_id = number
        initial = message.initial_default_action
        initial.action_id = number
        if reference is None or reference.action is None:
            return
        parameters = [p for p in reference.action.parameters if p.direction == ""]
        numbers = dict(zip(parameters, _field_ids(parameters), strict=True))
        for parameter, argument in zip(
            reference.action.parameters, reference.arguments, strict=True
        ):
            if parameter.direction == "" and argument is not None:
                value = evaluate_number(argument, item.owner.environment)
                width = types.width_in_bits(parameter.type) or 32
                initial.arguments.add(param_id=numbers[parameter], value=value_bytes(value, width))

    def _action_reference(
        self, message: Any, name: str, annotations: list[syntax.Annotation]
    ) -> None:
        reference = message.action_refs.add()
        reference.id = self._symbols.id(ids.ACTION, name)
        add_annotations(reference, annotations)
        kinds = {a.name for a in annotations}
        if "tableonly" in kinds:
            reference.scope = p4i.ActionRef.TABLE_ONLY
        elif "defaultonly" in kinds:
            reference.scope = p4i.ActionRef.DEFAULT_ONLY

    def _match_fields(self, table: syntax.Table, message: Any) -> None:
        for key, number in zip(table.keys, _field_ids(table.keys), strict=True):
            if key.match_kind == "selector":
                continue
            field = message.match_fields.add()
            field.id = number
            field.name = key_name(key)
            add_annotations(field, key.annotations)
            add_documentation(field, key.annotations)
            self._typed(field, key.expression.type, key.source)
            if isinstance(types.strip_newtypes(key.expression.type), types.Enum):
                field.ClearField("type_name")
            if key.match_kind in _MATCH_TYPES:
                field.match_type = _MATCH_TYPES[key.match_kind]
            else:
                field.other_match_type = key.match_kind

    def _table_properties(self, item: TableItem, message: Any) -> None:
        implementation = property_object(item, "implementation")
        if implementation is not None:
            message.implementation_id = self._symbols.id(ids.ACTION_PROFILE, implementation.name)
            if implementation.declaration is None:
                found = item.table.property("implementation")
                assert found is not None
                self._profile(implementation, found.annotations)
        for name, kind in (("counters", ids.DIRECT_COUNTER), ("meters", ids.DIRECT_METER)):
            direct = property_object(item, name)
            if direct is None:
                continue
            message.direct_resource_ids.append(self._symbols.id(kind, direct.name))
            self._direct(direct, kind, item)
        timeout = item.table.property("support_timeout")
        if timeout is not None and evaluate(timeout.value, item.owner.environment):
            message.idle_timeout_behavior = p4i.Table.NOTIFY_CONTROL

    # -- extern objects

    def _object(self, item: ExternObject) -> None:
        annotations = item.declaration.annotations if item.declaration is not None else []
        self._info.type_info.SetInParent()
        match item.type.name:
            case "counter":
                message = self._info.counters.add()
                self._preamble(message, ids.COUNTER, item.name, annotations)
                message.spec.unit = _unit(item, 1, _COUNTER_UNITS)
                message.size = _number(item, 0)
                self._index_type(item, 0, message)
            case "meter":
                message = self._info.meters.add()
                self._preamble(message, ids.METER, item.name, annotations)
                message.spec.unit = _unit(item, 1, _METER_UNITS)
                message.size = _number(item, 0)
                self._index_type(item, 0, message)
            case "register":
                message = self._info.registers.add()
                self._preamble(message, ids.REGISTER, item.name, annotations)
                message.type_spec.CopyFrom(self._types.spec(item.type.arguments[0]))
                message.size = _number(item, 0)
                self._index_type(item, 1, message)
            case "action_profile" | "action_selector":
                self._profile(item, annotations)

    def _index_type(self, item: ExternObject, position: int, message: Any) -> None:
        """Newer v1model: the index has a type of its own."""
        if len(item.type.arguments) > position:
            of = item.type.arguments[position]
            self._types.note(of)
            name = type_name(of)
            if name is not None:
                message.index_type_name.name = name

    def _direct(self, item: ExternObject, kind: int, table: TableItem) -> None:
        is_counter = kind == ids.DIRECT_COUNTER
        message = (self._info.direct_counters if is_counter else self._info.direct_meters).add()
        annotations = item.declaration.annotations if item.declaration is not None else []
        self._preamble(message, kind, item.name, annotations)
        message.spec.unit = _unit(item, 0, _COUNTER_UNITS if is_counter else _METER_UNITS)
        message.direct_table_id = self._symbols.id(ids.TABLE, table.name)

    def _profile(self, item: ExternObject, annotations: list[syntax.Annotation]) -> None:
        message = self._info.action_profiles.add()
        self._preamble(message, ids.ACTION_PROFILE, item.name, annotations, _PROFILE_ANNOTATIONS)
        is_selector = item.type.name == "action_selector"
        message.with_selector = is_selector
        message.size = _number(item, 1 if is_selector else 0)
        values = {a.name: a for a in annotations if a.values}
        if is_selector:
            if "max_group_size" in values:
                message.max_group_size = annotation_numbers(values["max_group_size"])[0]
            semantics = ""
            if "selector_size_semantics" in values:
                semantics = str(values["selector_size_semantics"].values[0]).lower()
            if semantics == "sum_of_weights":
                message.sum_of_weights.SetInParent()
            elif semantics == "sum_of_members":
                message.sum_of_members.SetInParent()
                if "max_member_weight" in values:
                    message.sum_of_members.max_member_weight = annotation_numbers(
                        values["max_member_weight"]
                    )[0]
        users = sorted(
            other.name
            for other in self._contents.tables
            if (used := property_object(other, "implementation")) and used.name == item.name
        )
        message.table_ids.extend(self._symbols.id(ids.TABLE, name) for name in users)

    # -- the rest

    def _value_set(self, name: str, value_set: syntax.ValueSet) -> None:
        message = self._info.value_sets.add()
        self._preamble(message, ids.VALUE_SET, name, value_set.annotations)
        message.size = evaluate_number(value_set.size, Environment())
        of = value_set.type.element if isinstance(value_set.type, types.Set) else value_set.type
        plain = types.strip_newtypes(of)
        if isinstance(plain, types.Struct):
            fields = plain.declaration.fields
            for f, number in zip(fields, _field_ids(fields), strict=True):
                match = message.match.add()
                match.id = number
                match.name = control_plane_name(f)
                match.bitwidth = types.width_in_bits(plain.fields[f.name]) or 0
                kind = f.annotation("match")
                match.match_type = _MATCH_TYPES[kind.text if kind is not None else "exact"]
                add_annotations(match, f.annotations, ("match",))
                add_documentation(match, f.annotations)
        elif isinstance(plain, types.Bits | types.SerializableEnum):
            width = types.width_in_bits(plain) or 0
            message.match.add(id=1, bitwidth=width, match_type=_MATCH_TYPES["exact"])
        else:
            raise P4Error(
                f"a value set of {of} cannot be shown to the control plane",
                value_set.source,
                "bit<>, a struct of bit<> or a serializable enum",
            )

    def _controller_header(self, header: syntax.StructDeclaration) -> None:
        message = self._info.controller_packet_metadata.add()
        annotation = header.annotation("controller_header")
        assert annotation is not None
        name = str(annotation.values[0])
        preamble = message.preamble
        preamble.id = self._symbols.id(ids.CONTROLLER_HEADER, control_plane_name(header))
        preamble.name = preamble.alias = name
        add_annotations(preamble, header.annotations)
        add_documentation(preamble, header.annotations)
        fields = list(flat_fields(types.Header(header)))
        numbers = _numbered([_written_id(written) for *_, written in fields])
        for (field_name, of, written), number in zip(fields, numbers, strict=True):
            if any(a.name == "hidden" for a in written):
                continue
            metadata = message.metadata.add()
            metadata.id = number
            metadata.name = field_name
            add_annotations(metadata, written)
            self._typed(metadata, of, header.source)

    def _add_digests(self) -> None:
        for name, of in self._digests:
            message = self._info.digests.add()
            self._preamble(message, ids.DIGEST, name, [])
            message.type_spec.CopyFrom(self._types.spec(of))

    def _package(self) -> None:
        main, message = self._architecture.main, self._info.pkg_info
        message.arch = "v1model"
        info = main.annotation("pkginfo")
        if info is not None:
            for key, value in _pairs(info):
                if key in ("name", "version", "organization", "contact", "url", "arch"):
                    setattr(message, key, str(value))
        properties = main.annotation("platform_property")
        if properties is not None:
            for key, value in _pairs(properties):
                setattr(message.platform_properties, key, value)
        others = [a for a in main.annotations if a.name not in ("pkginfo", "platform_property")]
        add_annotations(message, others)
        add_documentation(message, main.annotations)


def _pairs(annotation: syntax.Annotation) -> list[tuple[str, str | int]]:
    """What `@name(key = value, ...)` says: values are strings and decimal numbers."""
    if annotation.pairs:
        return [(k, v) for k, v in annotation.pairs.items() if isinstance(v, str | int)]
    found = re.findall(r'(\w+) = (?:"([^"]*)"|(\d+))(?: ,|$)', annotation.text)
    return [(key, int(number) if number else text) for key, text, number in found]


def _written_id(annotations: list[syntax.Annotation]) -> int | None:
    found = next((a for a in annotations if a.name == "id" and a.values), None)
    return None if found is None else annotation_numbers(found)[0]


def _field_ids(items: list[Any]) -> list[int]:
    """Ids of match fields and parameters: 1, 2, ... where @id gives none."""
    return _numbered([_written_id(item.annotations) for item in items])


def _numbered(written: list[int | None]) -> list[int]:
    used = {number for number in written if number is not None}
    result = []
    index = 1
    for number in written:
        if number is not None:
            result.append(number)
            index += 1
            continue
        while index in used:
            index += 1
        used.add(index)
        result.append(index)
    return result


def _unit(item: ExternObject, position: int, units: dict[str, int]) -> int:
    member = item.arguments[position]
    assert isinstance(member, syntax.EnumMember)
    return units[member.name]


def _number(item: ExternObject, position: int) -> int:
    value = item.arguments[position]
    if isinstance(value, syntax.EnumMember):
        return value.number
    assert isinstance(value, int)
    return value
