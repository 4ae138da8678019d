"""Names for the control plane (spec 18.3): `@name`, and the path of instances."""

from __future__ import annotations

import re

from minip4.compiler import syntax, types
from minip4.compiler.errors import P4Error


def control_plane_name(declaration: syntax.Declaration, prefix: str = "") -> str:
    """Return the full name of a declaration in the instance `prefix` ("" at top level).

    `@name(".x")` is absolute: the result has neither the prefix nor the dot.
    """
    annotation = declaration.annotation("name")
    name = declaration.name
    if annotation is not None and annotation.values:
        name = str(annotation.values[0])
    if name.startswith("."):
        return name[1:]
    return f"{prefix}.{name}" if prefix else name


def property_name(item: syntax.TableProperty, table_name: str) -> str:
    """Return the name of an inline object in a property.

    The name is the object's `@name`, or is derived from the name of the table.
    """
    has_name = item.annotation("name") is not None
    return control_plane_name(item, "" if has_name else table_name)


def key_name(element: syntax.KeyElement) -> str:
    """Return the name of a key element: its `@name`, or derived from the expression (18.3.2)."""
    annotation = element.annotation("name")
    if annotation is not None and annotation.values:
        return str(annotation.values[0])
    return _expression_name(element.expression)


def _expression_name(expression: syntax.Expression) -> str:
    constant = expression.constant
    if isinstance(constant, int) and not isinstance(constant, bool):
        return format(constant, _format(expression))
    match expression:
        case syntax.Name():
            return expression.name
        case syntax.Member():
            return _member_name(expression)
        case syntax.Index():
            return f"{_expression_name(expression.base)}[{_expression_name(expression.index)}]"
        case syntax.Slice():
            high, low = _expression_name(expression.high), _expression_name(expression.low)
            return f"{_expression_name(expression.base)}[{high}:{low}]"
        case syntax.Call() if expression.method == "isValid" and expression.object is not None:
            return f"{_expression_name(expression.object)}.$valid$"
        case syntax.Cast() if expression.target is None:
            return _expression_name(expression.operand)
        case syntax.Binary() if expression.operator == "&":
            return f"{_expression_name(expression.left)} & {_expression_name(expression.right)}"
    raise P4Error(
        "this key needs a @name for the control plane", expression.source, "@name(...) behind it"
    )


def _format(expression: syntax.Expression) -> str:
    """Return the format of a constant: the number base of the first number in its expression."""
    match expression:
        case syntax.IntLiteral():
            prefix = re.match(r"(?:[0-9]+[ws])?0([xXbBoO])", expression.text)
            return f"#{prefix[1].lower()}" if prefix else "d"
        case syntax.Binary():
            return _format(expression.left)
        case syntax.Cast() | syntax.Unary():
            return _format(expression.operand)
        case syntax.Name() if isinstance(expression.declaration, syntax.ConstantDeclaration):
            return _format(expression.declaration.initializer)
    return "d"


def _member_name(member: syntax.Member) -> str:
    name = member.name
    base_type = types.strip_newtypes(member.base.type)
    if isinstance(base_type, types.StructLike) and member.declaration is not None:
        annotation = member.declaration.annotation("name")
        if annotation is not None and annotation.values:
            name = str(annotation.values[0])
    if name.startswith("."):
        return name[1:]
    return f"{_expression_name(member.base)}.{name}"
