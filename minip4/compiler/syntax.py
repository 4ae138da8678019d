"""The syntax tree of a P4-16 program: the parser builds it, the checker decorates it.

Fields with `init=False` are decorations: empty until the checker has run. Node equality is
identity, so nodes can be keys of dictionaries. Section numbers are those of the P4-16 spec 1.2.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from enum import Enum, auto

from minip4.compiler import types
from minip4.compiler.source import Source
from minip4.compiler.types import Type


@dataclass(slots=True, eq=False)
class Node:
    source: Source


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below `node` in the tree; decorations are not followed."""
    for f in fields(node):
        if f.init:
            value = getattr(node, f.name)
            for item in value if isinstance(value, list) else (value,):
                if isinstance(item, Node):
                    yield item


# ---------------------------------------------------------------- annotations (18)


@dataclass(slots=True, eq=False)
class Annotation(Node):
    """`@name`, `@name(body)` or `@name[...]`.

    `values` holds what the body means: for `@name("x", 3)` and `@name["x", 3]` the literals and
    constants as str, int, bool; for `@name[k = v]` it is empty and `pairs` has them. A body that
    is not a list of expressions (tokens that only the reader of the annotation understands) leaves
    `values` empty; `text` has every unstructured body with one blank between tokens.
    """

    name: str
    body: list[Expression]
    keyed_body: list[NamedValue]
    text: str = ""
    is_structured: bool = False
    values: list[Constant] = field(default_factory=list, init=False)
    pairs: dict[str, Constant] = field(default_factory=dict, init=False)


# ---------------------------------------------------------------- expressions (8)


@dataclass(slots=True, eq=False)
class Expression(Node):
    """`type` is never UNCHECKED after checking; `constant` is the value if known at compile time:

    int | bool | str | EnumMember | ErrorMember | MatchKindMember, a tuple of such for a compound
    value (in field order), or None. An int constant is already reduced to the range of `type`.
    """

    type: Type = field(default=types.UNCHECKED, init=False)
    constant: Constant | None = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class IntLiteral(Expression):
    """`8w255`, `4s7`, `0xff`; width is None for one without a width."""

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
    """`this` in an abstract method's body: the instance."""


@dataclass(slots=True, eq=False)
class TypeReference(Expression):
    """A type where an expression is expected: `E` in `E.member`, `C` in `C.apply(...)`."""

    type_expression: TypeExpression


@dataclass(slots=True, eq=False)
class Member(Expression):
    """`base.name`.

    `declaration`: the Field, EnumMember, ErrorMember or Function (extern method) meant. None for
    built-in ones: see `base.type` (Stack: next last lastIndex size; ApplyResult: hit miss
    action_run; TableType, Parser, Control: apply; headers: isValid and so on).
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
    """`base[high:low]`; both have int constants. `[low +: width]` becomes this if constant."""

    base: Expression
    high: Expression
    low: Expression


@dataclass(slots=True, eq=False)
class PartSelect(Expression):
    """`base[low +: width]` with a `low` known only at run time; `width` has an int constant."""

    base: Expression
    low: Expression
    width: Expression


@dataclass(slots=True, eq=False)
class Unary(Expression):
    operator: str  # ! ~ - +
    operand: Expression


@dataclass(slots=True, eq=False)
class Binary(Expression):
    """Operators * / % + - |+| |-| << >> <= >= < > != == & ^ | ++ && ||."""

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
    """`(T) operand`; target is None if the checker put it in (implicit, 8.12.2)."""

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
    """As written: `name = value` or `value`; value is a DontCare for `_`."""

    name: str | None
    value: Expression


@dataclass(slots=True, eq=False)
class Call(Expression):
    """`callee<types>(arguments)`; a TypeReference as callee is a constructor call.

    `arguments` follow the order of `parameters`, one for each: defaults filled in, named ones put
    in their place, casts made explicit; None where an @optional parameter has no argument.
    `type_arguments` fill the callee's own type parameters (an extern object's are in
    `object.type.arguments`). `parameter_types` have both substituted.
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


