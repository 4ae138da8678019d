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
        self.blocks: dict[str, Instance] = {}
        self.instantiate(program)

    @abstractmethod
    def instantiate(self, program: syntax.Program) -> None:
        """Create the global objects and the blocks. Raises P4Error."""

    def declare(
        self, program: syntax.Program, environment: Environment, prefix: str = ""
    ) -> list[ExternObject]:
        """Create the objects that are declared outside of the blocks; return the extern ones."""
        externs = []
        for declaration in program.declarations:
            if not isinstance(declaration, syntax.Instantiation) or declaration is self.main:
                continue
            if isinstance(declaration.type, types.Package):
                continue  # a part of `main`
            name = control_plane_name(declaration, prefix)
            made = instantiate(declaration.call, name, environment, declaration)
            environment.bindings[declaration] = made
            if isinstance(made, ExternObject):
                externs.append(made)
        return externs

    def block(
        self,
        argument: syntax.Expression,
        environment: Environment,
        prefix: str = "",
        name: str = "",
    ) -> Instance:
        """Return the instance of a block. `name` replaces the name of its declaration."""
        if isinstance(argument, syntax.Name) and argument.declaration is not None:
            bound = environment.lookup(argument.declaration)
            if isinstance(bound, Instance):
                return bound
        if isinstance(argument, syntax.Call) and argument.kind is CallKind.CONSTRUCTOR:
            of = argument.type
            if isinstance(of, types.Parser | types.Control):
                full = f"{prefix}.{name or of.declaration.name}".lstrip(".")
                return make_instance(of, argument.parameters, argument.arguments, full, environment)
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

    def instantiate(self, program: syntax.Program) -> None:
        self.globals = self.declare(program, self.environment)
        names = ("parser", *self.controls)
        arguments = [a for a in self.main.call.arguments if a is not None]
        for name, argument in zip(names, arguments, strict=True):
            self.blocks[name] = self.block(argument, self.environment)


def _externs_of(instance: Instance) -> Iterator[ExternObject]:
    for bound in instance.environment.bindings.values():
        if isinstance(bound, ExternObject) and bound.declaration is None:
            yield bound
    for child in instance.children:
        if isinstance(child, ExternObject):
            yield child
        elif isinstance(child, Instance):
            yield from _externs_of(child)
