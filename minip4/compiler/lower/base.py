"""What all of lowering shares: the program under construction, the current code and names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from minip4.compiler import syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import Environment, ExternObject, Instance, Known
from minip4.compiler.lower import ir, places
from minip4.compiler.lower.storage import Storage, field_types, scalar_type


@dataclass(slots=True, eq=False)
class Frame:
    """A function, action, control or parser being lowered in the place of its call."""

    label: int
    result: places.Place | None = None
    copy_out: list[Callable[[], None]] = field(default_factory=list)
    is_shared: bool = False  # several calls share the code, but copy out to different places


# Controls (by instance name) and parameters of theirs that Restart has found.
Shared = set[tuple[str, syntax.Parameter | None]]


class Restart(Exception):
    """Lowering must begin again, with the control (and its parameter) known as shared: applied
    in several places with different arguments, while its tables and actions are made once."""

    def __init__(self, instance: str, parameter: syntax.Parameter | None) -> None:
        super().__init__()
        self.shared = (instance, parameter)


class Lowering(ABC):
    """State and helpers. `block` says where we are: parser, ingress, egress, deparser, verify,
    compute (the blocks of v1model)."""

    def __init__(self, path: str, shared: Shared) -> None:
        self.shared = shared
        self.program = ir.Program(path)
        self.storage = Storage(self.program)
        self.environment = Environment()
        self.code: list[ir.Statement] = []
        self.block = ""
        self.in_action = False
        self.instance: Instance | None = None
        self.frames: list[Frame] = []
        self.loops: list[tuple[int, int]] = []  # labels of break and continue
        self.instance_storage: dict[tuple[Instance, syntax.Declaration], places.Place] = {}
        self.conditions: list[ir.Expression] = []  # of the ifs around (checksums need them)
        self._labels = 0

    # -- code

    @contextmanager
    def collecting(self) -> Iterator[list[ir.Statement]]:
        """Lowers what follows into a list of its own."""
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

    def primitive(
        self, name: str, arguments: list[ir.Argument], source: syntax.Source | None
    ) -> None:
        self.emit(ir.Primitive(source, name, arguments))

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

    def saved(self, expression: ir.Expression, source: syntax.Source) -> ir.Expression:
        """The value it has now, in a temporary if it could change later."""
        if isinstance(expression, ir.Constant | ir.ActionData | ir.Text):
            return expression
        return self.saved_field(expression, source)

    def saved_field(self, expression: ir.Expression, source: syntax.Source) -> ir.Field:
        """A temporary that has its value now."""
        target = self.temporary_field(expression.type, source)
        self.emit(ir.Assign(source, target, expression))
        return target

    # -- values

    def constant_value(
        self, constant: syntax.Constant, of: types.Type, source: syntax.Source
    ) -> places.Value:
        of = types.strip_newtypes(self.environment.resolve(of))
        if isinstance(constant, tuple):
            members = field_types(of)
            if members is None and isinstance(of, types.Stack | types.List):
                members = {str(i): of.element for i in range(len(constant))}
            if members is None:
                raise P4Error(f"a constant of type {of} is not supported here", source)
            values = {
                name: self.constant_value(c, t, source)
                for (name, t), c in zip(members.items(), constant, strict=True)
            }
            return places.Compound(values, isinstance(of, types.Header))
        if isinstance(constant, str):
            return ir.Text(types.STRING, constant)
        if isinstance(constant, syntax.EnumMember | syntax.ErrorMember):
            scalar = scalar_type(of)
            return ir.Constant(scalar or types.Bits(32), constant.number)
        if isinstance(constant, syntax.MatchKindMember):
            raise P4Error("a match_kind is not a value at run time", source)
        return ir.Constant(scalar_type(of) or of, int(constant))

    def bound_value(
        self, name: syntax.Name, declaration: syntax.Declaration
    ) -> places.Value | ExternObject | Instance | None:
        bound = self.environment.lookup(declaration)
        if isinstance(bound, Known):
            return self.constant_value(bound.constant, name.type, name.source)
        return bound  # type: ignore[return-value]

    # -- implemented by the layers above

    @abstractmethod
    def value(self, expression: syntax.Expression) -> places.Value: ...

    @abstractmethod
    def scalar(self, expression: syntax.Expression) -> ir.Expression: ...

    @abstractmethod
    def assign(
        self, target: places.Place, value: places.Value, source: syntax.Source | None
    ) -> None: ...

    @abstractmethod
    def call(self, call: syntax.Call) -> places.Value | None: ...

    @abstractmethod
    def statement(self, statement: syntax.Statement | syntax.Declaration) -> None: ...

    @abstractmethod
    def apply_table(self, table: syntax.Table, source: syntax.Source) -> ir.Apply: ...

    @abstractmethod
    def apply_parser(self, instance: Instance, call: syntax.Call) -> None: ...