@dataclass(slots=True, eq=False)
class ListExpression(Expression):
    """`{a, b}`; after checking its type is Tuple, List or Stack (else: StructExpression)."""

    elements: list[Expression]
    has_dots: bool = False  # ends in `...`: default values, which the checker writes out


@dataclass(slots=True, eq=False)
class NamedValue(Node):
    name: str
    value: Expression


@dataclass(slots=True, eq=False)
class StructExpression(Expression):
    """`{a = x, b = y}`; after checking also `{x, y}` of struct or header type.

    After checking every field is there, in the order of the declaration.
    """

    values: list[NamedValue]
    has_dots: bool = False


@dataclass(slots=True, eq=False)
class InvalidHeader(Expression):
    """`{#}`: an invalid header, or a union without valid header."""


@dataclass(slots=True, eq=False)
class DontCare(Expression):
    """`_` or `default` in a keyset; `_` as an argument of an out parameter; `...` as a value."""

    text: str


@dataclass(slots=True, eq=False)
class Mask(Expression):
    """Keyset `value &&& mask`."""

    value: Expression
    mask: Expression


@dataclass(slots=True, eq=False)
class Range(Expression):
    """Keyset, or collection of a for loop: `low .. high`, both included."""

    low: Expression
    high: Expression


# ---------------------------------------------------------------- types as written (7)


@dataclass(slots=True, eq=False)
class TypeExpression(Node):
    type: Type = field(default=types.UNCHECKED, init=False)


@dataclass(slots=True, eq=False)
class BaseTypeName(TypeExpression):
    """bool error match_kind string void `_`, or bit int varbit, which may have a `width`."""

    name: str
    width: Expression | None = None


@dataclass(slots=True, eq=False)
class TypeName(TypeExpression):
    name: str
    is_absolute: bool = False
    arguments: list[TypeExpression] | None = None  # None: no `<...>` written
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


# ---------------------------------------------------------------- declarations


@dataclass(slots=True, eq=False)
class Declaration(Node):
    """`source` is the name where it is declared; `whole` the entire declaration."""

    whole: Source
    annotations: list[Annotation]
    name: str

    def annotation(self, name: str) -> Annotation | None:
        """The first annotation called `name`."""
        return next((a for a in self.annotations if a.name == name), None)


@dataclass(slots=True, eq=False)
class TypeParameter(Declaration):
    pass


@dataclass(slots=True, eq=False)
class Parameter(Declaration):
    direction: str  # "in", "out", "inout" or "" (directionless)
    type_expression: TypeExpression
    default: Expression | None
    type: Type = field(default=types.UNCHECKED, init=False)


@dataclass(slots=True, eq=False)
class ConstantDeclaration(Declaration):
    """`const T name = initializer;`: the value is initializer.constant (if not compound)."""

    type_expression: TypeExpression
    initializer: Expression
    type: Type = field(default=types.UNCHECKED, init=False)


@dataclass(slots=True, eq=False)
class VariableDeclaration(Declaration):
    type_expression: TypeExpression
    initializer: Expression | None
    type: Type = field(default=types.UNCHECKED, init=False)


@dataclass(slots=True, eq=False)
class TypedefDeclaration(Declaration):
    """`typedef T name;`, or `type T name;` if is_new; `struct` for `typedef struct S {...} T;`."""

    type_expression: TypeExpression
    is_new: bool
    struct: Declaration | None = None
    type_of_definition: Type = field(default=types.UNCHECKED, init=False)


@dataclass(slots=True, eq=False)
class Field(Declaration):
    type_expression: TypeExpression
    type: Type = field(default=types.UNCHECKED, init=False)


@dataclass(slots=True, eq=False)
class StructDeclaration(Declaration):
    keyword: str  # "struct", "header" or "header_union"
    type_parameters: list[TypeParameter]
    fields: list[Field]


@dataclass(slots=True, eq=False)
class EnumMember(Declaration):
    """`number`: position in the enum, or the value if the enum is serializable."""

    value: Expression | None
    enum: EnumDeclaration | None = field(default=None, init=False)
    number: int = field(default=0, init=False)


@dataclass(slots=True, eq=False)
class EnumDeclaration(Declaration):
    underlying: TypeExpression | None  # None: not serializable
    members: list[EnumMember]
    underlying_type: Type = field(default=types.UNCHECKED, init=False)


