"""Lowers tables (spec 14.2) and the actions they name."""

from __future__ import annotations

from minip4.compiler import syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.lower import arithmetic, ir
from minip4.compiler.lower.assignments import is_compound, read
from minip4.compiler.lower.base import Frame, Shared
from minip4.compiler.lower.names import control_plane_name, key_name, property_name
from minip4.compiler.lower.objects import (
    Environment,
    ExternObject,
    Instance,
    annotation_numbers,
    evaluate,
    evaluate_number,
    instantiate,
)
from minip4.compiler.lower.statements import Statements
from minip4.compiler.lower.storage import scalar_type
from minip4.compiler.types import Bits

DEFAULT_SIZE = 1024
SITE = Bits(8)  # numbers the places where a table is applied
MATCH_KINDS = ("exact", "lpm", "ternary", "range", "optional", "selector")


class Tables(Statements):
    def __init__(self, path: str, shared: Shared) -> None:
        super().__init__(path, shared)
        self._tables: dict[tuple[Instance | None, syntax.Table], ir.Table] = {}
        self._applications: dict[ir.Table, int] = {}
        self._actions: dict[tuple[Instance | None, syntax.Action], ir.Action] = {}
        self._profiles: dict[str, ir.Profile] = {}
        self._pipeline_profiles: list[ir.Profile] = []
        self._selector_inputs: dict[str, list[ir.Expression]] = {}
        self.direct_meters: dict[str, ir.Field] = {}
        self._direct_users: dict[str, syntax.Table] = {}
        self.no_action: syntax.Action | None = None

    def owner(self, declaration: syntax.Declaration) -> Instance | None:
        bound = self.environment.lookup(declaration)
        return bound if isinstance(bound, Instance) else None

    def action_name(self, action: syntax.Action) -> str:
        owner = self.owner(action)
        return control_plane_name(action, owner.name if owner else "")

    def apply_table(self, table: syntax.Table, source: syntax.Source) -> ir.Apply:
        if self.in_action or self.block not in ("ingress", "egress"):
            raise P4Error("a table can be applied in a control only", source)
        key = (self.owner(table), table)
        known = self._tables.get(key)
        if known is None:
            known = self._tables[key] = self._table(table)
        else:
            self._keys(table, known)
            if known.site is None:
                known.site = self.temporary_field(SITE, source)
        site = self._applications.get(known, 0)
        self._applications[known] = site + 1
        if site >= 1 << SITE.width:
            raise P4Error("this table is applied in too many places", source)
        return ir.Apply(source, known, site=site)

    def _table(self, table: syntax.Table) -> ir.Table:
        owner = self.owner(table)
        name = control_plane_name(table, owner.name if owner else "")
        if any(known.name == name for known in self._tables.values()):
            raise P4Error(f"there are two tables called {name}", table.source, "another @name")
        result = ir.Table(name, table.source, [], [], None, [], False, None, self._size(table))
        self._keys(table, result)
        actions: dict[syntax.Action, ir.Action] = {}
        for reference in table.actions:
            assert reference.action is not None
            actions[reference.action] = self._table_action(reference)
        result.actions = list(actions.values())
        self._properties(table, result)
        self._default_action(table, result, actions)
        if table.entries is not None:
            result.entries = self._entries(table, result, actions)
            if result.entries:
                result.size = max(len(result.entries), 1)
        return result

    def _size(self, table: syntax.Table) -> int:
        size = table.property("size")
        if size is None:
            return DEFAULT_SIZE
        value = evaluate(size.value, self.environment)
        if not isinstance(value, int) or value < 0:
            raise P4Error("the size of a table is a number", size.value.source)
        return value or DEFAULT_SIZE

    # -- keys

    def _keys(self, table: syntax.Table, result: ir.Table) -> None:
        """Evaluates the key; expressions that are no field are put into temporaries."""
        is_first = not result.keys and result.profile is None
        fields: list[ir.KeyField] = []
        selectors: list[ir.Expression] = []
        old = iter(result.keys)
        values = self.values([element.expression for element in table.keys])
        for element, value in zip(table.keys, values, strict=True):
            if element.match_kind not in MATCH_KINDS:
                raise P4Error(
                    f"match kind {element.match_kind} is not supported",
                    element.source,
                    " ".join(MATCH_KINDS),
                )
            if is_compound(value):
                raise P4Error("a table key is a number or bool", element.expression.source)
            expression = read(value)
            if element.match_kind == "selector":
                selectors.append(self.simple(expression, element.source))
                continue
            known = next(old, None)
            fields.append(self._key(element, expression, known))
        if is_first:
            result.keys = fields
            if selectors:
                self._use_selector(table, selectors)

    def _key(
        self, element: syntax.KeyElement, expression: ir.Expression, known: ir.KeyField | None
    ) -> ir.KeyField:
        target: ir.Expression = expression
        if not isinstance(expression, ir.Field | ir.IsValid):
            if known is not None and isinstance(known.target, ir.Field):
                target = known.target
            else:
                target = self.temporary_field(expression.type, element.source)
            assert isinstance(target, ir.Field)
            self.emit(ir.Assign(element.source, target, expression))
        elif known is not None and known.target != expression:
            raise P4Error(
                "this table is applied twice, with different storage as key", element.source
            )
        return ir.KeyField(element.match_kind, key_name(element), target, ir.width_of(expression))

    # -- actions

    def _table_action(self, reference: syntax.ActionReference) -> ir.Action:
        action = reference.action
        assert action is not None
        has_arguments = any(a is not None for a in reference.arguments)
        # An exit in it copies out what the controls around it have to: then it is theirs alone.
        has_copies = any(frame.copy_out for frame in self.frames)
        key = (self.instance if has_copies else self.owner(action), action)
        if not has_arguments and key in self._actions:
            return self._actions[key]
        environment = Environment(self.environment)
        frame = Frame(self.new_label())
        result = ir.Action(self.action_name(action), [], [])
        outer, self.in_action = self.in_action, True
        with self.collecting() as body:
            for parameter, argument in zip(
                action.parameters,
                reference.arguments or [None] * len(action.parameters),
                strict=True,
            ):
                self._action_parameter(parameter, argument, environment, frame, result)
            with self.within(environment):
                self.inline(action.body, frame, action.source)
        self.in_action = outer
        result.body = body
        self.program.actions.append(result)
        if not has_arguments:
            self._actions[key] = result
        return result

    def _action_parameter(
        self,
        parameter: syntax.Parameter,
        argument: syntax.Expression | None,
        environment: Environment,
        frame: Frame,
        result: ir.Action,
    ) -> None:
        of = self.environment.resolve(parameter.type)
        if parameter.direction == "" or argument is None:
            scalar = scalar_type(of)
            if scalar is None:
                raise P4Error(
                    f"an action parameter cannot have type {of}",
                    parameter.source,
                    "a number, bool or enum",
                )
            width = scalar.width if isinstance(scalar, Bits) else 1
            # Entries hold plain bits: a signed parameter is converted where it is used.
            plain = Bits(width) if isinstance(scalar, Bits) else scalar
            data = ir.ActionData(plain, len(result.parameters))
            environment.bindings[parameter] = arithmetic.cast(data, scalar)
            result.parameters.append((control_plane_name(parameter), width))
            return
        local = self.temporary(of, argument.source, parameter.name)
        if parameter.direction == "in":
            self.assign(local, self.value(argument), argument.source)
        else:
            place = self.place(argument)
            if parameter.direction == "inout":
                self.assign(local, place, argument.source)
            frame.copy_out.append(lambda: self.assign(place, local, argument.source))
        environment.bindings[parameter] = local

    def _default_action(
        self, table: syntax.Table, result: ir.Table, actions: dict[syntax.Action, ir.Action]
    ) -> None:
        reference = table.default_action
        if reference is None:
            no_action = next((a for a in actions if a.name == "NoAction"), self.no_action)
            assert no_action is not None
            if no_action not in actions:
                implicit = syntax.ActionReference(table.source, [], "NoAction", True, None)
                implicit.action = no_action
                actions[no_action] = self._table_action(implicit)
                result.actions.append(actions[no_action])
            result.default_action = actions[no_action]
            return
        assert reference.action is not None
        if reference.action not in actions:
            raise P4Error("the default action is not in the list of actions", reference.source)
        result.default_action = actions[reference.action]
        result.default_arguments = self._data(reference)
        result.is_default_const = table.is_default_action_const

    def _data(self, reference: syntax.ActionReference) -> list[int]:
        """Arguments for the directionless parameters, as numbers."""
        assert reference.action is not None
        numbers = []
        for parameter, argument in zip(
            reference.action.parameters, reference.arguments, strict=True
        ):
            if parameter.direction == "" and argument is not None:
                width = types.width_in_bits(self.environment.resolve(parameter.type)) or 32
                numbers.append(self.number(argument) & ((1 << width) - 1))
        return numbers

    def number(self, expression: syntax.Expression) -> int:
        value = read(
            self.constant_value(
                evaluate(expression, self.environment), expression.type, expression.source
            )
        )
        assert isinstance(value, ir.Constant)
        return value.value

    # -- entries (14.2.1.4)

    def _entries(
        self, table: syntax.Table, result: ir.Table, actions: dict[syntax.Action, ir.Action]
    ) -> list[ir.Entry]:
        elements = [k for k in table.keys if k.match_kind != "selector"]
        entries = []
        priority = _Priorities(table, self.environment)
        for entry in table.entries or []:
            keys = [
                self._match(element, field, keyset)
                for element, field, keyset in zip(elements, result.keys, entry.keys, strict=True)
            ]
            assert entry.action.action is not None
            action = actions[entry.action.action]
            data = self._data(entry.action)
            number = priority.of(entry)
            entries.append(ir.Entry(entry.source, keys, action, data, number))
        return entries

    def _match(
        self, element: syntax.KeyElement, field: ir.KeyField, keyset: syntax.Expression
    ) -> ir.KeyMatch:
        width, kind = field.width_bits, element.match_kind
        ones = (1 << width) - 1
        value, mask, is_range = self._keyset(keyset, ones)
        if kind == "range":
            if mask not in (0, ones) and not is_range:
                raise P4Error("a range key takes a range or a value", keyset.source)
            low, high = (value, mask) if is_range else (value, value) if mask else (0, ones)
            return ir.KeyMatch("range", low, high)
        if is_range:
            raise P4Error(f"a range cannot match a key of kind {kind}", keyset.source)
        if kind == "exact":
            if mask != ones:
                raise P4Error("an exact key takes a value", keyset.source)
            return ir.KeyMatch("exact", value, mask)
        if kind == "lpm":
            length = mask.bit_count()
            if mask != ones & ~((1 << (width - length)) - 1):
                raise P4Error("the mask of an lpm key must be a prefix", keyset.source)
            return ir.KeyMatch("lpm", value & mask, length)
        if kind == "optional" and mask not in (0, ones):
            raise P4Error("an optional key takes a value or _", keyset.source)
        return ir.KeyMatch("ternary", value & mask, mask)

    def _keyset(self, keyset: syntax.Expression, ones: int) -> tuple[int, int, bool]:
        """(value, mask, False), or (low, high, True) of a range."""
        if isinstance(keyset, syntax.DontCare):
            return 0, 0, False
        if isinstance(keyset, syntax.Mask):
            return self.number(keyset.value) & ones, self.number(keyset.mask) & ones, False
        if isinstance(keyset, syntax.Range):
            return self.number(keyset.low) & ones, self.number(keyset.high) & ones, True
        return self.number(keyset) & ones, ones, False

    # -- properties

    def _properties(self, table: syntax.Table, result: ir.Table) -> None:
        known = (
            "size",
            "implementation",
            "counters",
            "meters",
            "support_timeout",
            "largest_priority_wins",
            "priority_delta",
        )
        for item in table.properties:
            if item.name not in known:
                raise P4Error(
                    f"table property {item.name} is not supported", item.source, " ".join(known)
                )
        timeout = table.property("support_timeout")
        if timeout is not None:
            result.support_timeout = bool(evaluate(timeout.value, self.environment))
        counters = table.property("counters")
        if counters is not None:
            counter = self._direct(table, counters, "direct_counter")
            result.counter = counter.name
            self.program.counters.append(
                ir.Counter(counter.name, counter.source, None, result.name)
            )
        meters = table.property("meters")
        if meters is not None:
            self._direct_meter(table, meters, result)
        implementation = table.property("implementation")
        if implementation is not None:
            profile = self._property_object(table, implementation)
            result.profile = profile.name
            result.selector = profile.type.name == "action_selector"
            self._profile(profile, implementation)

    def _property_object(self, table: syntax.Table, item: syntax.TableProperty) -> ExternObject:
        value = item.value
        bound: object = None
        if isinstance(value, syntax.Call):
            owner = self.owner(table)
            table_name = control_plane_name(table, owner.name if owner else "")
            bound = instantiate(value, property_name(item, table_name), self.environment)
        elif isinstance(value, syntax.Name) and value.declaration is not None:
            bound = self.environment.lookup(value.declaration)
        if not isinstance(bound, ExternObject):
            raise P4Error(f"{item.name} is an extern object", value.source)
        return bound

    def _direct(self, table: syntax.Table, item: syntax.TableProperty, kind: str) -> ExternObject:
        found = self._property_object(table, item)
        if found.type.name != kind:
            raise P4Error(f"this is a {found.type.name}", item.value.source, f"a {kind}")
        other = self._direct_users.setdefault(found.name, table)
        if other is not table:
            raise P4Error(
                f"{found.name} belongs to table {other.name} already",
                item.value.source,
                f"one {kind} for each table",
            )
        return found

    def _direct_meter(
        self, table: syntax.Table, item: syntax.TableProperty, result: ir.Table
    ) -> None:
        meter = self._direct(table, item, "direct_meter")
        target = self.direct_meters.get(meter.name)
        if target is None:
            raise P4Error(f"no action of the table reads {meter.name}", item.value.source)
        result.meter = meter.name
        unit = meter.arguments[0]
        assert isinstance(unit, syntax.EnumMember)
        self.program.meters.append(
            ir.Meter(meter.name, meter.source, unit.name, result.size, result.name, target)
        )

    def _profile(self, found: ExternObject, item: syntax.TableProperty) -> None:
        if found.type.name not in ("action_profile", "action_selector"):
            raise P4Error(
                f"this is a {found.type.name}",
                item.value.source,
                "an action_profile or action_selector",
            )
        if found.name in self._profiles:
            return
        is_selector = found.type.name == "action_selector"
        size = found.arguments[1 if is_selector else 0]
        assert isinstance(size, int)
        algorithm = None
        if is_selector:
            assert isinstance(found.arguments[0], syntax.EnumMember)
            algorithm = found.arguments[0].name
        inputs = self._selector_inputs.get(found.name, [])
        profile = ir.Profile(found.name, found.source, size, algorithm, inputs)
        self._profiles[found.name] = profile
        self._pipeline_profiles.append(profile)

    def _use_selector(self, table: syntax.Table, inputs: list[ir.Expression]) -> None:
        item = table.property("implementation")
        if item is None:
            return  # nothing selects: the key has no meaning
        found = self._property_object(table, item)
        known = self._selector_inputs.setdefault(found.name, inputs)
        if known != inputs:
            raise P4Error(
                f"tables that share {found.name} have different selector keys", table.source
            )


