"""State that all checks share: scopes, the current location in the program, and helpers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from minip4.compiler import syntax, types
from minip4.compiler.errors import P4Error, did_you_mean
from minip4.compiler.source import Source
from minip4.compiler.types import Type

if TYPE_CHECKING:
    from minip4.compiler.check.arguments import Arguments
    from minip4.compiler.check.calls import Calls
    from minip4.compiler.check.conversion import Conversions
    from minip4.compiler.check.declarations import Declarations
    from minip4.compiler.check.expressions import Expressions
    from minip4.compiler.check.operators import Operators
    from minip4.compiler.check.statements import Statements
    from minip4.compiler.check.states import States
    from minip4.compiler.check.tables import Tables
    from minip4.compiler.check.type_names import TypeNames

WIDEST_BITS = 2048  # maximum W of bit<W> and int<W>, as in p4c; the specification has no such limit

E = TypeVar("E", bound=syntax.Expression)

Applicable = syntax.ParserDeclaration | syntax.ControlDeclaration

TYPE_DECLARATIONS = (
    syntax.StructDeclaration,
    syntax.EnumDeclaration,
    syntax.TypedefDeclaration,
    syntax.ExternDeclaration,
    syntax.ParserTypeDeclaration,
    syntax.ControlTypeDeclaration,
    syntax.ParserDeclaration,
    syntax.ControlDeclaration,
    syntax.PackageDeclaration,
    syntax.TypeParameter,
)


@dataclass(slots=True)
class Scope:
    """The names in one block; an overloaded function has several declarations (6.6)."""

    names: dict[str, list[syntax.Declaration]] = field(default_factory=dict)


@dataclass(slots=True)
class Place:
    """The location of the checked code. It determines which statements and calls are allowed."""

    kind: str  # "top", "parser", "control", "action" or "function"
    name: str = ""
    result: Type | None = None  # result type of a function
    loops: int = 0  # number of enclosing for loops
    this: Type | None = None  # type of the instance that has the method


class Context:
    """Scopes and the current location. The checks call each other through this object."""

    type_names: TypeNames
    conversions: Conversions
    operators: Operators
    expressions: Expressions
    arguments: Arguments
    calls: Calls
    statements: Statements
    tables: Tables
    states: States
    declarations: Declarations

    def __init__(self, program: syntax.Program) -> None:
        self.program = program
        self.warn = program.warnings.add
        self.scopes: list[Scope] = [Scope()]
        self.place = Place("top")
        self.errors: dict[str, syntax.ErrorMember] = {}
        self.match_kinds: dict[str, syntax.MatchKindMember] = {}

    def is_deprecated(self, d: syntax.Declaration, source: Source) -> None:
        """Warn about a use of a deprecated declaration (18.3.4)."""
        annotation = d.annotation("deprecated")
        if annotation is not None:
            hint = "".join(f": {v}" for v in annotation.values)
            self.warn("deprecated", f"{d.name!r} is deprecated{hint}", source)

    # ------------------------------------------------------------ scopes

    @contextmanager
    def scope(self) -> Iterator[None]:
        self.scopes.append(Scope())
        try:
            yield
        finally:
            self.scopes.pop()

    @contextmanager
    def at(self, place: Place) -> Iterator[None]:
        outer, self.place = self.place, place
        try:
            yield
        finally:
            self.place = outer

    def declare(self, declaration: syntax.Declaration) -> None:
        """Add a name to the innermost scope; reject a duplicate."""
        known = self.scopes[-1].names.setdefault(declaration.name, [])
        for other in known:
            if _is_local_over_parameter(declaration, other):
                what = f"{declaration.name!r} hides the parameter declared at {other.source}"
                self.warn("shadow", what, declaration.source, "another name")
            elif not _may_overload(declaration, other):
                raise P4Error(
                    f"{declaration.name!r} is declared twice; first at {other.source}",
                    declaration.source,
                    "another name",
                )
        if not known:
            self.check_shadowing(declaration)
        known.append(declaration)

    def check_shadowing(self, declaration: syntax.Declaration) -> None:
        """Warn if a local name hides a parameter. This is often a mistake."""
        name, is_parameter = declaration.name, isinstance(declaration, syntax.Parameter)
        hidden = [d for scope in self.scopes[:-1] for d in scope.names.get(name, ())]
        for other in hidden:
            if isinstance(other, syntax.Parameter) and not is_parameter:
                message = f"{name!r} hides the parameter declared at {other.source}"
                raise P4Error(message, declaration.source, "another name")
            if not other.source.file.is_system and not isinstance(other, syntax.TypeParameter):
                message = f"{name!r} hides the declaration at {other.source}"
                self.warn("shadow", message, declaration.source, "another name")

    def lookup_all(self, name: str, is_absolute: bool = False) -> list[syntax.Declaration]:
        if is_absolute:
            return self.scopes[0].names.get(name, [])
        for scope in reversed(self.scopes):
            found = scope.names.get(name)
            if found:
                return found
        return []

    def lookup(self, name: str, is_absolute: bool, source: Source) -> syntax.Declaration:
        found = self.lookup_all(name, is_absolute)
        if not found:
            raise self.unknown_name(name, source)
        return found[-1]

    def unknown_name(self, name: str, source: Source) -> P4Error:
        later = self.program.find(name)
        if later is not None and later.name == self.place.name:
            return P4Error(f"{name!r} uses itself, but recursion is not allowed", source)
        if later is not None:
            return P4Error(
                f"{name!r} is used before its declaration at {later.source}",
                source,
                "a name declared above this line",
            )
        if name == self.place.name:
            return P4Error(f"{name!r} uses itself, but recursion is not allowed", source)
        known = [n for scope in self.scopes for n in scope.names]
        return P4Error(f"{name!r} is not declared{did_you_mean(name, known)}", source)


def _is_local_over_parameter(declaration: syntax.Declaration, other: syntax.Declaration) -> bool:
    """Return whether a local hides a parameter of its control or parser. p4c allows this."""
    no_local = (syntax.Parameter, syntax.TypeParameter)
    return isinstance(other, syntax.Parameter) and not isinstance(declaration, no_local)


def _may_overload(a: syntax.Declaration, b: syntax.Declaration) -> bool:
    """Return whether functions with the same name differ in number or names of parameters (6.6)."""
    if not isinstance(a, syntax.Function) or not isinstance(b, syntax.Function):
        return False
    return [p.name for p in a.parameters] != [p.name for p in b.parameters]


def typed(e: E, of: Type, constant: syntax.Constant | None = None) -> E:
    """Set the attributes that every checked expression has."""
    e.type = of
    e.constant = constant
    return e


def bits(width: int, signed: bool, source: Source) -> types.Bits:
    """Return `bit<width>`, or `int<width>` if signed; reject widths above p4c's limit."""
    of = types.Bits(width, signed)
    if width > WIDEST_BITS:
        raise P4Error(f"{of} is too wide", source, f"at most {WIDEST_BITS} bits")
    return of


