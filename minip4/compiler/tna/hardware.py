"""Warnings (kind `hardware`) about what the stateful ALUs of a Tofino cannot do.

minip4 runs such programs, but no placement of their tables makes them fit. Only limits that do not
depend on the placement are checked:

1. A register is accessed at most once per packet. Accesses exclude each other only in different
   branches or actions, since the hardware does not know that two conditions exclude each other.
2. A cell is a number of 1, 8, 16, 32 or 64 bits, or a struct of one or two numbers of the same
   width, which is 8, 16 or 32 bits.
3. A register action has at most two comparisons, and neither shifts nor multiplies. It has one
   operator per assignment, or an OR of two operations.

Source of the limits: p4c's compiler for Tofino (backends/tofino/bf-p4c/mau/stateful_alu.cpp).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from minip4.compiler import ir, syntax, types
from minip4.compiler.analysis import all_nodes
from minip4.compiler.warnings import Warnings

COMPARISONS = 2
_WIDTHS = (8, 16, 32)
_COMPARE = ("==", "!=", "<", "<=", ">", ">=")
_IMPOSSIBLE = ("*", "/", "%", "<<", ">>", "++")
_ARITHMETIC = ("+", "-", "|+|", "|-|", "&", "|", "^")
_REGISTERS = ("Register", "DirectRegister")


def warn_of_limits(source: syntax.Program, program: ir.Program) -> None:
    """Add warnings about what the stateful ALUs cannot do to the warnings of the program."""
    for node in all_nodes(source):
        if not isinstance(node, syntax.Instantiation) or not isinstance(node.type, types.Extern):
            continue
        if node.type.name in _REGISTERS:
            _check_cell(node, node.type.arguments[0], source.warnings)
        elif node.type.name.endswith("RegisterAction"):
            for method in node.objects:
                if isinstance(method, syntax.Function):
                    _check_method(method, source.warnings)
    for pipeline in program.pipelines:
        _Path(source.warnings).run(pipeline.body, {})


def _check_cell(register: syntax.Instantiation, cell: types.Type, warnings: Warnings) -> None:
    cell = types.strip_newtypes(cell)
    if isinstance(cell, types.Struct):
        fields = [types.strip_newtypes(of) for of in cell.fields.values()]
        widths = {of.width if isinstance(of, types.Bits) else 0 for of in fields}
        fits = len(fields) <= 2 and len(widths) == 1 and widths <= {*_WIDTHS}
    else:
        fits = isinstance(cell, types.Bits) and cell.width in (1, *_WIDTHS, 64)
    if not fits:
        warnings.add(
            "hardware", f"Tofino has no register with cells of this type: {register.name}",
            register.source,
            "1, 8, 16, 32 or 64 bits, or a struct of two numbers of 8, 16 or 32 bits",
        )  # fmt: skip


def _check_method(method: syntax.Function, warnings: Warnings) -> None:
    """Check the code of a register action."""
    compared = {}
    todo: list[syntax.Node] = [] if method.body is None else [method.body]
    while todo:
        node = todo.pop()
        todo += syntax.children(node)
        operator = ""
        if isinstance(node, syntax.Binary | syntax.Assignment):
            operator = node.operator
        if isinstance(node, syntax.Binary) and operator in _COMPARE:
            compared[node.source.text] = node
        elif operator in _IMPOSSIBLE and getattr(node, "constant", None) is None:
            warnings.add(
                "hardware", f"a stateful ALU of Tofino has no operator {operator}", node.source,
                "this operation outside the register action, or a MathUnit",
            )  # fmt: skip
        elif _is_nested(node):
            warnings.add(
                "hardware", "a stateful ALU of Tofino has one operator per assignment",
                node.source, "one operator, or an OR of two operations",
            )  # fmt: skip
    if len(compared) > COMPARISONS:
        warnings.add(
            "hardware",
            f"{len(compared)} comparisons, but a stateful ALU of Tofino has {COMPARISONS}",
            method.source, "fewer comparisons in this register action",
        )  # fmt: skip


def _is_nested(node: syntax.Node) -> bool:
    """Return whether an operand of a non-comparing operation is another operation."""
    return (
        isinstance(node, syntax.Binary)
        and node.operator in _ARITHMETIC
        and node.operator != "|"
        and any(_is_operation(operand) for operand in (node.left, node.right))
    )


def _is_operation(operand: syntax.Expression) -> bool:
    while isinstance(operand, syntax.Cast):
        operand = operand.operand
    return (
        isinstance(operand, syntax.Binary)
        and operand.operator in _ARITHMETIC
        and operand.constant is None
    )


# registers that were accessed on a path, and the last place
_Accessed = Mapping[str, syntax.Source]


class _Path:
    """Follows the paths through a pipeline, and warns if one of them accesses a register twice."""

    def __init__(self, warnings: Warnings) -> None:
        self._warnings = warnings
        # by label: for each Leave of this label, the registers accessed on the path to it
        self._left: dict[int, list[_Accessed]] = {}

    def run(self, code: Iterable[ir.Statement], accessed: _Accessed) -> _Accessed | None:
        """Return the registers accessed before and in the code, or None if it never ends."""
        reading: dict[str, syntax.Source | None] = {}
        at: _Accessed | None = accessed
        for statement in code:
            if at is None:
                return None
            match statement:
                case ir.RegisterRead():
                    reading[statement.register] = statement.source
                    at = self._access(statement.register, statement.source, at)
                case ir.RegisterWrite():
                    # a register action reads and writes its cell in one access
                    if reading.pop(statement.register, None) is not statement.source:
                        at = self._access(statement.register, statement.source, at)
                case ir.If():
                    at = _union(self.run(statement.then, at), self.run(statement.otherwise, at))
                case ir.Labelled():
                    ends = self.run(statement.body, at)
                    at = _union(ends, *self._left.pop(statement.label, []))
                case ir.Atomic() | ir.Loop():
                    at = self.run(statement.body, at)
                case ir.Apply():
                    at = self._apply(statement, at)
                case ir.Leave():
                    self._left.setdefault(statement.label, []).append(at)
                    at = None
                case ir.Exit():
                    at = None
        return at

    def _access(
        self, register: str, source: syntax.Source | None, accessed: _Accessed
    ) -> _Accessed:
        assert source is not None
        # the position that execute_log() stores (name$next) belongs to its register, so its access
        # does not count
        if register in accessed and not register.endswith("$next"):
            first = accessed[register]
            self._warnings.add(
                "hardware",
                f"second access to {register} for one packet (first: line {first.line}); "
                "Tofino has one",
                source, "one register action that does both, or a second register",
            )  # fmt: skip
        return {**accessed, register: source}

    def _apply(self, statement: ir.Apply, accessed: _Accessed) -> _Accessed | None:
        table = statement.table
        after = {action.name: self.run(action.body, accessed) for action in table.actions}
        every = _union(accessed, *after.values())
        if not statement.has_branches or every is None:
            return every
        if statement.actions is None:
            return _union(self.run(statement.hit, every), self.run(statement.miss, every))
        ends = [
            None if after[name] is None else self.run(code, after[name] or {})
            for name, code in statement.actions.items()
        ]
        return _union(*ends, self.run(statement.default, every))


def _union(*paths: _Accessed | None) -> _Accessed | None:
    """Return the registers of all paths, or None if no path ends."""
    ending = [path for path in paths if path is not None]
    return {name: at for path in ending for name, at in path.items()} if ending else None
