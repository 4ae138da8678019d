"""Tables: keys, actions, entries and other properties (spec section 14.2)."""

from __future__ import annotations

from minip4.compiler import syntax, types
from minip4.compiler.check.arguments import written_order
from minip4.compiler.check.context import Context, describe, is_numeric, typed
from minip4.compiler.errors import P4Error, did_you_mean
from minip4.compiler.types import Type

# properties of v1model whose values are extern objects
OBJECTS = ("implementation", "counters", "meters")
PROPERTIES = (*OBJECTS, "size", "support_timeout", "largest_priority_wins", "priority_delta")


class Tables:
    def __init__(self, context: Context) -> None:
        self.context = context

    def table(self, d: syntax.Table) -> None:
        self.context.type_names.annotations(d.annotations)
        for key in d.keys:
            self.key(key)
        self.action_list(d)
        if d.default_action is not None:
            self.default_action(d, d.default_action)
        for p in d.properties:
            self.table_property(p)
        for entry in d.entries or []:
            self.entry(d, entry)
        self.entries_together(d)
        self.context.declare(d)

    def key(self, key: syntax.KeyElement) -> None:
        self.context.type_names.annotations(key.annotations)
        key.expression = self.context.conversions.value(key.expression)
        of = types.strip_newtypes(key.expression.type)
        if key.match_kind not in self.context.match_kinds:
            hint = did_you_mean(key.match_kind, self.context.match_kinds)
            message = f"{key.match_kind!r} is not a match kind{hint}"
            raise P4Error(message, key.source, ", ".join(self.context.match_kinds))
        if of is types.INTEGER:
            raise P4Error("a key without a width", key.expression.source, "e.g. 8w1")
        if not is_selectable(of) and not isinstance(of, types.Varbit):
            message = f"a key cannot have type {describe(of)}"
            raise P4Error(message, key.expression.source, "bit<N>, int<N>, bool, enum or error")
        needs_number = key.match_kind in ("lpm", "range")
        if needs_number and not isinstance(of, (types.Bits, types.SerializableEnum)):
            message = f"a key of kind {key.match_kind} has type {describe(of)}"
            raise P4Error(message, key.expression.source, "bit<N> or int<N>")
        if key.expression.constant is not None:
            self.context.warn("mismatch", "this key is constant", key.expression.source)
        if key.annotation("name") is None and not _has_name(key.expression):
            raise P4Error(
                "this key has no name for the control plane",
                key.expression.source,
                'a field, or @name("...") after the match kind',
            )

    # ------------------------------------------------------------ actions

    def action_list(self, d: syntax.Table) -> None:
        seen: dict[str, syntax.ActionReference] = {}
        for reference in d.actions:
            self.context.type_names.annotations(reference.annotations)
            if reference.name in seen:
                message = f"action {reference.name!r} is listed twice"
                raise P4Error(message, reference.source, "once")
            seen[reference.name] = reference
            action = self.resolve_action(reference)
            self.action_arguments(reference, action, in_list=True)

    def resolve_action(self, reference: syntax.ActionReference) -> syntax.Action:
        found = self.context.lookup(reference.name, reference.is_absolute, reference.source)
        if not isinstance(found, syntax.Action):
            raise P4Error(f"{reference.name!r} is not an action", reference.source, "an action")
        reference.action = found
        self.context.is_deprecated(found, reference.source)
        return found

    def action_arguments(
        self, reference: syntax.ActionReference, action: syntax.Action, *, in_list: bool
    ) -> None:
        """Check the arguments of an action (14.2).

        In the action list, only parameters with a direction have arguments. Elsewhere, all
        parameters have arguments.
        """
        written = reference.written_arguments or []
        data = [p for p in action.parameters if p.direction == ""]
        wanted = [p for p in action.parameters if p.direction] if in_list else action.parameters
        if in_list and len(written) > len(wanted) and data:
            raise P4Error(
                f"{data[0].name!r} of {action.name!r} is set by the control plane",
                reference.source,
                "arguments only for in, out and inout parameters",
            )
        given = self.context.arguments.in_parameter_order(written, wanted, action.name, reference)
        names = [p.name for p in action.parameters]
        reference.order = [names.index(wanted[i].name) for i in written_order(written, given)]
        by_name = dict(zip([p.name for p in wanted], given, strict=True))
        call = syntax.Call(reference.source, syntax.Name(reference.source, action.name), [], [])
        call.kind = syntax.CallKind.ACTION
        reference.arguments = []
        for p in action.parameters:
            a = by_name.get(p.name)
            value = None if a is None else self.context.expressions.expression(a.value)
            reference.arguments.append(self.context.arguments.argument(call, p, p.type, value))

    def listed_action(
        self, d: syntax.Table, reference: syntax.ActionReference
    ) -> syntax.ActionReference:
        action = self.resolve_action(reference)
        listed = next((a for a in d.actions if a.action is action), None)
        if listed is None:
            known = ", ".join(a.name for a in d.actions)
            message = f"{reference.name!r} is not in the actions of table {d.name!r}"
            raise P4Error(message, reference.source, known)
        return listed

    def action_with_data(self, d: syntax.Table, reference: syntax.ActionReference) -> None:
        """Check an action and its data, as written in default_action or in an entry."""
        self.context.type_names.annotations(reference.annotations)
        listed = self.listed_action(d, reference)
        action = listed.action
        assert action is not None
        directed = [p for p in action.parameters if p.direction]
        data = [p for p in action.parameters if not p.direction]
        written = reference.written_arguments or []
        if directed and len(written) == len(data) and not any(a.name for a in written):
            # Arguments given in the list of actions need not be repeated.
            self.data_arguments(reference, listed, action)
        else:
            self.action_arguments(reference, action, in_list=False)
            self.same_bound_arguments(reference, listed, action)
        for p, a in zip(action.parameters, reference.arguments, strict=True):
            if (
                p.direction == ""
                and a is not None
                and not self.context.arguments.is_compile_time(a)
            ):
                raise P4Error(
                    f"argument {p.name!r} must be known at compile time", a.source, "a constant"
                )

    def same_bound_arguments(
        self,
        reference: syntax.ActionReference,
        listed: syntax.ActionReference,
        action: syntax.Action,
    ) -> None:
        for p, a, bound in zip(
            action.parameters, reference.arguments, listed.arguments, strict=True
        ):
            if p.direction and a is not None and bound is not None and not _is_same(a, bound):
                message = f"argument {p.name!r} differs from the one in the list of actions"
                raise P4Error(message, a.source, bound.source.text)

    def data_arguments(
        self,
        reference: syntax.ActionReference,
        listed: syntax.ActionReference,
        action: syntax.Action,
    ) -> None:
        written = iter(reference.written_arguments or [])
        reference.arguments = [
            bound
            if p.direction
            else self.context.conversions.converted(next(written).value, p.type, "the argument")
            for p, bound in zip(action.parameters, listed.arguments, strict=True)
        ]

    def default_action(self, d: syntax.Table, reference: syntax.ActionReference) -> None:
        listed = self.listed_action(d, reference)
        if listed.annotation("tableonly") is not None:
            message = f"{reference.name!r} is @tableonly and cannot be the default action"
            raise P4Error(message, reference.source)
        self.action_with_data(d, reference)

    # ------------------------------------------------------------ entries (14.2.1.4)

    def entry(self, d: syntax.Table, entry: syntax.Entry) -> None:
        self.context.type_names.annotations(entry.annotations)
        if not d.keys:
            raise P4Error(f"table {d.name!r} has entries but no key", entry.source, "key = {...}")
        if entry.priority is not None:
            entry.priority = self.context.expressions.expression(entry.priority)
            self.context.type_names.constant_integer(entry.priority, "a priority")
        keys = entry.keys
        if len(keys) == 1 and isinstance(keys[0], syntax.ListExpression):
            keys = keys[0].elements
        if len(keys) == 1 and isinstance(keys[0], syntax.DontCare) and len(d.keys) > 1:
            keys = [syntax.DontCare(keys[0].source, "_") for _ in d.keys]
        if len(keys) != len(d.keys):
            message = f"this entry has {len(keys)} key(s)"
            raise P4Error(message, entry.keys[0].source, f"{len(d.keys)}")
        entry.keys = [self.entry_key(k, key) for k, key in zip(keys, d.keys, strict=True)]
        listed = self.listed_action(d, entry.action)
        if listed.annotation("defaultonly") is not None:
            message = f"{entry.action.name!r} is @defaultonly and cannot be in an entry"
            raise P4Error(message, entry.action.source)
        self.action_with_data(d, entry.action)

    def entries_together(self, d: syntax.Table) -> None:
        """Check that the entries of a table have unique keys, and priorities where necessary."""
        entries = d.entries or []
        kinds = {key.match_kind for key in d.keys}
        prioritized = [e for e in entries if e.priority is not None]
        if prioritized and not kinds & {"ternary", "range", "optional"}:
            priority = prioritized[0].priority
            assert priority is not None
            raise P4Error("a priority, but no key is ternary, range or optional", priority.source)
        if prioritized and entries[0].priority is None:
            message = "the first entry has no priority, but a later one has"
            raise P4Error(message, entries[0].source, "priority=1: ...")
        if kinds == {"exact"}:
            seen: dict[tuple[object, ...], syntax.Entry] = {}
            for e in entries:
                values = tuple(k.constant for k in e.keys)
                if values in seen:
                    first = seen[values].source
                    raise P4Error(f"duplicate entry with this key; first at {first}", e.source)
                seen[values] = e

    def entry_key(self, e: syntax.Expression, key: syntax.KeyElement) -> syntax.Expression:
        result = self.keyset(e, key.expression.type)
        kind = key.match_kind
        if isinstance(result, syntax.Mask) and kind not in ("ternary", "lpm"):
            raise P4Error(f"a mask for a key of kind {kind}", e.source, "a value")
        if isinstance(result, syntax.Range) and kind != "range":
            raise P4Error(f"a range for a key of kind {kind}", e.source, "a value")
        if isinstance(result, syntax.DontCare) and kind == "exact":
            raise P4Error("`_` for a key of kind exact", e.source, "a value")
        if isinstance(result, syntax.Mask):
            self.value_within_mask(result)
        if isinstance(result, syntax.Mask) and kind == "lpm":
            self.check_prefix(result, key.expression.type)
        parts = (
            [result.value, result.mask]
            if isinstance(result, syntax.Mask)
            else [result.low, result.high]
            if isinstance(result, syntax.Range)
            else []
            if isinstance(result, syntax.DontCare)
            else [result]
        )
        for part in parts:
            if not self.context.arguments.is_compile_time(part):
                raise P4Error("a key of an entry is not constant", part.source, "a constant")
        return result

    def value_within_mask(self, e: syntax.Mask) -> None:
        value, mask = e.value.constant, e.mask.constant
        if isinstance(value, int) and isinstance(mask, int) and value & ~mask:
            message = f"{value:#x} has bits outside of its mask {mask:#x}, which have no effect"
            self.context.warn("mismatch", message, e.source)

    def check_prefix(self, e: syntax.Mask, of: Type) -> None:
        """Check that the mask of an lpm key is ones followed by zeros."""
        mask, width = e.mask.constant, types.width_in_bits(of)
        if isinstance(mask, int) and width is not None:
            inverted = ~mask & ((1 << width) - 1)
            if inverted & (inverted + 1):
                raise P4Error(f"mask {mask:#x} is not a prefix", e.mask.source, "ones, then zeros")

    # ------------------------------------------------------------ keysets (8.14), also of selects

    def keyset(self, e: syntax.Expression, of: Type) -> syntax.Expression:
        """Check and convert a keyset that matches values of type `of`."""
        if isinstance(e, syntax.DontCare):
            return typed(e, types.Set(of))
        if isinstance(e, syntax.Mask):
            plain = self.keyset_type(e, of)
            e.value = self.context.conversions.converted(e.value, plain, "the value of a mask")
            e.mask = self.context.conversions.converted(e.mask, plain, "the mask")
            return typed(e, types.Set(of))
        if isinstance(e, syntax.Range):
            plain = self.keyset_type(e, of)
            e.low = self.context.conversions.converted(e.low, plain, "the lower end of a range")
            e.high = self.context.conversions.converted(e.high, plain, "the upper end of a range")
            low, high = e.low.constant, e.high.constant
            if isinstance(low, int) and isinstance(high, int) and low > high:
                self.context.warn(
                    "invalid", f"range {low} .. {high} is empty and never matches", e.source
                )
            return typed(e, types.Set(of))
        e = self.context.conversions.value(e)
        if isinstance(e.type, types.Set):
            if e.type.element != of and not _is_struct_of(e.type.element, of):
                raise P4Error(f"a value_set of {e.type.element}", e.source, describe(of))
            return e
        if isinstance(of, types.SerializableEnum) and e.type in (of.underlying, types.INTEGER):
            return self.context.conversions.convert(e, of.underlying, "the value of a case")
        return self.context.conversions.convert(
            e, types.strip_newtypes(of) if e.type != of else of, "the value"
        )

    def keyset_type(self, e: syntax.Mask | syntax.Range, of: Type) -> Type:
        plain = types.strip_newtypes(of)
        if isinstance(plain, types.SerializableEnum):
            plain = plain.underlying
        if not is_numeric(plain) and not (plain is types.BOOL and isinstance(e, syntax.Mask)):
            raise P4Error(f"a mask or range for {describe(of)}", e.source, "a value")
        return plain

    # ------------------------------------------------------------ other properties

    def table_property(self, p: syntax.TableProperty) -> None:
        self.context.type_names.annotations(p.annotations)
        p.value = self.context.expressions.expression(p.value)
        is_tna = bool(self.context.lookup_all("DirectRegister"))
        if is_tna and p.name == "idle_timeout":
            p.name = "support_timeout"
        if p.name == "size":
            if not is_numeric(p.value.type) or not self.context.arguments.is_compile_time(p.value):
                what = "the size of a table must be known at compile time"
                raise P4Error(what, p.value.source, "an integer")
            if isinstance(p.value.constant, int) and p.value.constant < 0:
                raise P4Error(f"a table of size {p.value.constant}", p.value.source, "0 or more")
        elif p.name == "support_timeout":
            p.value = self.context.conversions.convert(p.value, types.BOOL, "support_timeout")
        elif p.name == "largest_priority_wins":
            p.value = self.context.conversions.convert(p.value, types.BOOL, p.name)
        elif p.name == "priority_delta":
            if self.context.type_names.constant_integer(p.value, p.name) <= 0:
                raise P4Error("priority_delta is not positive", p.value.source, "1 or more")
        elif p.name not in OBJECTS and not (is_tna and p.name in ("registers", "filters")):
            # properties of other architectures are not an error (14.2.1.6)
            hint = did_you_mean(p.name, PROPERTIES)
            message = f"table property {p.name!r} is unknown and ignored{hint}"
            self.context.warn("ignore-prop", message, p.source)


