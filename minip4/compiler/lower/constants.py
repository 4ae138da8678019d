"""Compile-time constants in the ir."""

from __future__ import annotations

from minip4.compiler import ir, syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import Environment, evaluate
from minip4.compiler.lower import places
from minip4.compiler.lower.storage import field_types, scalar_type


def constant_value(
    constant: syntax.Constant, of: types.Type, environment: Environment, source: syntax.Source
) -> places.Value:
    of = types.strip_newtypes(environment.resolve(of))
    if isinstance(constant, tuple):
        members = field_types(of)
        if members is None and isinstance(of, types.Stack | types.List):
            members = {str(i): of.element for i in range(len(constant))}
        if members is None:
            raise P4Error(f"a constant of type {of} is not supported here", source)
        values = {
            name: constant_value(c, t, environment, source)
            for (name, t), c in zip(members.items(), constant, strict=True)
        }
        return places.Compound(values, isinstance(of, types.Header))
    if isinstance(constant, str):
        return ir.Text(types.STRING, constant)
    if isinstance(constant, syntax.EnumMember | syntax.ErrorMember):
        scalar = scalar_type(of)
        return ir.Constant(scalar or types.Bits(32), constant.number)
    if isinstance(constant, syntax.MatchKindMember):
        raise P4Error("a match_kind is not a value at run time", source)
    return ir.Constant(scalar_type(of) or of, int(constant))


def number_of(expression: syntax.Expression, environment: Environment) -> int:
    """Return the number of a scalar compile-time constant."""
    constant = evaluate(expression, environment)
    value = constant_value(constant, expression.type, environment, expression.source)
    assert isinstance(value, ir.Constant)
    return value.value
