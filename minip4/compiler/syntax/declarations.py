"""Programs and their declarations; states of parsers (13), tables of controls (14.2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from minip4.compiler import types
from minip4.compiler.source import Source
from minip4.compiler.syntax.node import Node
from minip4.compiler.types import Type
from minip4.compiler.warnings import Warnings

if TYPE_CHECKING:
    from minip4.compiler.syntax.expressions import Argument, Call, Expression, TypeExpression
    from minip4.compiler.syntax.node import Annotation
    from minip4.compiler.syntax.statements import Block, Statement


@dataclass(slots=True, eq=False)
class Declaration(Node):
    """A declaration.

    `source` is the range of the declared name, and `whole` is the range of the entire declaration.
    """

    whole: Source
    annotations: list[Annotation]
    name: str

    def annotation(self, name: str) -> Annotation | None:
        """Return the first annotation with this name."""
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
    """`const T name = initializer;`.

    The value is initializer.constant, unless it is compound.
    """

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
    """`typedef T name;`, or `type T name;` if is_new.

    `struct` is set for `typedef struct S {...} T;`.
    """

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
    """A member of an enum.

    `number` is its position or, in a serializable enum, its value.
    """

    value: Expression | None
    enum: EnumDeclaration | None = field(default=None, init=False)
    number: int = field(default=0, init=False)


@dataclass(slots=True, eq=False)
class EnumDeclaration(Declaration):
    underlying: TypeExpression | None  # None: the enum is not serializable
    members: list[EnumMember]
    underlying_type: Type = field(default=types.UNCHECKED, init=False)


@dataclass(slots=True, eq=False)
class ErrorMember(Declaration):
    """A declared error.

    `number` counts all errors of the program, starting with 0 for NoError.
    """

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
    """A function.

    A function without a body is an extern function or method. A constructor has no result.
    """

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
    objects: list[Declaration]  # bodies of abstract methods (Function), and inner Instantiations
    type: Type = field(default=types.UNCHECKED, init=False)


@dataclass(slots=True, eq=False)
class ValueSet(Declaration):
    """`value_set<T>(size) name;`, where size.constant is an int."""

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
    """A transition to the state `name`. For accept and reject, `state` is None."""

    name: str
    state: State | None = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class SelectCase(Node):
    """A case of a select.

    `keys` has one keyset per select expression, or one DontCare or tuple value set.
    """

    keys: list[Expression]
    target: Goto


@dataclass(slots=True, eq=False)
class Select(Node):
    expressions: list[Expression]
    cases: list[SelectCase]


@dataclass(slots=True, eq=False)
class State(Declaration):
    """A parser state. If `transition` is None, the state rejects the packet."""

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

    `arguments` has one element per parameter of the action; None means that the control plane sets
    it. `order` contains the positions of the arguments in the order of evaluation, which is the
    written order (6.8).
    """

    annotations: list[Annotation]
    name: str
    is_absolute: bool
    written_arguments: list[Argument] | None  # None: written without parentheses
    action: Action | None = field(default=None, init=False)
    arguments: list[Expression | None] = field(default_factory=list, init=False)
    order: list[int] = field(default_factory=list, init=False)

    def annotation(self, name: str) -> Annotation | None:
        return next((a for a in self.annotations if a.name == name), None)


@dataclass(slots=True, eq=False)
class Entry(Node):
    """`const priority=n: (keys) : action;`, with one key per key element."""

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
    """A table.

    `default_action` is None if it is not written, which means NoAction (14.2.1.3).
    """

    keys: list[KeyElement]
    actions: list[ActionReference]
    entries: list[Entry] | None
    are_entries_const: bool
    default_action: ActionReference | None
    is_default_action_const: bool
    properties: list[TableProperty]

    def property(self, name: str) -> TableProperty | None:
        return next((p for p in self.properties if p.name == name), None)


Constant = int | bool | str | EnumMember | ErrorMember | MatchKindMember | tuple


@dataclass(slots=True, eq=False)
class Program(Node):
    """A program.

    `declarations` includes the declarations of core.p4 and v1model.p4, in order.
    """

    path: str
    declarations: list[Declaration]
    warnings: Warnings = field(default_factory=Warnings, init=False)
    main: Instantiation | None = field(default=None, init=False)
    errors: list[ErrorMember] = field(default_factory=list, init=False)
    match_kinds: list[MatchKindMember] = field(default_factory=list, init=False)

    def find(self, name: str) -> Declaration | None:
        """Return the top-level declaration called `name`; of overloaded functions, the last one."""
        return next((d for d in reversed(self.declarations) if d.name == name), None)
