"""Arguments of calls: sorted by parameter, converted, and checked (spec 6.7, 6.8)."""

from __future__ import annotations

from minip4.compiler import syntax, types
from minip4.compiler.check.context import Context, describe, typed, what_is
from minip4.compiler.check.inference import Inference
from minip4.compiler.errors import P4Error
from minip4.compiler.syntax import CallKind
from minip4.compiler.types import Type


class Arguments:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.constructor_parameters: set[syntax.Parameter] = set()

    def bind_arguments(
        self,
        e: syntax.Call,
        callee: syntax.Declaration,
        parameters: list[syntax.Parameter],
        inference: Inference,
        outer: types.Binding | None = None,
    ) -> None:
        """Set e.parameters, e.parameter_types, e.arguments and e.order."""
        e.parameters = parameters
        e.declaration = callee
        given = self.in_parameter_order(e.written_arguments, parameters, callee.name, e)
        e.order = written_order(e.written_arguments, given)
        formal = [types.substitute(p.type, outer or {}) for p in parameters]
        arguments = [
            None if a is None else self.context.expressions.expression(a.value) for a in given
        ]
        for p, f, a in zip(parameters, formal, arguments, strict=True):
            if a is not None and not inference.unify(f, a.type):
                raise self.argument_mismatch(p, inference.substitute(f), a)
        e.parameter_types = [inference.substitute(f) for f in formal]
        e.arguments = [
            self.argument(e, p, f, a)
            for p, f, a in zip(parameters, e.parameter_types, arguments, strict=True)
        ]

    def argument_mismatch(self, p: syntax.Parameter, wanted: Type, a: syntax.Expression) -> P4Error:
        what = f"argument {p.name!r} is {describe(a.type)}"
        if isinstance(wanted, (types.Parser, types.Control)) and isinstance(a.type, type(wanted)):
            d = wanted.declaration
            what = f"{a.type} does not fit {d.name}"
            expected = ", ".join(f"{q.direction} {q.type} {q.name}".strip() for q in d.parameters)
            return P4Error(what, a.source, f"parameters ({expected})")
        return P4Error(what, a.source, describe(wanted))

    def in_parameter_order(
        self,
        written: list[syntax.Argument],
        parameters: list[syntax.Parameter],
        name: str,
        call: syntax.Node,
    ) -> list[syntax.Argument | None]:
        """Return one element per parameter: its argument, or None if the argument is omitted."""
        given: dict[str, syntax.Argument] = {}
        names = [p.name for p in parameters]
        expected = f"{name}({', '.join(names)})"
        if len(written) > len(parameters):
            message = f"{name!r} takes {len(parameters)} argument(s), {len(written)} given"
            raise P4Error(message, call.source, expected)
        named = sum(a.name is not None for a in written)
        if 0 < named < len(written):
            raise P4Error("arguments with and without names are mixed", call.source, expected)
        for position, a in enumerate(written):
            key = names[position] if a.name is None else a.name
            if key not in names:
                raise P4Error(f"{name!r} has no parameter {key!r}", a.source, expected)
            if key in given:
                raise P4Error(f"{key!r} has two arguments", a.source, expected)
            given[key] = a
        for p in parameters:
            if p.name not in given and p.default is None and p.annotation("optional") is None:
                message = f"{name!r} takes {len(parameters)} argument(s), {len(written)} given"
                if named:
                    message = f"{name!r} has no argument {p.name!r}"
                raise P4Error(message, call.source, expected)
        return [given.get(p.name) for p in parameters]

    def argument(
        self, e: syntax.Call, p: syntax.Parameter, of: Type, a: syntax.Expression | None
    ) -> syntax.Expression | None:
        """Check that an argument fits the parameter's direction; return the converted argument."""
        if a is None:
            return p.default
        what = f"argument {p.name!r}"
        if e.kind is CallKind.CONSTRUCTOR and not self.is_compile_time(a):
            raise P4Error(f"{what} must be known at compile time", a.source, "a constant")
        if p.direction and of is types.STRING:
            raise P4Error("a string cannot be passed at run time", a.source, str(p.type))
        if isinstance(a, syntax.DontCare) and a.text == "_":
            if p.direction != "out":
                raise P4Error("`_` is valid for out arguments only", a.source, str(of))
            return typed(a, of)
        if p.direction in ("out", "inout"):
            a = self.context.conversions.value(a)
            if a.type != of and not isinstance(of, types.Extern):
                raise P4Error(f"{what} is {describe(a.type)}", a.source, describe(of))
            self.lvalue(a, what)
            return a
        if isinstance(of, (types.Parser, types.Control, types.Package)):
            if not Inference([]).unify(of, a.type):
                raise self.argument_mismatch(p, of, a)
            return a
        a = self.context.conversions.value(a)
        if of is types.DONT_CARE and a.type is types.INTEGER:
            of = types.Bits(32)  # a type argument that nothing determines
        a = self.context.conversions.convert(a, of, what)
        if p.direction == "" and self.must_be_constant(e, of) and a.constant is None:
            raise P4Error(f"{what} must be known at compile time", a.source, "a constant")
        return a

    def is_compile_time(self, e: syntax.Expression) -> bool:
        """Return whether a value is composed of constants, and so is known at instantiation."""
        if e.constant is not None or isinstance(e, (syntax.TypeReference, syntax.InvalidHeader)):
            return True
        if isinstance(e, syntax.Name):
            d = e.declaration
            return not isinstance(d, syntax.VariableDeclaration) and (
                not isinstance(d, syntax.Parameter) or d in self.constructor_parameters
            )
        if isinstance(e, syntax.Call):
            return e.kind is CallKind.CONSTRUCTOR
        if isinstance(e, syntax.StructExpression):
            return all(self.is_compile_time(v.value) for v in e.values)
        parts = [c for c in syntax.children(e) if isinstance(c, syntax.Expression)]
        return bool(parts) and all(self.is_compile_time(c) for c in parts)

    def must_be_constant(self, e: syntax.Call, of: Type) -> bool:
        """Return whether v1model requires a constant for a directionless value parameter."""
        if isinstance(of, (types.Extern, types.Parser, types.Control, types.Package, types.Set)):
            return False
        d = e.declaration
        of_architecture = d is not None and d.source.file.is_system
        return of_architecture and e.kind in (CallKind.EXTERN_FUNCTION, CallKind.EXTERN_METHOD)

    # ------------------------------------------------------------ lvalues (6.7)

    def lvalue(self, e: syntax.Expression, what: str) -> None:
        """Reject an expression that cannot be assigned to."""
        root = e
        while isinstance(root, (syntax.Member, syntax.Index, syntax.Slice, syntax.PartSelect)):
            if isinstance(root, syntax.Member) and root.name in ("last", "lastIndex", "size"):
                stack = isinstance(root.base.type, types.Stack)
                if stack and root.name != "last":
                    raise P4Error(f"{what}: '.{root.name}' cannot be written", e.source)
            root = root.base
        if not isinstance(root, syntax.Name):
            raise P4Error(f"{what} cannot be written", e.source, "a variable or field")
        d = root.declaration
        if isinstance(d, syntax.VariableDeclaration):
            return
        if isinstance(d, syntax.Parameter):
            if d.direction in ("out", "inout") or isinstance(d.type, types.Extern):
                return
            direction = f"an '{d.direction}'" if d.direction else "a directionless"
            raise P4Error(
                f"{what}: {d.name!r} is {direction} parameter and cannot be written",
                e.source,
                "an out or inout parameter, or a variable",
            )
        assert d is not None
        raise P4Error(f"{what}: {root.name!r} is {what_is(d)}", e.source, "a variable or field")


def written_order(written: list[syntax.Argument], given: list[syntax.Argument | None]) -> list[int]:
    """Return the positions of the arguments in source order; omitted arguments are at the end."""
    positions = [given.index(a) for a in written]
    return positions + [i for i, a in enumerate(given) if a is None]