@dataclass(slots=True, eq=False)
class ErrorMember(Declaration):
    """`number` counts over all error declarations of the program: NoError is 0."""

    number: int = field(default=0, init=False)


@dataclass(slots=True, eq=False)
class ErrorDeclaration(Declaration):
    members: list[ErrorMember]


@dataclass(slots=True, eq=False)
class MatchKindMember(Declaration):
    pass


@dataclass(slots=True, eq=False)
class MatchKindDeclaration(Declaration):
    members: list[MatchKindMember]


@dataclass(slots=True, eq=False)
class Function(Declaration):
    """A function; an extern function or method if body is None; a constructor has no result."""

    result: TypeExpression | None
    type_parameters: list[TypeParameter]
    parameters: list[Parameter]
    body: Block | None
    is_abstract: bool = False
    result_type: Type = field(default=types.VOID, init=False)


@dataclass(slots=True, eq=False)
class ExternDeclaration(Declaration):
    type_parameters: list[TypeParameter]
    constructors: list[Function]
    methods: list[Function]


@dataclass(slots=True, eq=False)
class Action(Declaration):
    parameters: list[Parameter]
    body: Block


@dataclass(slots=True, eq=False)
class ParserTypeDeclaration(Declaration):
    type_parameters: list[TypeParameter]
    parameters: list[Parameter]


@dataclass(slots=True, eq=False)
class ControlTypeDeclaration(Declaration):
    type_parameters: list[TypeParameter]
    parameters: list[Parameter]


@dataclass(slots=True, eq=False)
class PackageDeclaration(Declaration):
    type_parameters: list[TypeParameter]
    parameters: list[Parameter]


@dataclass(slots=True, eq=False)
class Instantiation(Declaration):
    """`T<...>(arguments) name = {objects};`

    `call` is the constructor call (kind CONSTRUCTOR, arguments in parameter order).
    """

    call: Call
    objects: list[Declaration]  # abstract methods' bodies (Function) and inner Instantiations
    type: Type = field(default=types.UNCHECKED, init=False)


@dataclass(slots=True, eq=False)
class ValueSet(Declaration):
    """`value_set<T>(size) name;`: size.constant is an int."""

    type_expression: TypeExpression
    size: Expression
    type: Type = field(default=types.UNCHECKED, init=False)  # Set(T)


@dataclass(slots=True, eq=False)
class ParserDeclaration(Declaration):
    type_parameters: list[TypeParameter]
    parameters: list[Parameter]
    constructor_parameters: list[Parameter]
    locals: list[Declaration]
    states: list[State]


@dataclass(slots=True, eq=False)
class ControlDeclaration(Declaration):
    type_parameters: list[TypeParameter]
    parameters: list[Parameter]
    constructor_parameters: list[Parameter]
    locals: list[Declaration]
    body: Block


# ---------------------------------------------------------------- parser states (13)


@dataclass(slots=True, eq=False)
class Goto(Node):
    """`name` as the next state; `state` is None for accept and reject."""

    name: str
    state: State | None = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class SelectCase(Node):
    """`keys` has one keyset for each select expression, or is one DontCare or tuple value set."""

    keys: list[Expression]
    target: Goto


@dataclass(slots=True, eq=False)
class Select(Node):
    expressions: list[Expression]
    cases: list[SelectCase]


@dataclass(slots=True, eq=False)
class State(Declaration):
    """Without a transition (None) the parser rejects."""

    statements: list[Statement | Declaration]
    transition: Goto | Select | None


# ---------------------------------------------------------------- tables (14.2)


@dataclass(slots=True, eq=False)
class KeyElement(Node):
    """`expression : match_kind @annotations;`."""

    expression: Expression
    match_kind: str
    annotations: list[Annotation]

    def annotation(self, name: str) -> Annotation | None:
        return next((a for a in self.annotations if a.name == name), None)


