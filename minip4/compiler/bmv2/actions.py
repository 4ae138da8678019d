"""Actions in BMv2 JSON: straight-line primitives, with jumps for branches."""

from __future__ import annotations

from dataclasses import dataclass

from minip4.compiler import ir
from minip4.compiler.bmv2.expressions import Json, data, parameter, source_info
from minip4.compiler.bmv2.primitives import primitive
from minip4.compiler.source import Source


@dataclass(slots=True)
class _Jump:
    """A jump: unconditional if `condition` is None, else taken if the condition is false."""

    label: int
    condition: ir.Expression | None
    source: Source | None


class _Assembler:
    def __init__(self) -> None:
        self._code: list[Json | _Jump] = []
        self._positions: dict[int, int] = {}
        self._next_label = -1  # labels of this pass are negative, labels of the ir positive
        self._end = self._label()

    def _label(self) -> int:
        self._next_label -= 1
        return self._next_label

    def _place(self, label: int) -> None:
        self._positions[label] = len(self._code)

    def assemble(self, body: list[ir.Statement]) -> list[Json]:
        self._statements(body)
        self._place(self._end)
        result = []
        for item in self._code:
            if isinstance(item, _Jump):
                offset = data(self._positions[item.label])
                name, arguments = "_jump", [offset]
                if item.condition is not None:
                    name, arguments = "_jump_if_zero", [parameter(item.condition), offset]
                item = {"op": name, "parameters": arguments, **source_info(item.source)}
            result.append(item)
        return result

    def _statements(self, body: list[ir.Statement]) -> None:
        for statement in body:
            match statement:
                case ir.Operation():
                    self._code.append(primitive(statement))
                case ir.If():
                    self._if(statement)
                case ir.Atomic():
                    self._statements(statement.body)
                case ir.Labelled():
                    self._statements(statement.body)
                    self._place(statement.label)
                case ir.Leave():
                    self._code.append(_Jump(statement.label, None, statement.source))
                    return
                case ir.Loop():
                    start = self._label()
                    self._place(start)
                    self._statements(statement.body)
                    self._code.append(_Jump(start, None, statement.source))
                case ir.Exit():
                    self._code.append(
                        {"op": "exit", "parameters": [], **source_info(statement.source)}
                    )
                    self._code.append(_Jump(self._end, None, statement.source))
                    return
                case _:
                    raise AssertionError(statement)

    def _if(self, statement: ir.If) -> None:
        otherwise, end = self._label(), self._label()
        self._code.append(_Jump(otherwise, statement.condition, statement.source))
        self._statements(statement.then)
        if statement.otherwise:
            self._code.append(_Jump(end, None, statement.source))
        self._place(otherwise)
        self._statements(statement.otherwise)
        self._place(end)


def action_body(body: list[ir.Statement]) -> list[Json]:
    return _Assembler().assemble(body)


def action(number: int, a: ir.Action) -> Json:
    data_ = [{"name": name, "bitwidth": width} for name, width in a.parameters]
    return {
        "name": a.name,
        "id": number,
        "runtime_data": data_,
        "primitives": action_body(a.body),
    }
