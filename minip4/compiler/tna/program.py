"""Lowering of a TNA program: the six blocks of its Pipeline."""

from __future__ import annotations

from minip4.compiler import ir, syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.lower import places
from minip4.compiler.lower.calls import all_statements
from minip4.compiler.lower.deparser import Emit
from minip4.compiler.lower.program import ProgramLowering
from minip4.compiler.tna import direct
from minip4.compiler.tna.externs import EXTERNS
from minip4.compiler.tna.hardware import warn_of_limits

# The names of the intrinsic metadata in the intermediate form, by their types. Those of egress
# begin with "eg".
_INTRINSIC = {
    "ingress_intrinsic_metadata_t": "ig_intr_md",
    "ingress_intrinsic_metadata_for_tm_t": "ig_intr_md_for_tm",
    "ingress_intrinsic_metadata_from_parser_t": "ig_intr_md_from_prsr",
    "ingress_intrinsic_metadata_for_deparser_t": "ig_intr_md_for_dprsr",
    "egress_intrinsic_metadata_t": "eg_intr_md",
    "egress_intrinsic_metadata_from_parser_t": "eg_intr_md_from_prsr",
    "egress_intrinsic_metadata_for_deparser_t": "eg_intr_md_for_dprsr",
    "egress_intrinsic_metadata_for_output_port_t": "eg_intr_md_for_oport",
}


class TnaLowering(ProgramLowering):
    externs = EXTERNS

    def lower(self) -> ir.Program:
        context = self.context
        self.errors_and_enums()
        self._intrinsic: dict[str, places.Place] = {}
        for declaration in self._source.declarations:
            name = _INTRINSIC.get(declaration.name)
            if name is not None and isinstance(declaration, syntax.StructDeclaration):
                self._intrinsic[declaration.name] = self._intrinsic_place(declaration, name)
        deparsers = []
        for gress in ("ingress", "egress"):
            own = self._allocate(gress)
            parser = f"{gress}_parser"
            self.block(parser, self._arguments(parser, own), "parser")
            self.pipeline(gress, self._arguments(gress, own))
            deparsers.append((f"{gress}_deparser", own))
        direct.bind(context)
        for name, own in deparsers:
            code = self.block(name, self._arguments(name, own), "deparser")
            source = self._architecture.blocks[name].declaration.source
            context.program.deparsers.append(_deparser(name, source, code))
        self.extern_objects()
        warn_of_limits(self._source, context.program)
        return context.program

    def _intrinsic_place(self, declaration: syntax.StructDeclaration, name: str) -> places.Place:
        storage = self.context.storage
        if declaration.keyword == "header":
            return storage.allocate(types.Header(declaration), name, declaration.source)
        return storage.metadata_instance(types.Struct(declaration), name)

    def _allocate(self, gress: str) -> list[places.Place]:
        """Allocate the user's headers and metadata of ingress or egress."""
        parser = self._architecture.blocks[f"{gress}_parser"]
        _, headers, metadata, *_ = parser.declaration.parameters
        resolve, allocate = parser.environment.resolve, self.context.storage.allocate
        return [
            allocate(resolve(headers.type), gress, headers.source),
            allocate(resolve(metadata.type), f"{gress}.metadata", metadata.source),
        ]

    def _arguments(self, block: str, own: list[places.Place]) -> list[places.Place | None]:
        """Return the storage of a block's parameters; intrinsic metadata are found by type.

        The packet (of parsers and deparsers), the headers and the metadata are first.
        """
        instance = self._architecture.blocks[block]
        result: list[places.Place | None] = []
        left = list(own)
        for parameter in instance.declaration.parameters:
            of = types.strip_newtypes(instance.environment.resolve(parameter.type))
            if isinstance(of, types.Extern):
                result.append(None)
            elif left:
                result.append(left.pop(0))
            else:
                assert isinstance(of, types.Named)
                result.append(self._intrinsic[of.name])
        return result


def _deparser(name: str, source: syntax.Source, code: list[ir.Statement]) -> ir.Deparser:
    """Split the code of a deparser into statements and the order of headers."""
    result = ir.Deparser(name, source, [], [])
    for statement in all_statements(code):
        _require_supported(statement, is_egress=name == "egress_deparser")
    _split(code, result)
    return result


def _require_supported(statement: ir.Statement, *, is_egress: bool) -> None:
    if isinstance(statement, ir.Exit):
        assert statement.source is not None
        raise P4Error(
            "exit in a deparser is not supported", statement.source, "an if statement instead"
        )
    if is_egress and isinstance(statement, ir.SendDigest | ir.ResubmitWith):
        assert statement.source is not None
        raise P4Error(
            "Digest and Resubmit cannot be used in the egress deparser", statement.source,
            "a call in the ingress deparser",
        )  # fmt: skip


def _split(code: list[ir.Statement], result: ir.Deparser) -> None:
    for statement in code:
        match statement:
            case Emit():
                result.order.append(statement.header)
            case ir.If(condition=ir.IsValid() as test, then=then, otherwise=[]) if then and all(
                isinstance(s, Emit) and s.header == test.header for s in then
            ):
                result.order.append(test.header)  # emit() skips invalid headers
            case _:
                _require_no_emit(statement)
                _require_unchanged(statement, result.order)
                result.body.append(statement)


def _require_no_emit(statement: ir.Statement) -> None:
    for inner in all_statements([statement]):
        if isinstance(inner, Emit):
            assert inner.source is not None
            raise P4Error(
                "emit() under a condition is not supported",
                inner.source,
                "emit() of a header that is valid under this condition",
            )


def _require_unchanged(statement: ir.Statement, order: list[str]) -> None:
    """Reject a change of a header after its emit(), since all headers are written at the end."""
    for inner in all_statements([statement]):
        changed = None
        if isinstance(inner, ir.Assign) and isinstance(inner.target, ir.Field):
            changed = inner.target.header
        elif isinstance(inner, ir.CopyHeader):
            changed = inner.target
        elif isinstance(inner, ir.SetValid | ir.SetInvalid):
            changed = inner.header
        if changed in order:
            assert inner.source is not None
            message = "a header changes after its emit(), which is not supported"
            raise P4Error(message, inner.source, "the change before emit()")
