"""The blocks of a TNA program: the six of its Pipeline."""

from __future__ import annotations

from minip4.compiler import syntax, types
from minip4.compiler.errors import P4Error
from minip4.compiler.instances.architecture import Architecture
from minip4.compiler.syntax import CallKind


class Switch(Architecture):
    """A Switch with one Pipeline, which processes the packets of all ports."""

    name = "tna"
    package = "Switch"
    parsers = ("ingress_parser", "egress_parser")
    controls = ("ingress", "ingress_deparser", "egress", "egress_deparser")

    def _declare(self, declaration: syntax.Instantiation) -> None:
        if not isinstance(declaration.type, types.Package):
            super()._declare(declaration)

    def arguments(self) -> dict[str, syntax.Expression]:
        pipelines = [a for a in self.main.call.arguments if a is not None]
        if len(pipelines) > 1:
            raise P4Error(
                f"a Switch with {len(pipelines)} pipelines is not supported",
                pipelines[1].source,
                "one Pipeline",
            )
        call = _constructor_call(pipelines[0])
        return {
            p.name: a for p, a in zip(call.parameters, call.arguments, strict=True) if a is not None
        }


def _constructor_call(e: syntax.Expression) -> syntax.Call:
    """Return the constructor call of a Pipeline, which may have a name."""
    if isinstance(e, syntax.Name) and isinstance(e.declaration, syntax.Instantiation):
        return e.declaration.call
    if isinstance(e, syntax.Call) and e.kind is CallKind.CONSTRUCTOR:
        return e
    raise P4Error("this cannot be a pipeline of a Switch", e.source, "Pipeline(...)")
