"""Lowering of a TNA program: the six blocks of each Pipeline."""

from __future__ import annotations

from minip4.compiler import ir, syntax, types
from minip4.compiler.analysis import all_nodes
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.objects import ExternObject, evaluate_number
from minip4.compiler.lower import places
from minip4.compiler.lower.calls import all_statements
from minip4.compiler.lower.context import Context
from minip4.compiler.lower.deparser import Emit
from minip4.compiler.lower.program import ProgramLowering
from minip4.compiler.tna import direct
from minip4.compiler.tna.architecture import GRESSES, PipelineBlocks, Switch
from minip4.compiler.tna.externs import EXTERNS
from minip4.compiler.tna.hardware import warn_of_limits

TOFINO1_PORT_METADATA_BITS = 64

# Fields of Tofino 2 that would change where a packet goes, or its bytes.
_WITHOUT_EFFECT = (
    "adv_flow_ctl", "mirror_coalesce_length", "mirror_deflect_on_drop", "mirror_egress_port",
    "mirror_multicast_ctrl", "mirror_qid", "mtu_trunc_len", "pktgen",
)  # fmt: skip

# The names of the intrinsic metadata in the intermediate form, by their types. Those of egress
# begin with "eg".
_INTRINSIC = {
    "ingress_intrinsic_metadata_t": "ig_intr_md",
    "ingress_intrinsic_metadata_for_tm_t": "ig_intr_md_for_tm",
    "ingress_intrinsic_metadata_from_parser_t": "ig_intr_md_from_prsr",
    "ingress_intrinsic_metadata_for_deparser_t": "ig_intr_md_for_dprsr",
    "ghost_intrinsic_metadata_t": "gh_intr_md",
    "egress_intrinsic_metadata_t": "eg_intr_md",
    "egress_intrinsic_metadata_from_parser_t": "eg_intr_md_from_prsr",
    "egress_intrinsic_metadata_for_deparser_t": "eg_intr_md_for_dprsr",
    "egress_intrinsic_metadata_for_output_port_t": "eg_intr_md_for_oport",
}


def _execute(context: Context, call: syntax.Call, action: ExternObject) -> places.Value | None:
    """Lower RegisterAction.execute().

    Tofino 2 has variants without an index and with several results, which are rejected.
    """
    given = [p.name for p, a in zip(call.parameters, call.arguments, strict=True) if a is not None]
    if len(given) != 1 or given[0] == "rv2" or len(action.method("apply").parameters) > 2:
        message = "execute() without an index, or with several results, is not supported"
        raise P4Error(message, call.source, "execute(index), and apply(value, rv)")
    return EXTERNS.methods["RegisterAction", "execute"](context, call, action)


class TnaLowering(ProgramLowering):
    externs = EXTERNS._replace(methods={**EXTERNS.methods, ("RegisterAction", "execute"): _execute})

    def lower(self) -> ir.Program:
        context = self.context
        architecture = self._architecture
        assert isinstance(architecture, Switch)
        context.program.architecture = "tna"
        size = self._source.find("PORT_METADATA_SIZE")
        assert isinstance(size, syntax.ConstantDeclaration)
        context.port_metadata_bits = evaluate_number(size.initializer, context.environment)
        self.errors_and_enums()
        self._intrinsic: dict[str, places.Place] = {}
        for declaration in self._source.declarations:
            name = _INTRINSIC.get(declaration.name)
            if name is not None and isinstance(declaration, syntax.StructDeclaration):
                self._intrinsic[declaration.name] = self._intrinsic_place(declaration, name)
        deparsers = []
        for pipeline in architecture.pipelines:
            with context.within(pipeline.environment):
                for gress in GRESSES:
                    own = self._allocate(pipeline, gress)
                    for parser in pipeline.parsers[gress]:
                        self.block(parser.block, self._arguments(parser.block, own), "parser")
                    block = pipeline.prefix + gress
                    self.pipeline(block, self._arguments(block, own), gress)
                    deparsers.append((pipeline, gress, own))
        direct.bind(context)
        for pipeline, gress, own in deparsers:
            with context.within(pipeline.environment):
                self._deparser(f"{pipeline.prefix}{gress}_deparser", own, gress)
        self.extern_objects()
        self._add_meta(architecture)
        self._warn_of_ignored_fields()
        if architecture.name == "tna":  # the limits of Tofino 2 are others
            warn_of_limits(self._source, context.program)
        return context.program

    def _add_meta(self, architecture: Switch) -> None:
        """Tell the engine what differs from a Switch with one pipeline on Tofino 1."""
        meta = self.context.program.meta
        if self.context.port_metadata_bits != TOFINO1_PORT_METADATA_BITS:
            meta["port_metadata_bytes"] = self.context.port_metadata_bits // 8
        counts = [len(p.parsers[gress]) for p in architecture.pipelines for gress in GRESSES]
        if max(len(architecture.pipelines), *counts) > 1:
            meta["pipelines"] = [
                {
                    "pipes": pipeline.pipes,
                    **{f"{gress}_parsers": [parser.numbers for parser in pipeline.parsers[gress]]
                       for gress in GRESSES},
                }
                for pipeline in architecture.pipelines
            ]  # fmt: skip

    def _warn_of_ignored_fields(self) -> None:
        for node in all_nodes(self._source):
            if not isinstance(node, syntax.Assignment) or not isinstance(node.left, syntax.Member):
                continue
            of = node.left.base.type
            is_intrinsic = isinstance(of, types.Struct) and of.name in _INTRINSIC
            if is_intrinsic and node.left.name in _WITHOUT_EFFECT:
                message = f"{node.left.name} has no effect in minip4"
                self._source.warnings.add("unused", message, node.left.source)

    def _deparser(self, name: str, own: list[places.Place], gress: str) -> None:
        source = self._architecture.blocks[name].declaration.source
        code = self.block(name, self._arguments(name, own), "deparser")
        deparser = _deparser(name, source, code, is_egress=gress == "egress")
        self.context.program.deparsers.append(deparser)

    def _intrinsic_place(self, declaration: syntax.StructDeclaration, name: str) -> places.Place:
        storage = self.context.storage
        if declaration.keyword == "header":
            return storage.allocate(types.Header(declaration), name, declaration.source)
        return storage.metadata_instance(types.Struct(declaration), name)

    def _allocate(self, pipeline: PipelineBlocks, gress: str) -> list[places.Place]:
        """Allocate the user's headers and metadata of ingress or egress."""
        parser = self._architecture.blocks[pipeline.parsers[gress][0].block]
        _, headers, metadata, *_ = parser.declaration.parameters
        resolve, allocate = parser.environment.resolve, self.context.storage.allocate
        name = pipeline.prefix + gress
        return [
            allocate(resolve(headers.type), name, headers.source),
            allocate(resolve(metadata.type), f"{name}.metadata", metadata.source),
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


def _deparser(
    name: str, source: syntax.Source, code: list[ir.Statement], *, is_egress: bool
) -> ir.Deparser:
    """Split the code of a deparser into statements and the order of headers."""
    result = ir.Deparser(name, source, [], [])
    for statement in all_statements(code):
        _require_supported(statement, is_egress=is_egress)
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
