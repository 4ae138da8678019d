"""Lowers calls of v1model's extern functions and methods to BMv2's primitives."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from minip4.compiler import syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import ExternObject, evaluate
from minip4.compiler.lower import arithmetic, ir, places
from minip4.compiler.lower.arguments import Argument
from minip4.compiler.lower.assignments import is_compound, read
from minip4.compiler.lower.expressions import has_effects, read_scalar
from minip4.compiler.lower.tables import Tables
from minip4.compiler.types import BOOL, Bits

DROP_PORT = 511  # simple_switch drops what has this egress_spec
_REGISTER_LIKE = {
    "counter": "counter_array",
    "meter": "meter_array",
    "register": "register_array",
}
_CHECKSUMS = (
    "verify_checksum",
    "update_checksum",
    "verify_checksum_with_payload",
    "update_checksum_with_payload",
)


class Externs(Tables):
    standard_metadata: places.Place

    def extern_function(self, call: syntax.Call) -> places.Value | None:
        assert call.declaration is not None
        name = call.declaration.name
        handlers: dict[str, Callable[[syntax.Call], None]] = {
            "mark_to_drop": self._mark_to_drop,
            "random": self._random,
            "hash": self._hash,
            "digest": self._digest,
            "truncate": self._truncate,
            "assert": self._assert,
            "assume": self._assert,
            "log_msg": self._log_msg,
            "verify": self._verify,
            "clone": self._clone,
            "clone_preserving_field_list": self._clone,
            "resubmit_preserving_field_list": self._send_again,
            "recirculate_preserving_field_list": self._send_again,
        }
        if name in _CHECKSUMS:
            self._checksum(call, name)
        elif name == "static_assert":
            self._static_assert(call)
        elif name in handlers:
            handlers[name](call)
        else:
            raise P4Error(f"extern function {name}() is not supported", call.source)
        return None

    def extern_method(self, call: syntax.Call) -> places.Value | None:
        assert call.object is not None
        target = self.object_of(call.object)
        assert isinstance(target, ExternObject)
        kind, method = target.type.name, call.method
        if kind == "packet_in":
            return self.packet_in(call)
        if kind == "packet_out" and method == "emit":
            self.emit_header(call)
            return None
        if kind == "direct_counter" and method == "count":
            return None  # BMv2 counts each lookup of the table by itself
        if kind == "direct_meter" and method == "read":
            self._read_direct_meter(call, target)
            return None
        if kind in _REGISTER_LIKE:
            self._array_method(call, target)
            return None
        raise P4Error(f"{kind}.{method}() is not supported", call.source)

    @abstractmethod
    def packet_in(self, call: syntax.Call) -> places.Value | None: ...

    @abstractmethod
    def emit_header(self, call: syntax.Call) -> None: ...

    # -- helpers

    def _arguments(self, call: syntax.Call) -> list[syntax.Expression]:
        return [a for a in call.arguments if a is not None]

    def scalar_of(self, argument: Argument) -> ir.Expression:
        return read_scalar(argument.value, argument.source)

    def _simple(self, argument: Argument) -> ir.Expression:
        return self.simple(self.scalar_of(argument), argument.source)

    def _into(self, target: Argument) -> tuple[ir.Field, Callable[[], None]]:
        """A field for a primitive's result, and what moves it to where it belongs."""
        place = target.place
        if is_compound(place):
            raise P4Error("the result is a number or bool", target.source)
        if isinstance(place, places.Scalar) and isinstance(place.field, ir.Field):
            return place.field, lambda: None
        field = self.temporary_field(self.scalar_of(target).type, target.source)
        return field, lambda: self.assign(place, field, target.source)

    def _require(self, call: syntax.Call, *blocks: str) -> None:
        if self.block not in blocks:
            name = call.method or getattr(call.declaration, "name", "")
            raise P4Error(f"{name}() cannot be called here", call.source, " or ".join(blocks))

    # -- functions

    def _mark_to_drop(self, call: syntax.Call) -> None:
        self._require(call, "ingress", "egress")
        if not call.arguments:
            raise P4Error(
                "mark_to_drop() without argument is not supported",
                call.source,
                "mark_to_drop(standard_metadata)",
            )
        (argument,) = self.extern_arguments(call)
        target = argument.place
        if list(places.storage(target)) == list(places.storage(self.standard_metadata)):
            standard_metadata = ir.Reference("header", "standard_metadata")
            self.primitive("mark_to_drop", [standard_metadata], call.source)
            return
        # A copy of the metadata: the same assignments take effect when it is copied back.
        for name, value in (("egress_spec", DROP_PORT), ("mcast_grp", 0)):
            field = places.member(target, name)
            assert isinstance(field, places.Scalar)
            self.assign(field, ir.Constant(field.type, value), call.source)

    def _random(self, call: syntax.Call) -> None:
        target, low, high = self.extern_arguments(call)
        bounds = [self._simple(bound) for bound in (low, high)]
        field, move = self._into(target)
        self.primitive("modify_field_rng_uniform", [field, *bounds], call.source)
        move()

    def _hash(self, call: syntax.Call) -> None:
        target, algorithm, base, data, maximum = self.extern_arguments(call, {3: self._hashed})
        member = evaluate(algorithm.expression, self.environment)
        assert isinstance(member, syntax.EnumMember)
        calculation = self.calculation(member.name, [data.value], data.source, with_payload=False)
        arguments: list[ir.Argument] = [
            self._simple(base),
            ir.Reference("calculation", calculation),
            self._simple(maximum),
        ]
        field, move = self._into(target)
        self.primitive("modify_field_with_hash_based_offset", [field, *arguments], call.source)
        move()

    def _hashed(self, data: syntax.Expression) -> places.Value:
        """The data in parts as small as BMv2 can have them."""
        if has_effects(data):
            return self.value(data)
        values = self.values(_data_parts(data))
        return places.Compound({str(i): value for i, value in enumerate(values)})

    def calculation(
        self,
        algorithm: str,
        data: list[places.Value],
        source: syntax.Source,
        *,
        with_payload: bool,
    ) -> str:
        """Adds a named calculation over the data, and gives its name."""
        number = len(self.program.calculations)
        name = "calc" if not number else f"calc_{number - 1}"
        flat = [e for part in data for e in self.flattened(part, source)]
        inputs = [self._hash_input(e, source) for wide in flat for e in _zero_extended(wide)]
        self.program.calculations.append(
            ir.Calculation(name, algorithm, inputs, with_payload, source)
        )
        return name

    def _hash_input(self, expression: ir.Expression, source: syntax.Source) -> ir.Expression:
        if isinstance(expression, ir.Field | ir.Constant):
            return expression
        if self.block in ("verify", "compute"):
            raise P4Error("checksum data is made of fields and constants", source)
        if isinstance(expression, ir.ActionData):
            field = self.temporary_field(expression.type, source)
            self.emit(ir.Assign(source, field, expression))
            return field
        return self.simple(expression, source)

    def _digest(self, call: syntax.Call) -> None:
        """The fields are copied: BMv2 would read them at the end of the pipeline only."""
        self._require(call, "ingress")
        receiver, data = self.extern_arguments(call)
        of = self.environment.resolve(call.parameter_types[1])
        name = getattr(of, "name", "") or "digest"
        elements: list[ir.Expression] = []
        for expression in self.flattened(data.value, data.source):
            field = self.temporary_field(expression.type, data.source)
            self.emit(ir.Assign(data.source, field, expression))
            elements.append(field)
        number = len(self.program.learn_lists) + 1
        self.program.learn_lists.append(ir.LearnList(number, name, elements, data.source))
        arguments: list[ir.Argument] = [
            self._simple(receiver),
            ir.Constant(Bits(32), number),
        ]
        self.primitive("generate_digest", arguments, call.source)

    def _truncate(self, call: syntax.Call) -> None:
        (length,) = self.extern_arguments(call)
        self.primitive("truncate", [self._simple(length)], call.source)

    def _assert(self, call: syntax.Call) -> None:
        (check,) = self.extern_arguments(call)
        assert call.declaration is not None
        self.primitive(call.declaration.name, [self.scalar_of(check)], call.source)

    def _static_assert(self, call: syntax.Call) -> None:
        arguments = self._arguments(call)
        if not evaluate(arguments[0], self.environment):
            text = evaluate(arguments[1], self.environment) if len(arguments) > 1 else "false"
            raise P4Error(f"static_assert: {text}", call.source)

    def _log_msg(self, call: syntax.Call) -> None:
        message, *rest = self.extern_arguments(call)
        text = evaluate(message.expression, self.environment)
        values: list[ir.Expression] = []
        for data in rest:
            flat = self.flattened(data.value, data.source)
            values += [self._logged(e, data.source) for e in flat]
        arguments: list[ir.Argument] = [ir.Text(types.STRING, str(text)), ir.Vector(tuple(values))]
        self.primitive("log_msg", arguments, call.source)

    def _logged(self, expression: ir.Expression, source: syntax.Source) -> ir.Expression:
        if expression.type == BOOL:
            return arithmetic.cast(expression, Bits(1))
        return self.simple(expression, source)

    def _verify(self, call: syntax.Call) -> None:
        self._require(call, "parser")
        check, error = self.extern_arguments(call)
        self.emit(ir.Verify(call.source, self.scalar_of(check), self._simple(error)))

    # -- packets sent again

    def _clone(self, call: syntax.Call) -> None:
        kind, session, *field_list = self.extern_arguments(call)
        member = evaluate(kind.expression, self.environment)
        assert isinstance(member, syntax.EnumMember)
        is_ingress = member.name == "I2E"
        self._require(call, "ingress" if is_ingress else "egress")
        name = "clone_ingress_pkt_to_egress" if is_ingress else "clone_egress_pkt_to_egress"
        number = (
            self._field_list(field_list[0].expression)
            if field_list
            else self._empty_field_list("fl")
        )
        self.primitive(name, [self._simple(session), ir.Constant(Bits(32), number)], call.source)

    def _send_again(self, call: syntax.Call) -> None:
        assert call.declaration is not None
        name = call.declaration.name.removesuffix("_preserving_field_list")
        self._require(call, "ingress" if name == "resubmit" else "egress")
        (index,) = self._arguments(call)
        self.primitive(name, [ir.Constant(Bits(32), self._field_list(index))], call.source)

    def _field_list(self, index: syntax.Expression) -> int:
        name = f"field_list{evaluate(index, self.environment)}"
        for known in self.program.field_lists:
            if known.name == name:
                return known.id
        return self._empty_field_list(name)

    def _empty_field_list(self, name: str) -> int:
        """No field tagged with the index: the copy takes nothing along. Ids start at 1."""
        for known in self.program.field_lists:
            if known.name == name:
                return known.id
        number = len(self.program.field_lists) + 1
        self.program.field_lists.append(ir.FieldList(number, name, []))
        return number

    # -- counters, meters, registers

    def _array_method(self, call: syntax.Call, target: ExternObject) -> None:
        reference = ir.Reference(_REGISTER_LIKE[target.type.name], target.name)
        arguments = self.extern_arguments(call)
        if call.method == "count":
            self._require(call, "ingress", "egress")
            self.primitive("count", [reference, self._simple(arguments[0])], call.source)
        elif call.method == "execute_meter":
            self._require(call, "ingress", "egress")
            index = self._simple(arguments[0])
            field, move = self._into(arguments[1])
            self.primitive("execute_meter", [reference, index, field], call.source)
            move()
        elif call.method == "read":
            index = self._simple(arguments[1])
            field, move = self._into(arguments[0])
            self.primitive("register_read", [field, reference, index], call.source)
            move()
        elif call.method == "write":
            if is_compound(arguments[1].value):
                raise P4Error("a register cell is a number", arguments[1].source)
            index, value = (self._simple(argument) for argument in arguments)
            self.primitive("register_write", [reference, index, value], call.source)
        else:
            raise P4Error(f"{call.method}() is not supported", call.source)

    def _read_direct_meter(self, call: syntax.Call, target: ExternObject) -> None:
        (result,) = self.extern_arguments(call)
        place = result.place
        if not isinstance(place, places.Scalar) or not isinstance(place.field, ir.Field):
            raise P4Error("a direct meter writes to a field", result.source, "a plain field")
        self.direct_reads.setdefault(target.name, call.source)
        known = self.direct_meters.setdefault(target.name, place.field)
        if known != place.field:
            raise P4Error(f"{target.name} already writes to another field", result.source)

    # -- checksums

    def _checksum(self, call: syntax.Call, name: str) -> None:
        is_verify = name.startswith("verify")
        self._require(call, "verify" if is_verify else "compute")
        condition, data, target, algorithm = self._arguments(call)
        member = evaluate(algorithm, self.environment)
        assert isinstance(member, syntax.EnumMember)
        check = self.scalar(condition)
        for outer in reversed(self.conditions):
            check = ir.both(outer, check)
        calculation = self.calculation(
            member.name,
            self.values(_data_parts(data)),
            call.source,
            with_payload=name.endswith("_payload"),
        )
        field = read(self.value(target))
        if not isinstance(field, ir.Field):
            raise P4Error("the checksum is a field", target.source)
        number = len(self.program.checksums)
        self.program.checksums.append(
            ir.Checksum(
                "cksum" if not number else f"cksum_{number - 1}",
                call.source,
                field,
                calculation,
                is_verify,
                check,
            )
        )


def _data_parts(data: syntax.Expression) -> list[syntax.Expression]:
    """The parts of hashed data: lists and `a ++ b` taken apart, as BMv2 concatenates fields."""
    if data.constant is not None:
        return [data]
    if isinstance(data, syntax.ListExpression):
        return [part for element in data.elements for part in _data_parts(element)]
    if isinstance(data, syntax.StructExpression):
        return [part for field in data.values for part in _data_parts(field.value)]
    if isinstance(data, syntax.Binary) and data.operator == "++":
        return [*_data_parts(data.left), *_data_parts(data.right)]
    return [data]


def _zero_extended(expression: ir.Expression) -> list[ir.Expression]:
    """`(bit<32>)f` as zeros and then f: hashed data is made of fields and constants."""
    if isinstance(expression, ir.Cast):
        wide, narrow = expression.type, expression.operand.type
        if isinstance(wide, Bits) and isinstance(narrow, Bits) and not narrow.signed:
            zeros = wide.width - narrow.width
            if zeros > 0:
                rest = _zero_extended(expression.operand)
                return [ir.Constant(Bits(zeros), 0), *rest]
    return [expression]
