"""Lowering of a program: its blocks and their objects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from minip4.compiler import ir, syntax, types
from minip4.compiler.instances.architecture import Architecture
from minip4.compiler.instances.objects import Environment, ExternObject
from minip4.compiler.lower import extern_objects, places
from minip4.compiler.lower.applications import Applications
from minip4.compiler.lower.calls import Calls
from minip4.compiler.lower.context import Context, Externs, Frame, Shared
from minip4.compiler.lower.expressions import Expressions
from minip4.compiler.lower.parsers import Parsers
from minip4.compiler.lower.statements import Statements
from minip4.compiler.lower.table_properties import TableProperties
from minip4.compiler.lower.tables import Tables


class ProgramLowering(ABC):
    """Lowers a program. Subclasses know the order of the blocks of one architecture."""

    externs: Externs

    def __init__(self, source: syntax.Program, architecture: Architecture, shared: Shared) -> None:
        self._source = source
        self._architecture = architecture
        self.context = context = Context(source.path, architecture.environment, shared)
        context.externs = self.externs
        context.expressions = Expressions(context)
        context.calls = Calls(context)
        context.applications = Applications(context)
        context.statements = Statements(context)
        context.properties = TableProperties(context)
        no_action = source.find("NoAction")
        assert isinstance(no_action, syntax.Action)
        context.tables = Tables(context, no_action)
        context.parsers = Parsers(context)

    @abstractmethod
    def lower(self) -> ir.Program:
        """Return the lowered program. Raises P4Error."""

    def errors_and_enums(self) -> None:
        program = self.context.program
        program.errors = [(e.name, e.number) for e in self._source.errors]
        program.enums = {
            d.name: [(m.name, m.number) for m in d.members]
            for d in self._source.declarations
            if isinstance(d, syntax.EnumDeclaration)
            and d.underlying is None
            and not d.source.file.is_system
        }

    def block(
        self, name: str, arguments: Sequence[places.Place | None], role: str = ""
    ) -> list[ir.Statement]:
        """Return the code of a block, with its parameters bound to the storage of the program.

        An argument None stands for the packet. `role` is the value of Context.block; by default,
        it is the name.
        """
        context = self.context
        context.block = role or name
        context.instance = instance = self._architecture.blocks[name]
        declaration = instance.declaration
        environment = Environment(instance.environment)
        for parameter, argument in zip(declaration.parameters, arguments, strict=True):
            environment.bindings[parameter] = argument
            if argument is None:
                of = instance.environment.resolve(parameter.type)
                assert isinstance(of, types.Extern)
                packet = ExternObject(parameter.name, of, [], parameter.source)
                environment.bindings[parameter] = packet
        with context.collecting() as code, context.within(environment):
            if isinstance(declaration, syntax.ParserDeclaration):
                # the code of the parser becomes the states of the program
                context.parsers.top_parser(instance, name)
            else:
                context.calls.declare_locals(declaration.locals, instance)
                frame = Frame(context.new_label())
                context.calls.inline(declaration.body, frame, declaration.source)
        return code

    def pipeline(self, name: str, arguments: Sequence[places.Place | None], role: str = "") -> None:
        """Add a control with tables to the program."""
        profiles: list[ir.Profile] = []
        self.context.properties.profiles = profiles
        code = self.block(name, arguments, role)
        source = self._architecture.blocks[name].declaration.source
        self.context.program.pipelines.append(ir.Pipeline(name, source, code, profiles))

    def extern_objects(self) -> None:
        for item in self._architecture.extern_objects():
            extern_objects.declare(self.context, item)
            is_direct = item.kind == "direct_counter"
            if is_direct and not self.context.properties.is_direct_used(item.name):
                self._source.warnings.add(
                    "unused",
                    f"{item.name} counts nothing",
                    item.source,
                    "counters = ... in a table that is applied",
                )