def is_selectable(of: Type) -> bool:
    """Return whether values of the type can be keys, select expressions or action data."""
    of = types.strip_newtypes(of)
    fits = (types.Bits, types.Enum, types.SerializableEnum, types.Variable)
    return of in (types.BOOL, types.ERROR) or isinstance(of, fits)


def _is_struct_of(struct: Type, of: Type) -> bool:
    """Return whether the struct of a value set has exactly one field, of type `of` (13.11)."""
    return flat_fields(struct) == [of]


def flat_fields(of: Type) -> list[Type]:
    """Return the types of all fields of a struct or tuple, including nested ones."""
    if isinstance(of, types.StructLike):
        return [t for f in of.fields.values() for t in flat_fields(f)]
    if isinstance(of, types.Tuple):
        return [t for e in of.elements for t in flat_fields(e)]
    return [of]


def _has_name(e: syntax.Expression) -> bool:
    """Return whether the text of a key is a valid control-plane name."""
    is_number = isinstance(e.constant, int) and not isinstance(e.constant, bool)
    if isinstance(e, syntax.Name) or is_number:
        return True
    if isinstance(e, syntax.Binary):
        return e.operator == "&" and _has_name(e.left) and _has_name(e.right)
    if isinstance(e, syntax.Call):
        return e.method == "isValid" and e.object is not None and _has_name(e.object)
    if isinstance(e, syntax.Cast):
        return e.target is None and _has_name(e.operand)
    if isinstance(e, syntax.Index):
        return _has_name(e.base) and _has_name(e.index)
    if isinstance(e, (syntax.Member, syntax.Slice)):
        return _has_name(e.base) or isinstance(e.base, syntax.TypeReference)
    return False


def _is_same(a: syntax.Expression, b: syntax.Expression) -> bool:
    """Return whether two expressions have the same text or the same constant value."""
    if a.constant is not None or b.constant is not None:
        return a.constant == b.constant
    return "".join(a.source.text.split()) == "".join(b.source.text.split())
