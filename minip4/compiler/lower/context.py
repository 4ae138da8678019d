"""State that all lowering passes share: the program under construction and the current location."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from minip4.compiler import ir, syntax, types
from minip4.compiler.instances.objects import Environment, ExternObject, Instance
from minip4.compiler.lower import places
from minip4.compiler.lower.storage import Storage

if TYPE_CHECKING:
    from minip4.compiler.lower.applications import Applications
    from minip4.compiler.lower.calls import Calls
    from minip4.compiler.lower.expressions import Expressions
    from minip4.compiler.lower.parsers import Parsers
    from minip4.compiler.lower.statements import Statements
    from minip4.compiler.lower.table_properties import TableProperties
    from minip4.compiler.lower.tables import Tables


@dataclass(slots=True, eq=False)
class Frame:
    """A function, action, control or parser that is being inlined."""

    label: int
    result: places.Place | None = None
    copy_out: list[Callable[[], None]] = field(default_factory=list)
    instance: Instance | None = None  # instance of a control
    application: Application | None = None  # application of a shared control


@dataclass(slots=True, eq=False)
class Application:
    """One of several applications of a shared control, each with its own copy-out.

    `site` is the field with the number of the current application, or None if no action exits.
    """

    instance: Instance
    number: int
    site: ir.Field | None


# The shared controls that Restart has found, as pairs (instance name, reason). The reason is a
# parameter that is shared, Exit if an action exits, or None if the control itself is shared.
Shared = set[tuple[str, syntax.Parameter | type[syntax.Exit] | None]]


class Restart(Exception):
    """Restarts lowering, after a control or one of its parameters turned out to be shared.

    Such a control is applied at several locations with different arguments, but its tables and
    actions exist once.
    """

    def __init__(
        self, instance: str, found: syntax.Parameter | type[syntax.Exit] | None = None
    ) -> None:
        super().__init__()
        self.shared = (instance, found)


ExternFunction = Callable[["Context", syntax.Call], "places.Value | None"]
ExternMethod = Callable[["Context", syntax.Call, ExternObject], "places.Value | None"]


class Externs(NamedTuple):
    """The externs of an architecture: functions by name, methods by type and name."""

    functions: Mapping[str, ExternFunction]
    methods: Mapping[tuple[str, str], ExternMethod]
    selector_algorithm: Callable[[ExternObject], str]


class Context:
    """State and helper functions of lowering.

    The mutually recursive passes call each other through this object. `block` is the role of the
    current block: parser, ingress, egress, deparser, verify or compute.
    """

    externs: Externs
    expressions: Expressions
    calls: Calls
    applications: Applications
    statements: Statements
    properties: TableProperties
    tables: Tables
    parsers: Parsers

    standard_metadata: places.Group
    user_metadata: places.Place
    port_metadata_bits: int  # of TNA

    def __init__(self, path: str, environment: Environment, shared: Shared) -> None:
        self.shared = shared
        self.program = ir.Program(path)
        self.storage = Storage(self.program)
        self.environment = environment
        self.code: list[ir.Statement] = []
        self.block = ""
        self.in_action = False
        self.instance: Instance | None = None
        # the object whose abstract method is being inlined
        self.this: ExternObject | None = None
        self.frames: list[Frame] = []
        # labels for break and continue in the enclosing loops
        self.loops: list[tuple[int, int]] = []
        # code for the end of the current parser state
        self.at_end_of_state: list[Callable[[], None]] = []
        # conditions of the enclosing ifs; calls of checksum functions need them
        self.conditions: list[ir.Expression] = []
        self._labels = 0
        self._object_fields: dict[ExternObject, ir.Field] = {}

    # -- code

    @contextmanager
    def collecting(self) -> Iterator[list[ir.Statement]]:
        """Collect the code that is lowered in the `with` block in a separate list."""
        outer, self.code = self.code, []
        try:
            yield self.code
        finally:
            self.code = outer

    @contextmanager
    def within(self, environment: Environment) -> Iterator[None]:
        outer, self.environment = self.environment, environment
        try:
            yield
        finally:
            self.environment = outer

    def emit(self, statement: ir.Statement) -> None:
        self.code.append(statement)

    def new_label(self) -> int:
        self._labels += 1
        return self._labels

    # -- storage

    def temporary(self, of: types.Type, source: syntax.Source, name: str = "tmp") -> places.Place:
        return self.storage.allocate(self.environment.resolve(of), name, source)

    def temporary_field(self, of: types.Type, source: syntax.Source) -> ir.Field:
        place = self.temporary(of, source)
        assert isinstance(place, places.Scalar)
        assert isinstance(place.field, ir.Field)
        return place.field

    def object_field(self, item: ExternObject, of: types.Type) -> ir.Field:
        """Return the field that stores the state of an extern object for one packet."""
        if item not in self._object_fields:
            place = self.temporary(of, item.source, item.declared_name)
            assert isinstance(place, places.Scalar)
            assert isinstance(place.field, ir.Field)
            self._object_fields[item] = place.field
        return self._object_fields[item]

    def saved(self, expression: ir.Expression, source: syntax.Source) -> ir.Expression:
        """Return the current value of an expression, in a temporary if it can change later."""
        if isinstance(expression, ir.Constant | ir.ActionData | ir.Text):
            return expression
        return self.saved_field(expression, source)

    def saved_field(self, expression: ir.Expression, source: syntax.Source) -> ir.Field:
        """Return a temporary with the current value of an expression."""
        target = self.temporary_field(expression.type, source)
        self.emit(ir.Assign(source, target, expression))
        return target

    def simple(self, expression: ir.Expression, source: syntax.Source) -> ir.Expression:
        """Return a field, constant or action parameter with this value, as operations require."""
        if isinstance(expression, ir.Field | ir.Constant | ir.ActionData | ir.Text):
            return expression
        return self.saved(expression, source)
