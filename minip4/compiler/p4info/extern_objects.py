"""Counters, meters, registers and action profiles in P4Info."""

from __future__ import annotations

from typing import Any

from finsy.proto import p4t

from minip4.compiler import syntax
from minip4.compiler.instances.objects import ExternObject, annotation_numbers, profile_of
from minip4.compiler.p4info import symbols as ids
from minip4.compiler.p4info.contents import TableItem, property_object
from minip4.compiler.p4info.messages import Messages, checked_size
from minip4.compiler.p4info.type_info import type_name

_LPF = ("minip4_lpf_t", ["gain_time_constant_ns", "decay_time_constant_ns"])
_WRED = (
    "minip4_wred_t", ["time_constant_ns", "min_threshold", "max_threshold", "max_drop_ppm"],
)  # fmt: skip
SETTINGS = {"Lpf": _LPF, "DirectLpf": _LPF, "Wred": _WRED, "DirectWred": _WRED}
"""Externs of TNA whose settings are a register of structs. Values: struct's name and fields."""

SETTING_BITS = 64

_COUNTER_UNITS = {"bytes": 1, "packets": 2, "packets_and_bytes": 3}
_METER_UNITS = {"bytes": 1, "packets": 2}
_PROFILE_ANNOTATIONS = ("max_group_size", "selector_size_semantics", "max_member_weight")


class ExternObjects:
    def __init__(self, messages: Messages) -> None:
        self.messages = messages

    def extern_object(self, item: ExternObject) -> None:
        annotations = item.declaration.annotations if item.declaration is not None else []
        self.messages.info.type_info.SetInParent()
        match item.kind:
            case "counter":
                message = self.messages.info.counters.add()
                self.messages.preamble(message, ids.COUNTER, item.name, annotations)
                message.spec.unit = _unit(item, 1, _COUNTER_UNITS)
                message.size = _number(item, 0)
                self._index_type(item, 0, message)
            case "meter":
                message = self.messages.info.meters.add()
                self.messages.preamble(message, ids.METER, item.name, annotations)
                message.spec.unit = _unit(item, 1, _METER_UNITS)
                message.size = _number(item, 0)
                self._index_type(item, 0, message)
            case "register":
                of = item.type.arguments[0]
                self._register(item, annotations, self.messages.types.spec(of), _number(item, 0))
            case kind if kind in SETTINGS:
                spec = self.messages.types.struct_of_numbers(*SETTINGS[kind], SETTING_BITS)
                size = 1 if kind.startswith("Direct") else _number(item, 0)
                self._register(item, annotations, spec, size)
            case "action_profile" | "action_selector":
                if item.name not in self._profiles_of_selectors():
                    self.profile(item, annotations)

    def _register(
        self,
        item: ExternObject,
        annotations: list[syntax.Annotation],
        cell: p4t.P4DataTypeSpec,
        size: int,
    ) -> None:
        message = self.messages.info.registers.add()
        self.messages.preamble(message, ids.REGISTER, item.name, annotations)
        message.type_spec.CopyFrom(cell)
        message.size = size
        self._index_type(item, 1, message)

    def _profiles_of_selectors(self) -> set[str]:
        """Return the names of action profiles that are arguments of a selector (TNA)."""
        return {
            name
            for item in self.messages.contents.objects
            if isinstance(item, ExternObject) and item.type.name == "ActionSelector"
            if (name := profile_of(item)[0]) != item.name
        }

    def _index_type(self, item: ExternObject, position: int, message: Any) -> None:
        """Set the name of the index type. Only newer versions of v1model have such types."""
        if len(item.type.arguments) > position:
            of = item.type.arguments[position]
            self.messages.types.note(of)
            name = type_name(of)
            if name is not None:
                message.index_type_name.name = name

    def direct(self, item: ExternObject, kind: int, table: TableItem) -> None:
        is_counter = kind == ids.DIRECT_COUNTER
        message = (
            self.messages.info.direct_counters if is_counter else self.messages.info.direct_meters
        ).add()
        annotations = item.declaration.annotations if item.declaration is not None else []
        self.messages.preamble(message, kind, item.name, annotations)
        message.spec.unit = _unit(item, 0, _COUNTER_UNITS if is_counter else _METER_UNITS)
        message.direct_table_id = self.messages.symbols.id(ids.TABLE, table.name)

    def profile(self, item: ExternObject, annotations: list[syntax.Annotation]) -> None:
        message = self.messages.info.action_profiles.add()
        self.messages.preamble(
            message, ids.ACTION_PROFILE, profile_of(item)[0], annotations, _PROFILE_ANNOTATIONS
        )
        if profile_of(item)[0] != item.name:  # P4Info has no selectors
            message.preamble.annotations.append(f'@selector("{item.name}")')
        is_selector = item.kind == "action_selector"
        message.with_selector = is_selector
        _, message.size = profile_of(item)
        values = {a.name: a for a in annotations if a.values}
        if is_selector:
            if "max_group_size" in values:
                message.max_group_size = _annotated_size(values["max_group_size"])
            semantics = ""
            if "selector_size_semantics" in values:
                semantics = str(values["selector_size_semantics"].values[0]).lower()
            if semantics == "sum_of_weights":
                message.sum_of_weights.SetInParent()
            elif semantics == "sum_of_members":
                message.sum_of_members.SetInParent()
                if "max_member_weight" in values:
                    message.sum_of_members.max_member_weight = _annotated_size(
                        values["max_member_weight"]
                    )
        users = sorted(
            other.name
            for other in self.messages.contents.tables
            if (used := property_object(other, "implementation"))
            and profile_of(used)[0] == profile_of(item)[0]
        )
        message.table_ids.extend(self.messages.symbols.id(ids.TABLE, name) for name in users)


def _unit(item: ExternObject, position: int, units: dict[str, int]) -> int:
    member = item.arguments[position]
    assert isinstance(member, syntax.EnumMember)
    return units[member.name.lower()]


def _number(item: ExternObject, position: int) -> int:
    value = item.arguments[position]
    if isinstance(value, syntax.EnumMember):
        return value.number
    assert isinstance(value, int)
    return checked_size(value, item.source)


def _annotated_size(annotation: syntax.Annotation) -> int:
    return checked_size(annotation_numbers(annotation)[0], annotation.source)
