"""Names that the control plane sees (spec 18.3): `@name`, and the path of instances."""

from __future__ import annotations

from minip4.compiler import syntax, types
from minip4.compiler.errors import P4Error


def control_plane_name(declaration: syntax.Declaration, prefix: str = "") -> str:
    """Full name of what is declared in an instance called `prefix` ("": at top level).

    `@name(".x")` is absolute: neither the prefix nor the dot is part of the result.
    """
    annotation = declaration.annotation("name")
    name = declaration.name
    if annotation is not None and annotation.values:
        name = str(annotation.values[0])
    if name.startswith("."):
        return name[1:]
    return f"{prefix}.{name}" if prefix else name


def property_name(item: syntax.TableProperty, table_name: str) -> str:
    """Name of an object made in place: the property's `@name`, or made from the table's."""
    has_name = item.annotation("name") is not None
    return control_plane_name(item, "" if has_name else table_name)


def key_name(element: syntax.KeyElement) -> str:
    """Name of a table's key element: `@name`, or made from the expression (18.3.2)."""
    annotation = element.annotation("name")
    if annotation is not None and annotation.values:
        return str(annotation.values[0])
    return _expression_name(element.expression)


def _expression_name(expression: syntax.Expression) -> str:
    match expression:
        case syntax.IntLiteral():
            is_hexadecimal = expression.text.lower().startswith("0x")
            return hex(expression.value) if is_hexadecimal else str(expression.value)
        case syntax.Name():
            return expression.name
        case syntax.Member():
            return _member_name(expression)
        case syntax.Index():
            return f"{_expression_name(expression.base)}[{_expression_name(expression.index)}]"
        case syntax.Slice():
            high, low = expression.high.constant, expression.low.constant
            return f"{_expression_name(expression.base)}[{high}:{low}]"
        case syntax.Call() if expression.method == "isValid" and expression.object is not None:
            return f"{_expression_name(expression.object)}.$valid$"
        case syntax.Cast() if expression.target is None:
            return _expression_name(expression.operand)
        case syntax.Binary() if expression.operator == "&":
            return f"{_expression_name(expression.left)} & {_expression_name(expression.right)}"
    raise P4Error(
        "the control plane needs a name for this key", expression.source, "@name(...) behind it"
    )


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
