"""Lowering of table properties: direct counters and meters, action profiles and selectors."""

from __future__ import annotations

from minip4.compiler import ir, syntax
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.names import control_plane_name, property_name
from minip4.compiler.instances.objects import (
    PLAIN_IMPLEMENTATIONS,
    ExternObject,
    evaluate,
    instantiate,
    profile_of,
)
from minip4.compiler.lower.context import Context


class TableProperties:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.profiles: list[ir.Profile] = []  # profiles of the pipeline that is being lowered
        self._profiles: dict[str, ir.Profile] = {}
        self._selector_inputs: dict[str, list[ir.Expression]] = {}
        self._direct_users: dict[str, syntax.Table] = {}
        # direct registers (TNA): their tables, and uses outside of actions
        self.register_tables: dict[str, str] = {}
        self.single_cells: dict[str, syntax.Source] = {}
        # for each direct meter, the first field into which the program reads it
        self._reads: dict[str, tuple[ir.Field, syntax.Source]] = {}

    def read_by(self, meter: str, result: ir.Field, source: syntax.Source) -> ir.Field:
        """Record the field that a direct meter writes, and return the first recorded one."""
        return self._reads.setdefault(meter, (result, source))[0]

    def lower(self, table: syntax.Table, result: ir.Table) -> None:
        timeout = table.property("support_timeout")
        if timeout is not None:
            result.support_timeout = bool(evaluate(timeout.value, self.context.environment))
        counters = table.property("counters")
        if counters is not None:
            counter = self._direct(table, counters, "direct_counter")
            result.counter = counter.name
            self.context.program.counters.append(
                ir.Counter(counter.name, counter.source, None, result.name)
            )
        meters = table.property("meters")
        if meters is not None:
            self._direct_meter(table, meters, result)
        implementation = table.property("implementation")
        profile = implementation and self._property_object(table, implementation)
        if implementation and profile and profile.kind not in PLAIN_IMPLEMENTATIONS:
            result.profile, _ = profile_of(profile)
            result.selector = profile.kind == "action_selector"
            self._profile(profile, implementation)

    def _property_object(self, table: syntax.Table, item: syntax.TableProperty) -> ExternObject:
        value = item.value
        bound: object = None
        if isinstance(value, syntax.Call):
            owner = self.context.environment.owner(table)
            table_name = control_plane_name(table, owner.name if owner else "")
            bound = instantiate(value, property_name(item, table_name), self.context.environment)
        elif isinstance(value, syntax.Name) and value.declaration is not None:
            bound = self.context.environment.lookup(value.declaration)
        if not isinstance(bound, ExternObject):
            raise P4Error(f"{item.name} is an extern object", value.source)
        return bound

    def _direct(self, table: syntax.Table, item: syntax.TableProperty, kind: str) -> ExternObject:
        found = self._property_object(table, item)
        if found.kind != kind:
            raise P4Error(f"this is a {found.kind}", item.value.source, f"a {kind}")
        other = self._direct_users.setdefault(found.name, table)
        if other is not table:
            raise P4Error(
                f"{found.name} belongs to table {other.name} already",
                item.value.source,
                f"one {kind} for each table",
            )
        return found

    def check_direct_uses(self) -> None:
        """Reject the use of a direct meter outside of its table."""
        for name, (_, source) in self._reads.items():
            if not self.is_direct_used(name):
                raise P4Error(
                    f"{name} belongs to no table that is applied",
                    source,
                    "meters = ... in the table",
                )

    def is_direct_used(self, name: str) -> bool:
        """Return whether some applied table has this direct counter or meter."""
        return name in self._direct_users

    def _direct_meter(
        self, table: syntax.Table, item: syntax.TableProperty, result: ir.Table
    ) -> None:
        meter = self._direct(table, item, "direct_meter")
        target = None
        if meter.type.name == "direct_meter":  # of v1model, which writes to a field
            if meter.name not in self._reads:
                raise P4Error(f"no action of the table reads {meter.name}", item.value.source)
            target, _ = self._reads[meter.name]
        result.meter = meter.name
        unit = meter.arguments[0]
        assert isinstance(unit, syntax.EnumMember)
        self.context.program.meters.append(
            ir.Meter(meter.name, meter.source, unit.name.lower(), result.size, result.name, target)
        )

    def _profile(self, found: ExternObject, item: syntax.TableProperty) -> None:
        if found.kind not in ("action_profile", "action_selector"):
            raise P4Error(
                f"this is a {found.kind}",
                item.value.source,
                "an action_profile or action_selector",
            )
        name, size = profile_of(found)
        if name in self._profiles:
            return
        algorithm = None
        if found.kind == "action_selector":
            algorithm = self.context.externs.selector_algorithm(found)
        inputs = self._selector_inputs.get(name, [])
        profile = ir.Profile(name, found.source, size, algorithm, inputs)
        self._profiles[name] = profile
        self.profiles.append(profile)

    def use_selector(self, table: syntax.Table, inputs: list[ir.Expression]) -> None:
        item = table.property("implementation")
        if item is None:
            return  # no selector, so the selector key has no meaning
        found = self._property_object(table, item)
        known = self._selector_inputs.setdefault(profile_of(found)[0], inputs)
        if known != inputs:
            raise P4Error(
                f"tables that share {found.name} have different selector keys", table.source
            )
