"""Calls: callee, type arguments, and arguments in the order of parameters (spec 6.8, 8.20)."""

from __future__ import annotations

from minip4.compiler import syntax, types
from minip4.compiler.check.context import Applicable, Context, describe, typed, what_is
from minip4.compiler.check.expressions import members_of, no_member
from minip4.compiler.check.inference import Inference
from minip4.compiler.check.type_names import of_declaration
from minip4.compiler.errors import P4Error
from minip4.compiler.syntax import CallKind
from minip4.compiler.types import Type

_SIZES = ("minSizeInBits", "minSizeInBytes", "maxSizeInBits", "maxSizeInBytes")


class Calls:
    def __init__(self, context: Context) -> None:
        self.context = context

    def call(self, e: syntax.Call) -> syntax.Expression:
        callee = e.callee
        if isinstance(callee, syntax.TypeReference):
            return self.constructor_call(e, callee)
        if isinstance(callee, syntax.Name):
            return self.call_by_name(e, callee)
        if isinstance(callee, syntax.Member):
            return self.method_call(e, callee)
        raise P4Error("this cannot be called", callee.source, "a function, method or action")

    # ------------------------------------------------------------ functions and actions

    def call_by_name(self, e: syntax.Call, callee: syntax.Name) -> syntax.Expression:
        found = self.context.lookup_all(callee.name, callee.is_absolute)
        if not found:
            raise self.context.unknown_name(callee.name, callee.source)
        functions = [d for d in found if isinstance(d, syntax.Function)]
        if functions:
            function = self.overloaded(e, functions)
            callee.declaration = function
            typed(callee, types.Function(function.name))
            is_extern = function.body is None
            e.kind = CallKind.EXTERN_FUNCTION if is_extern else CallKind.FUNCTION
            self.function_allowed(e, function)
            return self.complete(e, function, {})
        action = found[-1]
        if not isinstance(action, syntax.Action):
            raise P4Error(
                f"{callee.name!r} is {what_is(action)} and cannot be called like this",
                e.source,
                f"{callee.name}.apply(...)" if _has_apply(action) else "a function or an action",
            )
        callee.declaration = action
        typed(callee, types.Function(action.name))
        if self.context.place.kind not in ("control", "action"):
            raise P4Error(f"action {action.name!r} called in a {self.context.place.kind}", e.source)
        e.kind = CallKind.ACTION
        self.no_type_arguments(e)
        self.context.arguments.bind_arguments(e, action, action.parameters, Inference([]))
        return typed(e, types.VOID)

    def function_allowed(self, e: syntax.Call, function: syntax.Function) -> None:
        self.context.is_deprecated(function, e.source)
        is_system = function.source.file.is_system
        if is_system and function.name == "verify" and self.context.place.kind != "parser":
            raise P4Error("verify can be called only in a parser", e.source)
        if is_system and function.name == "static_assert":
            return
        if self.context.place.kind == "top" and function.body is None:
            raise P4Error(f"{function.name!r} cannot be called here", e.source, "a constant")

    def overloaded(self, e: syntax.Call, candidates: list[syntax.Function]) -> syntax.Function:
        """Return the overloaded function that fits the number and names of the arguments (6.6)."""
        fitting = [f for f in candidates if _takes(f.parameters, e.written_arguments)]
        if fitting:
            return fitting[0]
        return candidates[-1]  # the error message describes the parameters of this function

    def complete(
        self, e: syntax.Call, function: syntax.Function, outer: types.Binding
    ) -> syntax.Expression:
        """Check type arguments, arguments and result.

        `outer` binds the type parameters of the extern object.
        """
        e.declaration = function
        inference = Inference(function.type_parameters)
        if e.written_type_arguments:
            self.written_type_arguments(e, function, inference)
        self.context.arguments.bind_arguments(e, function, function.parameters, inference, outer)
        missing = inference.missing()
        if None in e.arguments:  # an @optional argument is omitted
            inference.known.update(dict.fromkeys(missing, types.DONT_CARE))
        elif missing:
            names = ", ".join(p.name for p in missing)
            expected = f"{function.name}<...>(...)"
            raise P4Error(f"type argument {names} cannot be inferred", e.source, expected)
        e.type_arguments = tuple(inference.known[p] for p in function.type_parameters)
        self.known_widths(e)
        result = inference.substitute(types.substitute(function.result_type, outer))
        typed(e, result)
        if function.source.file.is_system and isinstance(e.object, syntax.Expression):
            self.packet_method(e, function.name)
        if function.name == "static_assert" and function.source.file.is_system:
            self.static_assert(e)
        return e

    def known_widths(self, e: syntax.Call) -> None:
        """Reject type arguments with an unknown width."""
        for of in e.type_arguments:
            culprit = next((a for a in map(_without_width, e.arguments) if a is not None), None)
            if culprit is not None and _has_integer(of):
                raise P4Error("this number needs a width", culprit.source, "e.g. 16w1")
            if isinstance(of, types.AnonymousStruct):
                raise P4Error("the struct type is ambiguous", e.source, "(S) {a = 1, ...}")

    def packet_method(self, e: syntax.Call, name: str) -> None:
        """Check the header arguments of extract, lookahead and emit (13.8, 15.1)."""
        assert isinstance(e.object, syntax.Expression)
        if str(e.object.type) not in ("packet_in", "packet_out") or not e.type_arguments:
            return
        of = e.type_arguments[0]
        first = e.arguments[0] if e.arguments else None
        source = e.source if first is None else first.source
        if name == "extract" and of is not types.DONT_CARE:
            if not isinstance(of, (types.Header, types.Variable)):
                raise P4Error(f"extract into {describe(of)}", source, "a header")
            varbits = _count_varbits(of)
            if varbits != len(e.arguments) - 1:
                message = f"header {of} has {varbits} varbit field(s)"
                expected = "extract(h), or extract(h, bits) for a header with one varbit field"
                raise P4Error(message, source, expected)
        is_fixed = types.width_in_bits(of) is not None and smallest(of) == types.width_in_bits(of)
        if name == "lookahead" and not is_fixed and not isinstance(of, types.Variable):
            raise P4Error(f"lookahead of {describe(of)}", source, "a type of fixed width")
        if name == "emit" and not isinstance(
            of, (types.StructLike, types.Stack, types.Variable, types.Tuple)
        ):
            raise P4Error(f"emit of {describe(of)}", source, "a header, stack or struct of them")

    def static_assert(self, e: syntax.Call) -> None:
        condition, *message = e.arguments
        assert condition is not None
        if condition.constant is None:
            raise P4Error("static_assert needs a constant", condition.source, "a constant")
        if condition.constant is not True:
            text = message[0].constant if message and message[0] is not None else None
            detail = f": {text}" if isinstance(text, str) else ""
            raise P4Error(f"static_assert failed{detail}", e.source)
        e.constant = True

    def written_type_arguments(
        self, e: syntax.Call, function: syntax.Function, inference: Inference
    ) -> None:
        parameters = function.type_parameters
        if len(e.written_type_arguments) != len(parameters):
            given = len(e.written_type_arguments)
            message = f"{function.name!r} takes {len(parameters)} type argument(s), {given} given"
            raise P4Error(message, e.source)
        for parameter, written in zip(parameters, e.written_type_arguments, strict=True):
            of = self.context.type_names.type_of(written)
            if of is types.VOID:
                raise P4Error("void as a type argument", written.source, "a type of values")
            if of is not types.DONT_CARE:
                inference.known[parameter] = of

    def no_type_arguments(self, e: syntax.Call) -> None:
        if e.written_type_arguments:
            raise P4Error("this takes no type arguments", e.written_type_arguments[0].source)

    # ------------------------------------------------------------ methods and apply

    def method_call(self, e: syntax.Call, callee: syntax.Member) -> syntax.Expression:
        callee.base = self.context.expressions.expression(callee.base)
        e.object, e.method = callee.base, callee.name
        of = callee.base.type
        typed(callee, types.Function(callee.name))
        if callee.name == "apply" and isinstance(
            of, (types.TableType, types.Parser, types.Control)
        ):
            return self.apply(e, of)
        if isinstance(of, types.Extern) and not isinstance(callee.base, syntax.TypeReference):
            methods = [m for m in of.declaration.methods if m.name == callee.name]
            if not methods:
                raise no_member(callee, members_of(of))
            method = self.overloaded(e, methods)
            callee.declaration = method
            e.kind = CallKind.EXTERN_METHOD
            if self.context.place.kind == "top":
                raise P4Error(f"{callee.name!r} cannot be called here", e.source, "a constant")
            return self.complete(
                e, method, types.bind(of.declaration.type_parameters, of.arguments)
            )
        return self.builtin_method(e, callee, of)

    def apply(self, e: syntax.Call, of: Type) -> syntax.Expression:
        self.no_type_arguments(e)
        place = self.context.place.kind
        if isinstance(of, types.TableType):
            if place != "control":
                raise P4Error(
                    f"table {of.table.name!r} applied in {_article(place)}",
                    e.source,
                    "the apply block of a control",
                )
            e.kind, e.declaration = CallKind.TABLE_APPLY, of.table
            self.context.arguments.bind_arguments(e, of.table, [], Inference([]))
            return typed(e, types.ApplyResult(of.table))
        assert isinstance(of, (types.Parser, types.Control))
        wanted = "parser" if isinstance(of, types.Parser) else "control"
        if place != wanted:
            raise P4Error(
                f"{wanted} {of.name!r} applied in {_article(place)}",
                e.source,
                "a state of a parser" if wanted == "parser" else "the apply block of a control",
            )
        e.kind = CallKind.PARSER_APPLY if wanted == "parser" else CallKind.CONTROL_APPLY
        e.declaration = of.declaration
        d = of.declaration
        if isinstance(d, Applicable) and d.type_parameters and of.arguments:
            d = e.declaration = self.context.declarations.specialized(d, of.arguments)
            of = of_declaration(d, ())
            assert isinstance(of, (types.Parser, types.Control))
        if isinstance(e.object, syntax.TypeReference) and getattr(d, "constructor_parameters", []):
            raise P4Error(f"{d.name!r} needs constructor arguments", e.source, "an instance of it")
        outer = types.bind(d.type_parameters, of.arguments)
        self.context.arguments.bind_arguments(e, d, d.parameters, Inference([]), outer)
        return typed(e, types.VOID)

    def builtin_method(self, e: syntax.Call, callee: syntax.Member, of: Type) -> syntax.Expression:
        name = callee.name
        e.kind = CallKind.BUILTIN
        if name in _SIZES and not isinstance(of, types.Function):
            return self.size_method(e, callee, of)
        is_header = isinstance(of, (types.Header, types.HeaderUnion))
        if isinstance(callee.base, syntax.TypeReference):
            raise no_member(callee, [])
        if is_header and name == "isValid":
            self.argument_count(e, 0)
            return typed(e, types.BOOL)
        if isinstance(of, types.Header) and name in ("setValid", "setInvalid"):
            self.argument_count(e, 0)
            self.context.arguments.lvalue(callee.base, f"'{name}'")
            return typed(e, types.VOID)
        if isinstance(of, types.Stack) and name in ("push_front", "pop_front"):
            self.argument_count(e, 1)
            self.context.arguments.lvalue(callee.base, f"'{name}'")
            argument = self.context.conversions.value(e.written_arguments[0].value)
            count = argument.constant
            if not isinstance(count, int) or count < 0:
                raise P4Error(f"the count of {name} is not constant", argument.source, "a constant")
            e.arguments = [argument]
            return typed(e, types.VOID)
        known = ["isValid", "setValid", "setInvalid"] if is_header else members_of(of)
        raise no_member(callee, known)

    def size_method(self, e: syntax.Call, callee: syntax.Member, of: Type) -> syntax.Expression:
        self.argument_count(e, 0)
        bits = smallest(of) if callee.name.startswith("min") else types.width_in_bits(of)
        if bits is None:
            raise P4Error(f"{describe(of)} has no size", e.source, "a header, struct or bit<N>")
        return typed(e, types.INTEGER, bits if callee.name.endswith("Bits") else (bits + 7) // 8)

    def argument_count(self, e: syntax.Call, count: int) -> None:
        self.no_type_arguments(e)
        if len(e.written_arguments) != count:
            given = len(e.written_arguments)
            raise P4Error(f"{e.method!r} takes {count} argument(s), {given} given", e.source)

    # ------------------------------------------------------------ constructors

    def constructor_call(self, e: syntax.Call, callee: syntax.TypeReference) -> syntax.Expression:
        of = self.context.type_names.type_of(callee.type_expression, is_constructor=True)
        typed(callee, of)
        e.kind = CallKind.CONSTRUCTOR
        self.no_type_arguments(e)
        if isinstance(of, types.Extern):
            parameters = self.extern_constructor(e, of)
        elif isinstance(of, types.Package):
            parameters = of.declaration.parameters
        elif isinstance(of, (types.Parser, types.Control)) and isinstance(
            of.declaration, (syntax.ParserDeclaration, syntax.ControlDeclaration)
        ):
            parameters = of.declaration.constructor_parameters
        else:
            expected = "an extern, parser, control or package"
            raise P4Error(f"{of} has no constructor", e.source, expected)
        if self.context.place.kind in ("action", "function"):
            raise P4Error(
                f"{of.name!r} instantiated in {_article(self.context.place.kind)}", e.source
            )
        e.declaration = of.declaration
        type_parameters = of.declaration.type_parameters
        inference = Inference(type_parameters)
        for p, a in zip(type_parameters, of.arguments, strict=False):
            if a is not types.DONT_CARE:
                inference.known[p] = a
        self.context.arguments.bind_arguments(e, of.declaration, parameters, inference)
        written = dict(zip(type_parameters, of.arguments, strict=False))
        for p in inference.missing():
            if not isinstance(of, types.Package) and written.get(p) is not types.DONT_CARE:
                raise P4Error(
                    f"type argument {p.name} cannot be inferred", e.source, f"{of.name}<T>"
                )
            inference.known[p] = types.DONT_CARE
        e.type_arguments = tuple(inference.known[p] for p in type_parameters)
        if isinstance(of.declaration, Applicable) and type_parameters:
            d = e.declaration = self.context.declarations.specialized(
                of.declaration, e.type_arguments
            )
            e.parameters = d.constructor_parameters
            return typed(e, of_declaration(d, ()))
        return typed(e, of_declaration(of.declaration, e.type_arguments))

    def extern_constructor(self, e: syntax.Call, of: types.Extern) -> list[syntax.Parameter]:
        constructors = of.declaration.constructors
        if not constructors:
            raise P4Error(f"extern {of.name!r} has no constructor", e.source, "another extern")
        return self.overloaded(e, constructors).parameters


def _takes(parameters: list[syntax.Parameter], written: list[syntax.Argument]) -> bool:
    names = {p.name for p in parameters}
    if any(a.name is not None and a.name not in names for a in written):
        return False
    required = [p for p in parameters if p.default is None and p.annotation("optional") is None]
    given = {a.name for a in written}
    if given - {None} and any(p.name not in given for p in required):
        return False
    return len(required) <= len(written) <= len(parameters)


def _has_apply(d: syntax.Declaration) -> bool:
    applied = (syntax.Table, syntax.Instantiation, syntax.ControlDeclaration)
    return isinstance(d, (*applied, syntax.ParserDeclaration))


def _article(place: str) -> str:
    words = {"top": "a declaration", "action": "an action"}
    return words.get(place, f"a {place}")


def _has_integer(of: Type) -> bool:
    if isinstance(of, types.Tuple):
        return any(_has_integer(t) for t in of.elements)
    return of is types.INTEGER


def _without_width(e: syntax.Expression | None) -> syntax.Expression | None:
    """Return the first integer without a width in an argument, or None."""
    if isinstance(e, syntax.ListExpression):
        return next((w for w in map(_without_width, e.elements) if w is not None), None)
    return e if e is not None and e.type is types.INTEGER else None


def _count_varbits(of: Type) -> int:
    if isinstance(of, types.Varbit):
        return 1
    if isinstance(of, (types.Header, types.Struct)):
        return sum(_count_varbits(t) for t in of.fields.values())
    return 0


def smallest(of: Type) -> int | None:
    """Return the minimum width in bits: with empty varbits, and the smallest members of unions."""
    of = types.strip_newtypes(of)
    if isinstance(of, types.Varbit):
        return 0
    if isinstance(of, types.Struct | types.Header):
        parts = [smallest(t) for t in of.fields.values()]
        return None if None in parts else sum(p for p in parts if p is not None)
    if isinstance(of, types.HeaderUnion):
        parts = [smallest(t) for t in of.fields.values()]
        return min((p for p in parts if p is not None), default=0)
    if isinstance(of, types.Stack):
        element = smallest(of.element)
        return None if element is None else element * of.size
    return types.width_in_bits(of)
