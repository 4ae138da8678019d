"""Lowers a whole v1model program: its six blocks, and the objects they use."""

from __future__ import annotations

from minip4.compiler import syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.architecture import Architecture
from minip4.compiler.instances.objects import (
    Environment,
    ExternObject,
    annotation_numbers,
)
from minip4.compiler.lower import ir, places
from minip4.compiler.lower.base import Frame, Shared
from minip4.compiler.lower.parsers import Parsers
from minip4.compiler.lower.storage import field_types, scalar_type
from minip4.compiler.types import Bits


class ProgramLowering(Parsers):
    def __init__(self, program: syntax.Program, architecture: Architecture, shared: Shared) -> None:
        super().__init__(program.path, shared)
        self._source = program
        self._architecture = architecture
        self._blocks = architecture.blocks
        self.environment = architecture.environment
        no_action = program.find("NoAction")
        assert isinstance(no_action, syntax.Action)
        self.no_action = no_action
        parameters = self._blocks["parser"].declaration.parameters
        packet, headers, metadata, standard = (
            self._blocks["parser"].environment.resolve(p.type) for p in parameters
        )
        del packet
        standard_type = types.strip_newtypes(standard)
        assert isinstance(standard_type, types.Struct)
        self.standard_metadata = self.storage.metadata_instance(standard_type, "standard_metadata")
        self._metadata = self.storage.allocate(metadata, "userMetadata", parameters[2].source)
        self._headers = self.storage.allocate(headers, "", parameters[1].source)
        self._field_lists(metadata, self._metadata, ())

    def lower(self) -> ir.Program:
        self._declarations()
        self._enter("parser", [None, self._headers, self._metadata, self.standard_metadata])
        pipelines = [self._pipeline(name) for name in ("ingress", "egress")]
        self.program.pipelines = pipelines
        self.check_direct_uses()
        self._deparser()
        for block in ("compute", "verify"):
            with self.collecting() as code:
                self._enter(block, [self._headers, self._metadata])
            _require_nothing(code, "only checksums can be computed in this control")
        self._objects()
        self.storage.finish()
        return self.program

    def _declarations(self) -> None:
        self.program.errors = [(e.name, e.number) for e in self._source.errors]
        self.program.enums = {
            d.name: [(m.name, m.number) for m in d.members]
            for d in self._source.declarations
            if isinstance(d, syntax.EnumDeclaration)
            and d.underlying is None
            and not d.source.file.is_system
        }

    def _field_lists(self, of: types.Type, place: places.Place, inherited: tuple[int, ...]) -> None:
        """`@field_list(1, 2)` on user metadata: what goes along with copies of a packet."""
        of = types.strip_newtypes(of)
        if isinstance(of, types.StructLike) and isinstance(place, places.Group | places.Header):
            for f in of.declaration.fields:
                annotation = f.annotation("field_list")
                tags = inherited
                if annotation is not None:
                    tags = (*tags, *annotation_numbers(annotation))
                self._field_lists(of.fields[f.name], place.members[f.name], tags)
            return
        if not inherited:
            return
        if scalar_type(of) is None and field_types(of) is None:
            raise P4Error(f"@field_list on {of} is not supported", self._source.source)
        for expression in self.flattened(place, self._source.source):
            for tag in inherited:
                self._add_to_field_list(f"field_list{tag}", expression)

    def _add_to_field_list(self, name: str, expression: ir.Expression) -> None:
        known = next((f for f in self.program.field_lists if f.name == name), None)
        if known is None:
            known = ir.FieldList(len(self.program.field_lists) + 1, name, [])
            self.program.field_lists.append(known)
        if expression not in known.elements:
            known.elements.append(expression)

    # -- blocks

    def _enter(self, block: str, arguments: list[places.Place | None]) -> None:
        """Lowers a block of the architecture, its parameters bound to the program's storage."""
        self.block = block
        self.instance = instance = self._blocks[block]
        declaration = instance.declaration
        environment = Environment(instance.environment)
        for parameter, argument in zip(declaration.parameters, arguments, strict=True):
            if argument is None:
                of = instance.environment.resolve(parameter.type)
                assert isinstance(of, types.Extern)
                environment.bindings[parameter] = ExternObject(
                    parameter.name, of, [], parameter.source
                )
            else:
                environment.bindings[parameter] = argument
        with self.within(environment):
            if isinstance(declaration, syntax.ParserDeclaration):
                self.top_parser(instance)
            else:
                self.declare_locals(declaration.locals, instance)
                self.inline(declaration.body, Frame(self.new_label()), declaration.source)

    def _pipeline(self, block: str) -> ir.Pipeline:
        self.pipeline_profiles = []
        with self.collecting() as code:
            self._enter(block, [self._headers, self._metadata, self.standard_metadata])
        source = self._blocks[block].declaration.source
        return ir.Pipeline(block, source, code, self.pipeline_profiles)

    def _deparser(self) -> None:
        with self.collecting() as code:
            self._enter("deparser", [None, self._headers])
        self.program.deparser_source = self._blocks["deparser"].declaration.source
        self._emits(code)

    def _emits(self, code: list[ir.Statement]) -> None:
        for statement in code:
            match statement:
                case ir.Primitive(name="emit", arguments=[ir.Reference() as header]):
                    self.program.deparser_order.append(header.name)
                case ir.Labelled(body=body):
                    self._emits(body)
                case ir.If(condition=ir.IsValid() as test, then=then, otherwise=[]) if all(
                    isinstance(s, ir.Primitive)
                    and s.name == "emit"
                    and s.arguments == [ir.Reference("header", test.header)]
                    for s in then
                ):
                    self._emits(then)  # emit() skips an invalid header by itself
                case _:
                    _require_nothing([statement], "only emit() is supported in a deparser")

    # -- objects

    def _objects(self) -> None:
        for item in self._architecture.extern_objects():
            match item.type.name:
                case "counter":
                    self.program.counters.append(ir.Counter(item.name, item.source, _size(item)))
                case "meter":
                    unit = item.arguments[1]
                    assert isinstance(unit, syntax.EnumMember)
                    self.program.meters.append(
                        ir.Meter(item.name, item.source, unit.name, _size(item))
                    )
                case "register":
                    self._register(item)
                case "direct_counter" if not self.is_direct_used(item.name):
                    self._source.warnings.add(
                        "unused",
                        f"{item.name} counts nothing",
                        item.source,
                        "counters = ... in a table that is applied",
                    )

    def _register(self, item: ExternObject) -> None:
        of = scalar_type(item.type.arguments[0])
        if not isinstance(of, Bits):
            raise P4Error(
                f"a register of {item.type.arguments[0]} is not supported",
                item.source,
                "bit<> or int<>",
            )
        size = _size(item)
        if size == 0:
            raise P4Error("a register needs at least one cell", item.source)
        self.program.registers.append(ir.Register(item.name, item.source, size, of.width))


def _size(item: ExternObject) -> int:
    size = item.arguments[0]
    if isinstance(size, syntax.EnumMember):
        return size.number
    assert isinstance(size, int)
    return size


def _require_nothing(code: list[ir.Statement], message: str) -> None:
    for statement in code:
        if isinstance(statement, ir.Labelled):
            _require_nothing(statement.body, message)
        elif isinstance(statement, ir.If):
            _require_nothing(statement.then + statement.otherwise, message)
        elif not isinstance(statement, ir.Leave):
            assert statement.source is not None
            raise P4Error(message, statement.source)
