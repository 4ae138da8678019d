"""Order of headers, derived from the code of the deparser."""

from __future__ import annotations

from collections.abc import Iterator

from minip4.compiler import ir, syntax
from minip4.compiler.errors import P4Error


class Emit(ir.Statement):
    """A call of `packet_out.emit`.

    In lowered programs, a list of all headers in order replaces the calls of emit.
    """

    __slots__ = ("header",)

    def __init__(self, source: syntax.Source, header: str) -> None:
        super().__init__(source)
        self.header = header


def emitted(code: list[ir.Statement]) -> Iterator[str]:
    """Return the emitted headers in order, and reject any other code."""
    for statement in code:
        match statement:
            case Emit():
                yield statement.header
            case ir.Labelled():
                yield from emitted(statement.body)
            case ir.If(condition=ir.IsValid() as test, then=then, otherwise=[]) if all(
                isinstance(s, Emit) and s.header == test.header for s in then
            ):
                # the condition has no effect, since emit() skips invalid headers
                yield from emitted(then)
            case _:
                require_nothing([statement], "only emit() is supported in a deparser")


def require_nothing(code: list[ir.Statement], message: str) -> None:
    """Reject code with effects."""
    for statement in code:
        if isinstance(statement, ir.Labelled):
            require_nothing(statement.body, message)
        elif isinstance(statement, ir.If):
            require_nothing(statement.then + statement.otherwise, message)
        elif not isinstance(statement, ir.Leave):
            assert statement.source is not None
            raise P4Error(message, statement.source)
