"""Builds the P4Info message from the results of Collector."""

from __future__ import annotations

from typing import Any

from finsy.proto import p4i

from minip4.compiler import syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.architecture import DEFAULT_TABLE_SIZE, Architecture
from minip4.compiler.instances.names import control_plane_name, key_name
from minip4.compiler.instances.objects import (
    Environment,
    ExternObject,
    annotation_pairs,
    evaluate,
    evaluate_number,
    profile_of,
)
from minip4.compiler.p4info import symbols as ids
from minip4.compiler.p4info.annotations import add_annotations, add_documentation
from minip4.compiler.p4info.contents import TableItem, property_object
from minip4.compiler.p4info.extern_objects import SETTINGS, ExternObjects
from minip4.compiler.p4info.messages import Messages, checked_size, field_ids, numbered, written_id
from minip4.compiler.p4info.type_info import flat_fields, value_bytes

_MATCH_TYPES = {"exact": 2, "lpm": 3, "ternary": 4, "range": 5, "optional": 6}
_INSTANCE_KINDS = {
    "counter": ids.COUNTER,
    "direct_counter": ids.DIRECT_COUNTER,
    "meter": ids.METER,
    "direct_meter": ids.DIRECT_METER,
    "register": ids.REGISTER,
    **dict.fromkeys(SETTINGS, ids.REGISTER),
    "action_profile": ids.ACTION_PROFILE,
    "action_selector": ids.ACTION_PROFILE,
}


