"""Types of P4-16 after checking: typedefs resolved, type arguments substituted (spec 7).

Structural types (`Bits`, `Tuple`, ...) are compared by content. Types with a declaration are
compared by that declaration and the type arguments, so `==` is the type equality of P4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minip4.compiler import syntax


class Type:
    """Base class of types. `str()` is the type in P4 syntax."""

    __slots__ = ()

    def __deepcopy__(self, memo: object) -> Type:
        return self  # copies of a tree share the types


class _Simple(Type):
    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<{self._text}>"


BOOL = _Simple("bool")
STRING = _Simple("string")
VOID = _Simple("void")
ERROR = _Simple("error")
MATCH_KIND = _Simple("match_kind")
INTEGER = _Simple("int")  # integers of unlimited precision, which exist only at compile time
STATE = _Simple("state")
DONT_CARE = _Simple("_")  # type of `_`, `default` and `...`
INVALID_HEADER = _Simple("{#}")
UNCHECKED = _Simple("(not checked yet)")


@dataclass(slots=True, frozen=True)
class Bits(Type):
    """`bit<width>`, or `int<width>` if signed."""

    width: int
    signed: bool = False

    def __str__(self) -> str:
        return f"{'int' if self.signed else 'bit'}<{self.width}>"


@dataclass(slots=True, frozen=True)
class Varbit(Type):
    """`varbit<width>`. A value has at most `width` bits."""

    width: int

    def __str__(self) -> str:
        return f"varbit<{self.width}>"


@dataclass(slots=True, frozen=True)
class Stack(Type):
    """`element[size]`: a header stack, a stack of header unions, or an array of other elements."""

    element: Type
    size: int

    def __str__(self) -> str:
        return f"{self.element}[{self.size}]"


@dataclass(slots=True, frozen=True)
class Tuple(Type):
    """`tuple<...>`. Also the type of `{a, b}` if the struct type is unknown."""

    elements: tuple[Type, ...]

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.elements))}>"


@dataclass(slots=True, frozen=True)
class List(Type):
    """`list<element>`. Lists exist only at compile time, as constructor arguments."""

    element: Type

    def __str__(self) -> str:
        return f"list<{self.element}>"


@dataclass(slots=True, frozen=True)
class Set(Type):
    """The values that a keyset expression or a value set matches (spec 8.14)."""

    element: Type

    def __str__(self) -> str:
        return f"set<{self.element}>"


@dataclass(slots=True, frozen=True)
class AnonymousStruct(Type):
    """The type of `{a = 1, b = 2}` if the struct type is unknown (e.g. data of a digest)."""

    fields_in_order: tuple[tuple[str, Type], ...]

    def __str__(self) -> str:
        return "struct {" + " ".join(f"{t} {n};" for n, t in self.fields_in_order) + "}"

    @property
    def fields(self) -> dict[str, Type]:
        return dict(self.fields_in_order)


@dataclass(slots=True, frozen=True)
class Variable(Type):
    """A type parameter inside the generic declaration that introduces it."""

    declaration: syntax.TypeParameter

    def __str__(self) -> str:
        return self.declaration.name


@dataclass(slots=True, frozen=True)
class Named(Type):
    """A type with a declaration; `arguments` are the values of its type parameters."""

    declaration: syntax.Declaration
    arguments: tuple[Type, ...] = ()

    @property
    def name(self) -> str:
        return self.declaration.name

    def __str__(self) -> str:
        if not self.arguments:
            return self.name
        return f"{self.name}<{', '.join(map(str, self.arguments))}>"


@dataclass(slots=True, frozen=True)
class StructLike(Named):
    """A struct, header or header union; `fields` maps names to types, in order of declaration."""

    declaration: syntax.StructDeclaration

    @property
    def fields(self) -> dict[str, Type]:
        types = {f.name: f.type for f in self.declaration.fields}
        if not self.arguments:
            return types
        binding = bind(self.declaration.type_parameters, self.arguments)
        return {name: substitute(of, binding) for name, of in types.items()}


class Struct(StructLike):
    __slots__ = ()


class Header(StructLike):
    __slots__ = ()


class HeaderUnion(StructLike):
    __slots__ = ()


@dataclass(slots=True, frozen=True)
class Enum(Named):
    """An enum without explicit values."""

    declaration: syntax.EnumDeclaration


@dataclass(slots=True, frozen=True)
class SerializableEnum(Named):
    """`enum bit<8> E {...}`. `underlying` is its Bits type; the values are in `member.number`."""

    declaration: syntax.EnumDeclaration

    @property
    def underlying(self) -> Bits:
        underlying = strip_newtypes(self.declaration.underlying_type)
        assert isinstance(underlying, Bits)
        return underlying


@dataclass(slots=True, frozen=True)
class NewType(Named):
    """`type bit<9> PortId_t;`. It is like `underlying`, but a conversion needs a cast."""

    declaration: syntax.TypedefDeclaration

    @property
    def underlying(self) -> Type:
        return self.declaration.type_of_definition


@dataclass(slots=True, frozen=True)
class Extern(Named):
    """An extern object; for `register<bit<32>>`, `.arguments == (Bits(32),)`."""

    declaration: syntax.ExternDeclaration


@dataclass(slots=True, frozen=True)
class Parser(Named):
    """A parser type (`parser P(...);`) or a parser."""

    declaration: syntax.ParserTypeDeclaration | syntax.ParserDeclaration


@dataclass(slots=True, frozen=True)
class Control(Named):
    """A control type (`control C(...);`) or a control."""

    declaration: syntax.ControlTypeDeclaration | syntax.ControlDeclaration


@dataclass(slots=True, frozen=True)
class Package(Named):
    declaration: syntax.PackageDeclaration


@dataclass(slots=True, frozen=True)
class Function(Type):
    """The type of a callee: a function, method, action or built-in method."""

    name: str

    def __str__(self) -> str:
        return f"function {self.name}"


@dataclass(slots=True, frozen=True)
class TableType(Type):
    """The type of an expression that names a table. Its only member is `.apply()`."""

    table: syntax.Table

    def __str__(self) -> str:
        return f"table {self.table.name}"


@dataclass(slots=True, frozen=True)
class ApplyResult(Type):
    """The type of `t.apply()`. Its members are hit and miss (bool), and action_run."""

    table: syntax.Table

    def __str__(self) -> str:
        return f"result of {self.table.name}.apply()"


@dataclass(slots=True, frozen=True)
class ActionRun(Type):
    """The type of `t.apply().action_run`. Only a switch statement can use such a value."""

    table: syntax.Table

    def __str__(self) -> str:
        return f"{self.table.name}.apply().action_run"


Binding = Mapping["syntax.TypeParameter", Type]


def bind(
    parameters: list[syntax.TypeParameter], arguments: tuple[Type, ...]
) -> dict[syntax.TypeParameter, Type]:
    return dict(zip(parameters, arguments, strict=True))


def substitute(of: Type, binding: Binding) -> Type:
    """Return `of` with the type parameters in `binding` replaced by their types."""
    if not binding:
        return of
    return transform(of, lambda v: binding.get(v.declaration, v))


def transform(of: Type, replace: Callable[[Variable], Type]) -> Type:
    """Return `of` with each type variable v replaced by `replace(v)`."""
    if isinstance(of, Variable):
        return replace(of)
    if isinstance(of, Named):
        if not of.arguments:
            return of
        return type(of)(of.declaration, tuple(transform(a, replace) for a in of.arguments))
    if isinstance(of, Tuple):
        return Tuple(tuple(transform(e, replace) for e in of.elements))
    if isinstance(of, Stack):
        return Stack(transform(of.element, replace), of.size)
    if isinstance(of, List):
        return List(transform(of.element, replace))
    if isinstance(of, Set):
        return Set(transform(of.element, replace))
    if isinstance(of, AnonymousStruct):
        return AnonymousStruct(tuple((n, transform(t, replace)) for n, t in of.fields_in_order))
    return of


def strip_newtypes(of: Type) -> Type:
    """Return `of` without newtypes; serializable enums are unchanged."""
    while isinstance(of, NewType):
        of = of.underlying
    return of


def width_in_bits(of: Type) -> int | None:
    """Return the number of bits of a value in a packet or key.

    For a varbit, this is the maximum. Returns None if the width is undefined.
    """
    of = strip_newtypes(of)
    if isinstance(of, SerializableEnum):
        return of.underlying.width
    if isinstance(of, Bits | Varbit):
        return of.width
    if of is BOOL:
        return 1
    if isinstance(of, Stack):
        width = width_in_bits(of.element)
        return None if width is None else width * of.size
    if isinstance(of, Tuple):
        parts = list(of.elements)
    elif isinstance(of, StructLike | AnonymousStruct):
        parts = list(of.fields.values())
    else:
        return None
    widths = [width_in_bits(part) for part in parts]
    known = [width for width in widths if width is not None]
    if len(known) != len(widths):
        return None
    return max(known, default=0) if isinstance(of, HeaderUnion) else sum(known)
