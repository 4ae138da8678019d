"""Expressions (8), and types as they are written (7)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from minip4.compiler import types
from minip4.compiler.syntax.node import Node
from minip4.compiler.types import Type

if TYPE_CHECKING:
    from minip4.compiler.syntax.declarations import (
        Constant,
        Declaration,
        Parameter,
    )


@dataclass(slots=True, eq=False)
class Expression(Node):
    """An expression.

    After checking, `type` is never UNCHECKED, and `constant` is the value if it is known at compile
    time:

    int | bool | str | EnumMember | ErrorMember | MatchKindMember, a tuple of these for a compound
    value (in the order of fields), or None. An int constant is reduced to the range of `type`.
    """

    type: Type = field(default=types.UNCHECKED, init=False)
    constant: Constant | None = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class IntLiteral(Expression):
    """A number such as `8w255`, `4s7`, `0xff`; width is None if it has no width."""

    value: int
    width: int | None = None
    is_signed: bool = False
    text: str = ""


@dataclass(slots=True, eq=False)
class BoolLiteral(Expression):
    value: bool


@dataclass(slots=True, eq=False)
class StringLiteral(Expression):
    value: str


@dataclass(slots=True, eq=False)
class Name(Expression):
    """A name used as a value (`.name` if absolute)."""

    name: str
    is_absolute: bool = False
    declaration: Declaration | None = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class This(Expression):
    """`this` in the body of an abstract method: the instance that has the method."""


@dataclass(slots=True, eq=False)
class TypeReference(Expression):
    """A type in the position of an expression: `E` in `E.member`, `C` in `C.apply(...)`."""

    type_expression: TypeExpression


@dataclass(slots=True, eq=False)
class Member(Expression):
    """`base.name`.

    `declaration` is the Field, EnumMember, ErrorMember or Function (extern method) that it refers
    to. It is None for built-in members, which depend on `base.type` (Stack: next last lastIndex
    size; ApplyResult: hit miss action_run; TableType, Parser, Control: apply; headers: isValid and
    so on).
    """

    base: Expression
    name: str
    declaration: Declaration | None = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Index(Expression):
    """`stack[i]` or `tuple[i]`."""

    base: Expression
    index: Expression


@dataclass(slots=True, eq=False)
class Slice(Expression):
    """`base[high:low]`, where both indices have int constants.

    The checker converts `[low +: width]` to this node if it is constant.
    """

    base: Expression
    high: Expression
    low: Expression


@dataclass(slots=True, eq=False)
class PartSelect(Expression):
    """`base[low +: width]`. `low` is known only at run time; `width` has an int constant."""

    base: Expression
    low: Expression
    width: Expression


@dataclass(slots=True, eq=False)
class Unary(Expression):
    operator: str  # ! ~ - +
    operand: Expression


@dataclass(slots=True, eq=False)
class Binary(Expression):
    """A binary operation: * / % + - |+| |-| << >> <= >= < > != == & ^ | ++ && ||."""

    operator: str
    left: Expression
    right: Expression


@dataclass(slots=True, eq=False)
class Conditional(Expression):
    """`condition ? then : otherwise`."""

    condition: Expression
    then: Expression
    otherwise: Expression


@dataclass(slots=True, eq=False)
class Cast(Expression):
    """`(T) operand`; target is None if the checker inserted the cast (implicit, 8.12.2)."""

    target: TypeExpression | None
    operand: Expression


class CallKind(Enum):
    FUNCTION = auto()  # declaration: Function with a body
    EXTERN_FUNCTION = auto()  # declaration: Function without a body
    EXTERN_METHOD = auto()  # declaration: the ExternDeclaration's Function; object: the instance
    ACTION = auto()  # declaration: Action
    TABLE_APPLY = auto()  # declaration: Table
    PARSER_APPLY = auto()  # declaration: ParserDeclaration; object: the instance or its type
    CONTROL_APPLY = auto()  # declaration: ControlDeclaration; object: the instance or its type
    CONSTRUCTOR = auto()  # declaration: Extern/Parser/Control/PackageDeclaration; no object
    BUILTIN = auto()  # declaration: None; object: the header, stack, ...; method: its name


@dataclass(slots=True, eq=False)
class Argument(Node):
    """An argument as written: `name = value` or `value`; the value of `_` is a DontCare."""

    name: str | None
    value: Expression


@dataclass(slots=True, eq=False)
class Call(Expression):
    """`callee<types>(arguments)`; if the callee is a TypeReference, this is a constructor call.

    `arguments` has one element per element of `parameters`, in the same order. Defaults are filled
    in, named arguments are at their positions, and casts are explicit. An element is None if an
    @optional parameter has no argument. `order` contains the positions of the arguments in the
    order of evaluation: as written (6.8), then the defaults. `type_arguments` are those of the
    callee itself; those of an extern object are in `object.type.arguments`. In `parameter_types`,
    both are substituted.
    """

    callee: Expression
    written_type_arguments: list[TypeExpression]
    written_arguments: list[Argument]
    kind: CallKind = field(default=CallKind.FUNCTION, init=False)
    declaration: Declaration | None = field(default=None, init=False)
    object: Expression | None = field(default=None, init=False)
    method: str = field(default="", init=False)
    parameters: list[Parameter] = field(default_factory=list, init=False)
    parameter_types: list[Type] = field(default_factory=list, init=False)
    type_arguments: tuple[Type, ...] = field(default=(), init=False)
    arguments: list[Expression | None] = field(default_factory=list, init=False)
    order: list[int] = field(default_factory=list, init=False)


@dataclass(slots=True, eq=False)
class ListExpression(Expression):
    """`{a, b}`. After checking, the type is Tuple, List or Stack (else: StructExpression)."""

    elements: list[Expression]
    has_dots: bool = False  # ends in `...`; the checker replaces it by default values


@dataclass(slots=True, eq=False)
class NamedValue(Node):
    name: str
    value: Expression


@dataclass(slots=True, eq=False)
class StructExpression(Expression):
    """`{a = x, b = y}`; after checking, also `{x, y}` of a struct or header type.

    After checking, it has all fields in the order of the declaration. `order` contains the
    positions of the fields in the order of evaluation: as written (8.1), then the defaults.
    """

    values: list[NamedValue]
    has_dots: bool = False
    order: list[int] = field(default_factory=list, init=False)


@dataclass(slots=True, eq=False)
class InvalidHeader(Expression):
    """`{#}`: an invalid header, or a union without a valid header."""


@dataclass(slots=True, eq=False)
class DontCare(Expression):
    """`_` or `default` in a keyset, `_` as an argument of an out parameter, or `...` as a value."""

    text: str


@dataclass(slots=True, eq=False)
class Mask(Expression):
    """The keyset `value &&& mask`."""

    value: Expression
    mask: Expression


@dataclass(slots=True, eq=False)
class Range(Expression):
    """`low .. high`, including both, as a keyset or as the collection of a for loop."""

    low: Expression
    high: Expression


# ---------------------------------------------------------------- types as written (7)


@dataclass(slots=True, eq=False)
class TypeExpression(Node):
    type: Type = field(default=types.UNCHECKED, init=False)


@dataclass(slots=True, eq=False)
class BaseTypeName(TypeExpression):
    """A base type. `width` is None, or the width of a bit, int or varbit."""

    name: str
    width: Expression | None = None


@dataclass(slots=True, eq=False)
class TypeName(TypeExpression):
    name: str
    is_absolute: bool = False
    arguments: list[TypeExpression] | None = None  # None: written without `<...>`
    declaration: Declaration | None = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class ArrayTypeName(TypeExpression):
    element: TypeExpression
    size: Expression


@dataclass(slots=True, eq=False)
class TupleTypeName(TypeExpression):
    elements: list[TypeExpression]


@dataclass(slots=True, eq=False)
class ListTypeName(TypeExpression):
    element: TypeExpression