class Builder:
    def __init__(self, program: syntax.Program, architecture: Architecture) -> None:
        self.messages = Messages(program, architecture)
        self.extern_objects = ExternObjects(self.messages)
        self._architecture = architecture
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
        for name, action in self.messages.contents.actions.items():
            if action.annotation("hidden") is None:
                self._action(name, action)
        for item in self.messages.contents.objects:
            if isinstance(item, TableItem):
                if item.table.annotation("hidden") is None:
                    self._table(item)
            else:
                self.extern_objects.extern_object(item)
        for name, value_set in self.messages.contents.value_sets.items():
            self._value_set(name, value_set)
        for header in self._controller_headers:
            if header.annotation("hidden") is None:
                self._controller_header(header)
        self._add_digests()
        if self.messages.contents.calls_externs:
            self.messages.info.type_info.SetInParent()
        self._package()
        return self.messages.info

    # -- names

    def _collect_symbols(self) -> None:
        symbols, contents = self.messages.symbols, self.messages.contents
        for name, action in contents.actions.items():
            symbols.add(ids.ACTION, name, action)
        for item in contents.objects:
            if isinstance(item, TableItem):
                symbols.add(ids.TABLE, item.name, item.table)
                for prop in ("implementation", "counters", "meters"):
                    made = property_object(item, prop)
                    if made is not None and made.declaration is None:
                        symbols.add(_INSTANCE_KINDS[made.kind], _name_of(made))
            elif item.kind in _INSTANCE_KINDS:
                symbols.add(_INSTANCE_KINDS[item.kind], _name_of(item), item.declaration)
        for name, value_set in contents.value_sets.items():
            symbols.add(ids.VALUE_SET, name, value_set)
        for header in self._controller_headers:
            symbols.add(ids.CONTROLLER_HEADER, control_plane_name(header), header)
        for name, of in contents.digests:
            if not name:
                name = self._digest_name(of)
            if name not in (known for known, _ in self._digests):
                self._digests.append((name, of))
            symbols.add(ids.DIGEST, name)
        symbols.assign()

    def _digest_name(self, of: types.Type) -> str:
        if isinstance(of, types.StructLike | types.Enum | types.SerializableEnum):
            return control_plane_name(of.declaration)
        return f"digest_{len(self._digests)}"

    # -- actions

    def _action(self, name: str, action: syntax.Action) -> None:
        message = self.messages.info.actions.add()
        self.messages.preamble(message, ids.ACTION, name, action.annotations)
        parameters = [p for p in action.parameters if p.direction == ""]
        if name in self.messages.contents.called_only:
            parameters = []  # the arguments come from the program, not from the control plane
        for parameter, number in zip(parameters, field_ids(parameters), strict=True):
            param = message.params.add()
            param.id = number
            param.name = control_plane_name(parameter)
            add_annotations(param, parameter.annotations)
            add_documentation(param, parameter.annotations)
            self.messages.typed(param, parameter.type, parameter.source)

    # -- tables

    def _table(self, item: TableItem) -> None:
        self.messages.info.type_info.SetInParent()
        table, message = item.table, self.messages.info.tables.add()
        self.messages.preamble(message, ids.TABLE, item.name, table.annotations)
        message.size = self._size(item)
        self._default_action(item, message)
        for name, reference in item.actions:
            self._action_reference(message, name, reference.annotations)
        names = [name for name, _ in item.actions]
        if item.default[1] is None and item.default[0] not in names:
            message.action_refs.add(
                id=self.messages.symbols.id(ids.ACTION, item.default[0]),
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
            return DEFAULT_TABLE_SIZE
        number = evaluate_number(size.value, item.owner.environment)
        return checked_size(number, size.value.source) or DEFAULT_TABLE_SIZE

    def _default_action(self, item: TableItem, message: Any) -> None:
        name, reference = item.default
        number = self.messages.symbols.id(ids.ACTION, name)
        if item.table.is_default_action_const:
            message.const_default_action_id = number
        initial = message.initial_default_action
        initial.action_id = number
        if reference is None or reference.action is None:
            return
        parameters = [p for p in reference.action.parameters if p.direction == ""]
        numbers = dict(zip(parameters, field_ids(parameters), strict=True))
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
        reference.id = self.messages.symbols.id(ids.ACTION, name)
        add_annotations(reference, annotations)
        kinds = {a.name for a in annotations}
        if "tableonly" in kinds:
            reference.scope = p4i.ActionRef.TABLE_ONLY
        elif "defaultonly" in kinds:
            reference.scope = p4i.ActionRef.DEFAULT_ONLY

    def _match_fields(self, table: syntax.Table, message: Any) -> None:
        for key, number in zip(table.keys, field_ids(table.keys), strict=True):
            if key.match_kind == "selector":
                continue
            field = message.match_fields.add()
            field.id = number
            field.name = key_name(key)
            add_annotations(field, key.annotations)
            add_documentation(field, key.annotations)
            self.messages.typed(field, key.expression.type, key.source)
            if isinstance(types.strip_newtypes(key.expression.type), types.Enum):
                field.ClearField("type_name")
            if key.match_kind in _MATCH_TYPES:
                field.match_type = _MATCH_TYPES[key.match_kind]
            else:
                field.other_match_type = key.match_kind

    def _table_properties(self, item: TableItem, message: Any) -> None:
        implementation = property_object(item, "implementation")
        if implementation is not None:
            message.implementation_id = self.messages.symbols.id(
                ids.ACTION_PROFILE, profile_of(implementation)[0]
            )
            if implementation.declaration is None:
                found = item.table.property("implementation")
                assert found is not None
                self.extern_objects.profile(implementation, found.annotations)
        for name, kind in (("counters", ids.DIRECT_COUNTER), ("meters", ids.DIRECT_METER)):
            direct = property_object(item, name)
            if direct is None:
                continue
            message.direct_resource_ids.append(self.messages.symbols.id(kind, direct.name))
            self.extern_objects.direct(direct, kind, item)
        timeout = item.table.property("support_timeout")
        if timeout is not None and evaluate(timeout.value, item.owner.environment):
            message.idle_timeout_behavior = p4i.Table.NOTIFY_CONTROL

    # -- the rest

    def _value_set(self, name: str, value_set: syntax.ValueSet) -> None:
        message = self.messages.info.value_sets.add()
        self.messages.preamble(message, ids.VALUE_SET, name, value_set.annotations)
        number = evaluate_number(value_set.size, Environment())
        message.size = checked_size(number, value_set.size.source)
        of = value_set.type.element if isinstance(value_set.type, types.Set) else value_set.type
        plain = types.strip_newtypes(of)
        if isinstance(plain, types.Struct):
            fields = plain.declaration.fields
            for f, number in zip(fields, field_ids(fields), strict=True):
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
        message = self.messages.info.controller_packet_metadata.add()
        annotation = header.annotation("controller_header")
        assert annotation is not None
        if not annotation.values or not isinstance(annotation.values[0], str):
            raise P4Error(
                "@controller_header takes a name", annotation.source, '"packet_in" or "packet_out"'
            )
        name = annotation.values[0]
        preamble = message.preamble
        preamble.id = self.messages.symbols.id(ids.CONTROLLER_HEADER, control_plane_name(header))
        preamble.name = preamble.alias = name
        add_annotations(preamble, header.annotations)
        add_documentation(preamble, header.annotations)
        fields = list(flat_fields(types.Header(header)))
        numbers = numbered([written_id(written) for *_, written in fields])
        for (field_name, of, written), number in zip(fields, numbers, strict=True):
            if any(a.name == "hidden" for a in written):
                continue
            metadata = message.metadata.add()
            metadata.id = number
            metadata.name = field_name
            add_annotations(metadata, written)
            self.messages.typed(metadata, of, header.source)

    def _add_digests(self) -> None:
        for name, of in self._digests:
            message = self.messages.info.digests.add()
            self.messages.preamble(message, ids.DIGEST, name, [])
            message.type_spec.CopyFrom(self.messages.types.spec(of))

    def _package(self) -> None:
        main, message = self._architecture.main, self.messages.info.pkg_info
        message.arch = self._architecture.name
        info = main.annotation("pkginfo")
        if info is not None:
            for key, value in annotation_pairs(info):
                if key in ("name", "version", "organization", "contact", "url", "arch"):
                    setattr(message, key, str(value))
        properties = main.annotation("platform_property")
        if properties is not None:
            for key, value in annotation_pairs(properties):
                setattr(message.platform_properties, key, value)
        others = [a for a in main.annotations if a.name not in ("pkginfo", "platform_property")]
        add_annotations(message, others)
        add_documentation(message, main.annotations)


def _name_of(item: ExternObject) -> str:
    return profile_of(item)[0] if item.kind == "action_selector" else item.name
