"""Lowering of a v1model program: its six blocks."""

from __future__ import annotations

from minip4.compiler import ir, types
from minip4.compiler.lower import places
from minip4.compiler.lower.context import Externs
from minip4.compiler.lower.deparser import emitted, require_nothing
from minip4.compiler.lower.externs import FUNCTIONS, METHODS, selector_algorithm
from minip4.compiler.lower.field_lists import add_tagged
from minip4.compiler.lower.program import ProgramLowering


class V1ModelLowering(ProgramLowering):
    externs = Externs(FUNCTIONS, METHODS, selector_algorithm)

    def lower(self) -> ir.Program:
        context = self.context
        self.errors_and_enums()
        headers, metadata = self._allocate()
        standard = context.standard_metadata
        self.block("parser", [None, headers, metadata, standard])
        for name in ("ingress", "egress"):
            self.pipeline(name, [headers, metadata, standard])
        context.properties.check_direct_uses()
        source = self._architecture.blocks["deparser"].declaration.source
        order = list(emitted(self.block("deparser", [None, headers])))
        context.program.deparsers.append(ir.Deparser("deparser", source, order, []))
        for name in ("compute", "verify"):
            code = self.block(name, [headers, metadata])
            require_nothing(code, "this control can compute only checksums")
        self.extern_objects()
        return context.program

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
