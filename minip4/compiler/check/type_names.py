"""Type expressions and declarations of types (spec section 7)."""

from __future__ import annotations

from minip4.compiler import syntax, types
from minip4.compiler.check.context import (
    TYPE_DECLARATIONS,
    WIDEST_BITS,
    Context,
    describe,
    what_is,
)
from minip4.compiler.errors import P4Error, did_you_mean
from minip4.compiler.source import Source
from minip4.compiler.types import Type

WIDEST_VARBIT = 1 << 16  # maximum bits of a varbit; a larger one is a mistake
MOST_PARTS = 10_000  # maximum number of parts of a compound type; nested declarations multiply it
# annotations that change the program; their arguments must be numbers, not free text
NUMBERED = ("field_list",)

_BASE = {
    "bool": types.BOOL,
    "error": types.ERROR,
    "match_kind": types.MATCH_KIND,
    "string": types.STRING,
    "void": types.VOID,
    "_": types.DONT_CARE,
}
_STRUCTS: dict[str, type[types.StructLike]] = {
    "struct": types.Struct,
    "header": types.Header,
    "header_union": types.HeaderUnion,
}


class TypeNames:
    def __init__(self, context: Context) -> None:
        self.context = context

    # ------------------------------------------------------------ types as written

    def type_of(self, e: syntax.TypeExpression, *, is_constructor: bool = False) -> Type:
        """Return the type that `e` names; only constructors may omit type arguments."""
        if isinstance(e, syntax.BaseTypeName):
            e.type = self.base_type(e)
        elif isinstance(e, syntax.ArrayTypeName):
            e.type = self.array_type(e)
        elif isinstance(e, syntax.TupleTypeName):
            e.type = types.Tuple(tuple(self.value_type(t, "a tuple") for t in e.elements))
        elif isinstance(e, syntax.ListTypeName):
            e.type = types.List(self.type_of(e.element))
        else:
            assert isinstance(e, syntax.TypeName)
            e.type = self.named_type(e, is_constructor)
        if _parts(e.type) > MOST_PARTS:
            raise P4Error("this type is too large", e.source, f"at most {MOST_PARTS} parts")
        return e.type

    def base_type(self, e: syntax.BaseTypeName) -> Type:
        if e.name in _BASE:
            return _BASE[e.name]
        if e.width is None:
            return types.INTEGER if e.name == "int" else types.Bits(1)
        width = self.constant_integer(e.width, f"the width of {e.name}")
        least, most = int(e.name == "int"), WIDEST_VARBIT if e.name == "varbit" else WIDEST_BITS
        if not least <= width <= most:
            message = f"{e.name}<{width}> has no valid width"
            raise P4Error(message, e.width.source, f"{least} to {most}")
        if e.name == "varbit":
            return types.Varbit(width)
        return types.Bits(width, e.name == "int")

    def constant_integer(self, e: syntax.Expression, what: str) -> int:
        """Check `e` and return its value. The value must be known at compile time."""
        e = self.context.expressions.expression(e)
        value = e.constant
        if isinstance(value, syntax.EnumMember) and isinstance(e.type, types.SerializableEnum):
            value = value.number
        if value is None:
            raise P4Error(f"{what} must be known at compile time", e.source, "a constant")
        if not isinstance(value, int) or isinstance(value, bool):
            raise P4Error(f"{what} is {describe(e.type)}", e.source, "an integer")
        return value

    def array_type(self, e: syntax.ArrayTypeName) -> Type:
        element = self.type_of(e.element)
        size = self.constant_integer(e.size, "the size of a stack")
        if isinstance(e.size, syntax.Expression) and not 1 <= size <= 1 << 16:
            raise P4Error(f"a stack of size {size}", e.size.source, "a size of 1 or more")
        allowed = (types.Header, types.HeaderUnion, types.Variable)
        if not isinstance(element, allowed):
            raise P4Error(
                f"an array of {describe(element)} is not supported",
                e.source,
                "a header or header_union",
            )
        return types.Stack(element, size)

    def named_type(self, e: syntax.TypeName, is_constructor: bool) -> Type:
        found = self.context.lookup_all(e.name, e.is_absolute)
        if not found:
            known = [
                name
                for scope in self.context.scopes
                for name, of in scope.names.items()
                if isinstance(of[-1], TYPE_DECLARATIONS)
            ]
            if self.context.program.find(e.name) is not None or e.name == self.context.place.name:
                raise self.context.unknown_name(e.name, e.source)
            hint = did_you_mean(e.name, known)
            raise P4Error(f"type {e.name!r} is not declared{hint}", e.source)
        declaration = found[-1]
        e.declaration = declaration
        if not isinstance(declaration, TYPE_DECLARATIONS):
            raise P4Error(f"{e.name!r} is {what_is(declaration)}", e.source, "a type")
        parameters: list[syntax.TypeParameter] = getattr(declaration, "type_parameters", [])
        if e.arguments is None and parameters and is_constructor:
            return of_declaration(declaration, ())
        written = e.arguments or []
        if len(written) != len(parameters):
            raise P4Error(
                f"{e.name!r} takes {len(parameters)} type argument(s), {len(written)} given",
                e.source,
                f"{e.name}<{', '.join(p.name for p in parameters)}>" if parameters else e.name,
            )
        arguments = tuple(self.type_of(a) for a in written)
        result = of_declaration(declaration, arguments)
        if types.DONT_CARE in arguments and not _is_object(result):
            raise P4Error("`_` is not a type here", e.source, "a type argument")
        if isinstance(declaration, syntax.StructDeclaration) and arguments:
            self.check_generic_struct(declaration, result, written)
        return result

    def check_generic_struct(
        self, d: syntax.StructDeclaration, of: Type, written: list[syntax.TypeExpression]
    ) -> None:
        assert isinstance(of, types.StructLike)
        for argument in written:
            if _is_object(argument.type) or argument.type is types.VOID:
                message = f"{argument.type} as a type argument of a {d.keyword}"
                raise P4Error(message, argument.source, "a type of values")
        for name, of_field in of.fields.items():
            self.check_field(d, of_field, written[0].source, f" (field {name!r})")

    def value_type(self, e: syntax.TypeExpression, what: str) -> Type:
        """Return a type that a field, variable or tuple element can have."""
        of = self.type_of(e)
        if of is types.VOID or _is_object(of):
            raise P4Error(f"{what} cannot have type {of}", e.source, "a type of values")
        return of

    # ------------------------------------------------------------ declarations of types

    def type_parameters(self, parameters: list[syntax.TypeParameter]) -> None:
        for parameter in parameters:
            self.context.declare(parameter)

    def struct(self, d: syntax.StructDeclaration) -> None:
        with self.context.scope():
            self.type_parameters(d.type_parameters)
            seen: dict[str, syntax.Field] = {}
            for field in d.fields:
                if field.name in seen:
                    raise P4Error(f"field {field.name!r} is declared twice", field.source)
                seen[field.name] = field
                field.type = self.value_type(field.type_expression, f"a field of a {d.keyword}")
                self.check_field(d, field.type, field.type_expression.source)
                self.annotations(field.annotations)
        self.context.declare(d)

    def check_field(
        self, d: syntax.StructDeclaration, of: Type, source: Source, where: str = ""
    ) -> None:
        of = types.strip_newtypes(of)
        if isinstance(of, types.Variable):
            return
        if of in (types.INTEGER, types.STRING, types.MATCH_KIND, types.DONT_CARE):
            raise P4Error(f"a field cannot have type {of}{where}", source, "e.g. bit<32>")
        if d.keyword == "header_union" and not isinstance(of, types.Header):
            raise P4Error(f"a field of a header_union is {of}{where}", source, "a header")
        if d.keyword == "header" and not _fits_header(of):
            expected = "bit, int, varbit, bool, serializable enum, or struct of these"
            raise P4Error(f"a field of a header cannot have type {of}{where}", source, expected)
        if d.keyword == "struct" and isinstance(of, types.Set | types.List):
            raise P4Error(f"a field cannot have type {of}{where}", source)

    def enum(self, d: syntax.EnumDeclaration) -> None:
        if d.underlying is not None:
            d.underlying_type = self.type_of(d.underlying)
            if not isinstance(d.underlying_type, types.Bits):
                raise P4Error(
                    f"an enum cannot be of type {describe(d.underlying_type)}",
                    d.underlying.source,
                    "bit<N> or int<N>",
                )
        seen: set[str] = set()
        for number, member in enumerate(d.members):
            if member.name in seen:
                raise P4Error(f"member {member.name!r} is declared twice", member.source)
            seen.add(member.name)
            member.enum = d
            member.number = number
            self.enum_value(d, member)
        self.context.declare(d)

    def enum_value(self, d: syntax.EnumDeclaration, member: syntax.EnumMember) -> None:
        if d.underlying is None:
            if member.value is not None:
                raise P4Error(
                    f"member {member.name!r} has a value, but {d.name!r} has no underlying type",
                    member.source,
                    f"enum bit<8> {d.name}",
                )
            return
        if member.value is None:
            raise P4Error(f"member {member.name!r} has no value", member.source, "name = value")
        written = self.context.expressions.expression(member.value)
        value = self.context.conversions.convert(written, d.underlying_type, "the value")
        if not isinstance(value.constant, int):
            raise P4Error("this must be known at compile time", value.source, "a constant")
        if value.constant != written.constant:
            message = f"{written.constant} does not fit in {d.underlying_type}"
            raise P4Error(message, value.source, "a value in its range")
        member.value = value
        member.number = value.constant

    def typedef(self, d: syntax.TypedefDeclaration) -> None:
        if isinstance(d.struct, syntax.StructDeclaration):
            self.struct(d.struct)
        elif isinstance(d.struct, syntax.EnumDeclaration):
            self.enum(d.struct)
        of = self.type_of(d.type_expression)
        d.type_of_definition = of
        underlying = types.strip_newtypes(of)
        is_scalar = isinstance(underlying, types.Bits | types.Variable | types.SerializableEnum)
        if d.is_new and not is_scalar and underlying is not types.BOOL:
            raise P4Error(
                f"a new type cannot be made of {describe(of)}",
                d.type_expression.source,
                "bit<N>, int<N>, bool or another such type",
            )
        if not d.is_new and of in (types.VOID, types.DONT_CARE):
            raise P4Error(f"a typedef of {of}", d.type_expression.source, "a type of values")
        self.context.declare(d)

    # ------------------------------------------------------------ annotations (18)

    def annotations(self, annotations: list[syntax.Annotation]) -> None:
        """Evaluate the values of annotations. An unstructured body may be free text."""
        for a in annotations:
            if a.is_structured:
                a.values = [self.annotation_value(e) for e in a.body]
                a.pairs = {p.name: self.annotation_value(p.value) for p in a.keyed_body}
                if len(a.pairs) != len(a.keyed_body):
                    raise P4Error(f"@{a.name} has two values for one name", a.source)
            elif a.name in NUMBERED:
                a.values = [self.annotation_value(e) for e in a.body]
            elif a.text:
                a.values = [v for v in map(self.free_value, a.body) if v is not None]

    def free_value(self, e: syntax.Expression) -> syntax.Constant | None:
        """Return the constant value of `e`, or None. `e` may be a word of free text."""
        if isinstance(e, syntax.Name) and not self.context.lookup_all(e.name, e.is_absolute):
            return None
        try:
            return self.context.expressions.expression(e).constant
        except P4Error:
            return None

    def annotation_value(self, e: syntax.Expression) -> syntax.Constant:
        value = self.context.expressions.expression(e).constant
        if value is None:
            raise P4Error("this must be known at compile time", e.source, "a constant")
        return value


