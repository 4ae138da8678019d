"""Lowering of a v1model program: its six blocks and their objects."""

from __future__ import annotations

from minip4.compiler import ir, syntax, types
from minip4.compiler.instances.architecture import Architecture
from minip4.compiler.instances.objects import Environment, ExternObject
from minip4.compiler.lower import extern_objects, places
from minip4.compiler.lower.applications import Applications
from minip4.compiler.lower.calls import Calls
from minip4.compiler.lower.context import Context, Frame, Shared
from minip4.compiler.lower.deparser import emitted, require_nothing
from minip4.compiler.lower.expressions import Expressions
from minip4.compiler.lower.field_lists import add_tagged
from minip4.compiler.lower.parsers import Parsers
from minip4.compiler.lower.statements import Statements
from minip4.compiler.lower.table_properties import TableProperties
from minip4.compiler.lower.tables import Tables


class ProgramLowering:
    """Lowers a program, in the order of the statements of lower()."""

    def __init__(self, source: syntax.Program, architecture: Architecture, shared: Shared) -> None:
        self._source = source
        self._architecture = architecture
        self.context = context = Context(source.path, architecture.environment, shared)
        context.expressions = Expressions(context)
        context.calls = Calls(context)
        context.applications = Applications(context)
        context.statements = Statements(context)
        context.properties = TableProperties(context)
        no_action = source.find("NoAction")
        assert isinstance(no_action, syntax.Action)
        context.tables = Tables(context, no_action)
        context.parsers = Parsers(context)

    def lower(self) -> ir.Program:
        context = self.context
        self._errors_and_enums()
        headers, metadata = self._allocate()
        standard = context.standard_metadata
        self._block("parser", [None, headers, metadata, standard])
        for name in ("ingress", "egress"):
            profiles: list[ir.Profile] = []
            context.properties.profiles = profiles
            code = self._block(name, [headers, metadata, standard])
            source = self._architecture.blocks[name].declaration.source
            context.program.pipelines.append(ir.Pipeline(name, source, code, profiles))
        context.properties.check_direct_uses()
        context.program.deparser_source = self._architecture.blocks["deparser"].declaration.source
        context.program.deparser_order = list(emitted(self._block("deparser", [None, headers])))
        for name in ("compute", "verify"):
            code = self._block(name, [headers, metadata])
            require_nothing(code, "this control can compute only checksums")
        self._extern_objects()
        return context.program

    def _errors_and_enums(self) -> None:
        program = self.context.program
        program.errors = [(e.name, e.number) for e in self._source.errors]
        program.enums = {
            d.name: [(m.name, m.number) for m in d.members]
            for d in self._source.declarations
            if isinstance(d, syntax.EnumDeclaration)
            and d.underlying is None
            and not d.source.file.is_system
        }

    def _allocate(self) -> tuple[places.Place, places.Place]:
        """Allocate the storage that all blocks share, for the user's headers and metadata."""
        context, parser = self.context, self._architecture.blocks["parser"]
        _, headers, metadata, standard = parser.declaration.parameters
        resolve = parser.environment.resolve
        standard_type = types.strip_newtypes(resolve(standard.type))
        assert isinstance(standard_type, types.Struct)
        allocate = context.storage.allocate
        context.standard_metadata = context.storage.metadata_instance(
            standard_type, "standard_metadata"
        )
        metadata_type = resolve(metadata.type)
        metadata_place = allocate(metadata_type, "userMetadata", metadata.source)
        context.user_metadata = metadata_place
        headers_place = allocate(resolve(headers.type), "", headers.source)
        add_tagged(context, metadata_type, metadata_place, self._source.source)
        return headers_place, metadata_place

    def _block(self, name: str, arguments: list[places.Place | None]) -> list[ir.Statement]:
        """Return the code of a block, with its parameters bound to the storage of the program."""
        context = self.context
        context.block = name
        context.instance = instance = self._architecture.blocks[name]
        declaration = instance.declaration
        environment = Environment(instance.environment)
        for parameter, argument in zip(declaration.parameters, arguments, strict=True):
            environment.bindings[parameter] = argument
            if argument is None:  # the parameter is the packet
                of = instance.environment.resolve(parameter.type)
                assert isinstance(of, types.Extern)
                packet = ExternObject(parameter.name, of, [], parameter.source)
                environment.bindings[parameter] = packet
        with context.collecting() as code, context.within(environment):
            if isinstance(declaration, syntax.ParserDeclaration):
                # the code of the parser becomes the states of the program
                context.parsers.top_parser(instance)
            else:
                context.calls.declare_locals(declaration.locals, instance)
                frame = Frame(context.new_label())
                context.calls.inline(declaration.body, frame, declaration.source)
        return code

    def _extern_objects(self) -> None:
        for item in self._architecture.extern_objects():
            extern_objects.declare(self.context, item)
            is_direct = item.type.name == "direct_counter"
            if is_direct and not self.context.properties.is_direct_used(item.name):
                self._source.warnings.add(
                    "unused",
                    f"{item.name} counts nothing",
                    item.source,
                    "counters = ... in a table that is applied",
                )