class _Priorities:
    """Priorities of entries as BMv2 has them (smaller wins), from P4's (14.2.1.4)."""

    def __init__(self, table: syntax.Table, environment: Environment) -> None:
        self._environment = environment
        largest = table.property("largest_priority_wins")
        self._largest_wins = largest is None or bool(evaluate(largest.value, environment))
        delta = table.property("priority_delta")
        self._delta = 1 if delta is None else evaluate_number(delta.value, environment)
        entries = table.entries or []
        self._given = [self._written(e) for e in entries]
        self._next: list[int] = self._number_all(entries)
        self._used = 0

    def _written(self, entry: syntax.Entry) -> int | None:
        if entry.priority is not None:
            return evaluate_number(entry.priority, self._environment)
        annotation = next((a for a in entry.annotations if a.name == "priority"), None)
        if annotation is not None and annotation.values:
            return annotation_numbers(annotation)[0]
        return None

    def _number_all(self, entries: list[syntax.Entry]) -> list[int]:
        if not any(e.priority is not None for e in entries):
            return [i + 1 if g is None else g for i, g in enumerate(self._given)]
        numbers: list[int] = []
        step = -self._delta if self._largest_wins else self._delta
        for given in self._given:
            if given is not None:
                numbers.append(given)
            elif numbers:
                numbers.append(numbers[-1] + step)
            else:
                count = len(entries)
                numbers.append((count - 1) * self._delta + 1 if self._largest_wins else 1)
        if not self._largest_wins:
            return numbers
        top = max(numbers)
        return [top - n + 1 for n in numbers]

    def of(self, entry: syntax.Entry) -> int:
        number = self._next[self._used]
        self._used += 1
        return number