def reduced(value: int, of: Type) -> int:
    """Return a value modulo the range of a fixed-width type (8.5, 8.6)."""
    if not isinstance(of, types.Bits):
        return value
    value &= (1 << of.width) - 1
    if of.signed and of.width and value >> (of.width - 1):
        value -= 1 << of.width
    return value


def is_numeric(of: Type) -> bool:
    return of is types.INTEGER or isinstance(of, types.Bits)


def describe(of: Type) -> str:
    """Describe a type for an error message."""
    if of is types.INTEGER:
        return "an integer without a width"
    if isinstance(of, types.Function | types.TableType | types.ApplyResult | types.ActionRun):
        return f"a {of}"
    return str(of)


def what_is(declaration: syntax.Declaration) -> str:
    """Return the kind of a declaration for an error message: "a table", "an action"."""
    words = {
        syntax.StructDeclaration: "a type",
        syntax.EnumDeclaration: "an enum",
        syntax.TypedefDeclaration: "a type",
        syntax.ExternDeclaration: "an extern type",
        syntax.ParserTypeDeclaration: "a parser type",
        syntax.ControlTypeDeclaration: "a control type",
        syntax.ParserDeclaration: "a parser",
        syntax.ControlDeclaration: "a control",
        syntax.PackageDeclaration: "a package",
        syntax.TypeParameter: "a type parameter",
        syntax.ConstantDeclaration: "a constant",
        syntax.VariableDeclaration: "a variable",
        syntax.Parameter: "a parameter",
        syntax.Instantiation: "an instance",
        syntax.ValueSet: "a value_set",
        syntax.Table: "a table",
        syntax.Action: "an action",
        syntax.Function: "a function",
        syntax.State: "a parser state",
    }
    return words.get(type(declaration), "no value")