@dataclass(slots=True, eq=False)
class ActionReference(Node):
    """`name(arguments)` in a list of actions, an entry or default_action.

    `arguments` follow `action.parameters`, one for each; None where the control plane sets it.
    """

    annotations: list[Annotation]
    name: str
    is_absolute: bool
    written_arguments: list[Argument] | None  # None: no parentheses written
    action: Action | None = field(default=None, init=False)
    arguments: list[Expression | None] = field(default_factory=list, init=False)

    def annotation(self, name: str) -> Annotation | None:
        return next((a for a in self.annotations if a.name == name), None)


@dataclass(slots=True, eq=False)
class Entry(Node):
    """`const priority=n: (keys) : action;` keys: one for each key element."""

    annotations: list[Annotation]
    is_const: bool
    priority: Expression | None
    keys: list[Expression]
    action: ActionReference


@dataclass(slots=True, eq=False)
class TableProperty(Declaration):
    """Any other `name = value;` of a table (size, implementation, counters, ...)."""

    is_const: bool
    value: Expression


@dataclass(slots=True, eq=False)
class Table(Declaration):
    """`default_action` is None if not written: then it is NoAction (14.2.1.3)."""

    keys: list[KeyElement]
    actions: list[ActionReference]
    entries: list[Entry] | None
    are_entries_const: bool
    default_action: ActionReference | None
    is_default_action_const: bool
    properties: list[TableProperty]

    def property(self, name: str) -> TableProperty | None:
        return next((p for p in self.properties if p.name == name), None)


# ---------------------------------------------------------------- statements (12)


@dataclass(slots=True, eq=False)
class Statement(Node):
    pass


@dataclass(slots=True, eq=False)
class Assignment(Statement):
    """`left = right;` or `left += right;` and so on: `operator` is "" or "+", "<<", "|+|"..."""

    left: Expression
    operator: str
    right: Expression


@dataclass(slots=True, eq=False)
class CallStatement(Statement):
    call: Call


@dataclass(slots=True, eq=False)
class If(Statement):
    condition: Expression
    then: Statement
    otherwise: Statement | None


@dataclass(slots=True, eq=False)
class Block(Statement):
    annotations: list[Annotation]
    statements: list[Statement | Declaration]  # Declaration: a variable or a constant


@dataclass(slots=True, eq=False)
class Return(Statement):
    value: Expression | None


@dataclass(slots=True, eq=False)
class Exit(Statement):
    pass


@dataclass(slots=True, eq=False)
class Break(Statement):
    pass


@dataclass(slots=True, eq=False)
class Continue(Statement):
    pass


@dataclass(slots=True, eq=False)
class Empty(Statement):
    pass


@dataclass(slots=True, eq=False)
class SwitchCase(Node):
    """label is a DontCare for `default`; body None falls through to the next case.

    In a switch over action_run, label is a Name whose declaration is the Action.
    """

    label: Expression
    body: Block | None


@dataclass(slots=True, eq=False)
class Switch(Statement):
    """Over `t.apply().action_run` (expression.type is ActionRun), or over values."""

    expression: Expression
    cases: list[SwitchCase]


@dataclass(slots=True, eq=False)
class For(Statement):
    annotations: list[Annotation]
    initial: list[Statement | Declaration]
    condition: Expression
    updates: list[Statement]
    body: Statement


@dataclass(slots=True, eq=False)
class ForIn(Statement):
    """`for (T x in collection)`; the collection is a Range, a stack or a list."""

    annotations: list[Annotation]
    variable: VariableDeclaration
    collection: Expression
    body: Statement


# ---------------------------------------------------------------- program


@dataclass(slots=True, eq=False)
class Program(Node):
    """`declarations` include those of core.p4 and v1model.p4, in order of appearance.

    `warnings` are texts for the user, each with its place as an error has it.
    """

    path: str
    declarations: list[Declaration]
    warnings: list[str] = field(default_factory=list, init=False)
    main: Instantiation | None = field(default=None, init=False)
    errors: list[ErrorMember] = field(default_factory=list, init=False)
    match_kinds: list[MatchKindMember] = field(default_factory=list, init=False)

    def find(self, name: str) -> Declaration | None:
        """The top-level declaration called `name` (the last of overloaded functions)."""
        return next((d for d in reversed(self.declarations) if d.name == name), None)


Constant = int | bool | str | EnumMember | ErrorMember | MatchKindMember | tuple
