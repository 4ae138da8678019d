"""The V1Switch of a program: its six blocks, and all extern objects."""

from __future__ import annotations

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

BLOCKS = ("parser", "verify", "ingress", "egress", "compute", "deparser")
DEFAULT_TABLE_SIZE = 1024  # size of a table without the property `size`


class Architecture:
    """The instances of a v1model program."""

    def __init__(self, program: syntax.Program) -> None:
        main = program.main
        assert main is not None
        self.main = main
        self.environment = Environment()
        self.globals: list[ExternObject] = []
        for declaration in program.declarations:
            if isinstance(declaration, syntax.Instantiation) and declaration is not main:
                self._declare(declaration)
        package = main.type
        if (
            not isinstance(package, types.Package)
            or package.name != "V1Switch"
            or not package.declaration.source.file.is_system
        ):
            raise P4Error(
                f"package {package} is not supported", main.source, "V1Switch of v1model.p4"
            )
        self.blocks: dict[str, Instance] = {}
        for name, argument in zip(BLOCKS, main.call.arguments, strict=True):
            assert argument is not None
            self.blocks[name] = self._block(argument)

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
        raise P4Error("this cannot be a block of V1Switch", argument.source)

    def extern_objects(self) -> Iterator[ExternObject]:
        """Return all extern objects: global ones, then those of each block."""
        yield from self.globals
        for instance in self.blocks.values():
            yield from _externs_of(instance)


def _externs_of(instance: Instance) -> Iterator[ExternObject]:
    for bound in instance.environment.bindings.values():
        if isinstance(bound, ExternObject) and bound.declaration is None:
            yield bound
    for child in instance.children:
        if isinstance(child, ExternObject):
            yield child
        elif isinstance(child, Instance):
            yield from _externs_of(child)