def _parts(of: Type) -> int:
    """Return the number of fields and type arguments in a type, including nested types."""
    if isinstance(of, types.StructLike):
        fields = sum(_parts(f.type) for f in of.declaration.fields)
        return 1 + fields + sum(map(_parts, of.arguments))
    if isinstance(of, types.Tuple):
        return 1 + sum(map(_parts, of.elements))
    if isinstance(of, types.Named):
        return 1 + sum(map(_parts, of.arguments))
    return 1


def _is_object(of: Type) -> bool:
    return isinstance(of, (types.Extern, types.Parser, types.Control, types.Package))


def _fits_header(of: Type) -> bool:
    of = types.strip_newtypes(of)
    if isinstance(of, types.Struct):
        return all(_fits_header(t) for t in of.fields.values())
    scalar = types.Bits | types.Varbit | types.SerializableEnum | types.Variable
    return of is types.BOOL or isinstance(of, scalar)


def of_declaration(d: syntax.Declaration, arguments: tuple[Type, ...]) -> Type:
    if isinstance(d, syntax.StructDeclaration):
        return _STRUCTS[d.keyword](d, arguments)
    if isinstance(d, syntax.EnumDeclaration):
        return types.Enum(d) if d.underlying is None else types.SerializableEnum(d)
    if isinstance(d, syntax.TypedefDeclaration):
        return types.NewType(d) if d.is_new else d.type_of_definition
    if isinstance(d, syntax.ExternDeclaration):
        return types.Extern(d, arguments)
    if isinstance(d, syntax.ParserTypeDeclaration | syntax.ParserDeclaration):
        return types.Parser(d, arguments)
    if isinstance(d, syntax.ControlTypeDeclaration | syntax.ControlDeclaration):
        return types.Control(d, arguments)
    if isinstance(d, syntax.PackageDeclaration):
        return types.Package(d, arguments)
    assert isinstance(d, syntax.TypeParameter)
    return types.Variable(d)
