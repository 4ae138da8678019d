"""The main package of a program: its blocks, and all extern objects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from minip4.compiler import syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.names import control_plane_name
from minip4.compiler.instances.objects import (
    Environment,
    ExternObject,
    Instance,
    instantiate,
    make_instance,
)
from minip4.compiler.syntax import CallKind

DEFAULT_TABLE_SIZE = 1024  # size of a table without the property `size`


class Architecture(ABC):
    """The instances of a program. Subclasses know the packages of one architecture."""

    name: str  # as in P4Info
    package: str  # type of `main`
    parsers: tuple[str, ...]  # names of the blocks that are parsers
    controls: tuple[str, ...]  # names of the other blocks

    def __init__(self, program: syntax.Program) -> None:
        main = program.main
        assert main is not None
        self.main = main
        self.environment = Environment()
        self.globals: list[ExternObject] = []
        for declaration in program.declarations:
            if isinstance(declaration, syntax.Instantiation) and declaration is not main:
                self._declare(declaration)
        self.blocks: dict[str, Instance] = {
            name: self._block(argument) for name, argument in self.arguments().items()
        }

    @abstractmethod
    def arguments(self) -> dict[str, syntax.Expression]:
        """Return the constructor argument of each block. Raises P4Error."""

    def _declare(self, declaration: syntax.Instantiation) -> None:
        name = control_plane_name(declaration)
        made = instantiate(declaration.call, name, self.environment, declaration)
        self.environment.bindings[declaration] = made
        if isinstance(made, ExternObject):
            self.globals.append(made)

    def _block(self, argument: syntax.Expression) -> Instance:
        if isinstance(argument, syntax.Name) and argument.declaration is not None:
            bound = self.environment.lookup(argument.declaration)
            if isinstance(bound, Instance):
                return bound
        if isinstance(argument, syntax.Call) and argument.kind is CallKind.CONSTRUCTOR:
            of = argument.type
            if isinstance(of, types.Parser | types.Control):
                name = of.declaration.name
                return make_instance(
                    of, argument.parameters, argument.arguments, name, self.environment
                )
        raise P4Error(f"this cannot be a block of {self.package}", argument.source)

    def extern_objects(self) -> Iterator[ExternObject]:
        """Return all extern objects: global ones, then those of each block."""
        yield from self.globals
        for instance in self.blocks.values():
            yield from _externs_of(instance)


class V1Switch(Architecture):
    """The six blocks of v1model."""

    name = "v1model"
    package = "V1Switch"
    parsers = ("parser",)
    controls = ("verify", "ingress", "egress", "compute", "deparser")

    def arguments(self) -> dict[str, syntax.Expression]:
        names = ("parser", *self.controls)
        arguments = [a for a in self.main.call.arguments if a is not None]
        return dict(zip(names, arguments, strict=True))


def _externs_of(instance: Instance) -> Iterator[ExternObject]:
    for bound in instance.environment.bindings.values():
        if isinstance(bound, ExternObject) and bound.declaration is None:
            yield bound
    for child in instance.children:
        if isinstance(child, ExternObject):
            yield child
        elif isinstance(child, Instance):
            yield from _externs_of(child)
