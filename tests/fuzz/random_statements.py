"""Random statements of P4.

Each is a list of lines; the braces of a block are on their own lines.
"""

from __future__ import annotations

import random

from random_expressions import Expressions, Scope, Variable
from random_types import Layout

Lines = list[str]
HASHES = ("crc16", "crc32", "csum16", "xor16", "identity")


class Statements(Expressions):
    """Generator of statements, which may change the variables in `writable`.

    random_program.py has the statements that only controls may contain.
    """

    def __init__(self, rng: random.Random, layout: Layout) -> None:
        super().__init__(rng)
        self.layout = layout
        self.writable = [*layout.fields(), *layout.metadata, Variable("meta.at", 2)]
        stack = layout.types["s_t"].fields
        self.writable += [Variable(f"hdr.s[meta.at].{f.name}", f.width, f.signed) for f in stack]
        self.locals = 0
        self.registers: list[Variable] = []

    def block(self, scope: Scope, depth: int, kinds: tuple[str, ...]) -> Lines:
        lines: Lines = []
        for _ in range(self.rng.choice([1, 2, 3])):
            kind = self.rng.choice(kinds)
            if kind == "local":
                variable, line = self.local(scope)
                lines.append(line)
                scope = scope.with_variables([variable])
            else:
                lines += getattr(self, kind)(scope, depth, kinds)
        return lines

    def braces(self, head: str, lines: Lines) -> Lines:
        return [f"{head} {{", *(f"    {line}" for line in lines), "}"]

    # -- values

    def local(self, scope: Scope) -> tuple[Variable, str]:
        self.locals += 1
        width = self.rng.choice([v.width for v in scope.variables])
        variable = Variable(f"local{self.locals}", width)
        return variable, f"bit<{width}> {variable.name} = {self.bits(scope, width)};"

    def assign(self, scope: Scope, depth: int, kinds: tuple[str, ...]) -> Lines:
        target = self.rng.choice(self.writable)
        if target.signed:
            return [f"{target.name} = {self.integer(scope, target.width)};"]
        if target.width > 1 and self.chance(15):
            low = self.rng.randrange(target.width)
            high = self.rng.randrange(low, target.width)
            return [f"{target.name}[{high}:{low}] = {self.bits(scope, high - low + 1)};"]
        return [f"{target.name} = {self.bits(scope, target.width)};"]

    def flag(self, scope: Scope, depth: int, kinds: tuple[str, ...]) -> Lines:
        return [f"meta.flag = {self.condition(scope)};"]

    def register(self, scope: Scope, depth: int, kinds: tuple[str, ...]) -> Lines:
        register = self.rng.choice(self.registers)
        index = f"(bit<32>) ({self.bits(scope, 3, 1)})"  # 0 to 7: the register has only six cells
        if self.chance(50):
            return [f"{register.name}.write({index}, {self.bits(scope, register.width)});"]
        found = [v for v in self.writable if v.width == register.width and not v.signed]
        if not found:
            return []
        return [f"{register.name}.read({self.rng.choice(found).name}, {index});"]

    def count(self, scope: Scope, depth: int, kinds: tuple[str, ...]) -> Lines:
        return [f"counted.count((bit<32>) ({self.bits(scope, 3, 1)}));"]

    def hash(self, scope: Scope, depth: int, kinds: tuple[str, ...]) -> Lines:
        targets = [v for v in self.writable if not v.signed and 8 <= v.width <= 64]
        if not targets:
            return []
        target = self.rng.choice(targets)
        algorithm = self.rng.choice(HASHES)
        most = self.rng.choice([0, 1, 7, 100, 65536])
        base = f"32w{self.rng.choice([0, 5])}"
        return [f"hash({target.name}, HashAlgorithm.{algorithm}, {base}, {self.inputs(scope)}, "
                f"32w{most});"]  # fmt: skip

    def inputs(self, scope: Scope) -> str:
        names = [v.name for v in self.rng.choices(scope.variables, k=self.rng.randrange(1, 5))]
        if self.chance(20):
            names.append(self.constant(self.rng.choice([4, 8, 70])))
        return f"{{ {', '.join(names)} }}"

    # -- headers

    def validity(self, scope: Scope, depth: int, kinds: tuple[str, ...]) -> Lines:
        header = self.rng.choice(self.layout.headers)
        return [f"{header}.{self.rng.choice(['setValid', 'setInvalid'])}();"]

    def copy(self, scope: Scope, depth: int, kinds: tuple[str, ...]) -> Lines:
        whole = self.rng.choice(["hdr.s = hdr.t;", "hdr.t = hdr.s;", "hdr.u = hdr.x;",
                                  "hdr.x = hdr.u;", "hdr.us[0] = hdr.us[1];"])  # fmt: skip
        names = self.rng.choice(list(self.layout.instances.values()))
        return [whole if self.chance(30) else
                f"{self.rng.choice(names)} = {self.rng.choice(names)};"]  # fmt: skip

    def filled(self, scope: Scope, depth: int, kinds: tuple[str, ...]) -> Lines:
        """Return an assignment of a list of values to all fields of a header."""
        type_ = self.rng.choice([t for t in self.layout.types.values() if not t.varbit_bits])
        values = [self.integer(scope, f.width, 1) if f.signed else self.bits(scope, f.width, 1)
                  for f in type_.fields]  # fmt: skip
        header = self.rng.choice(self.layout.instances[type_.name])
        return [f"{header} = {{ {', '.join(values)} }};"]

    def varbit(self, scope: Scope, depth: int, kinds: tuple[str, ...]) -> Lines:
        left, right = self.rng.choices(self.layout.instances["v_t"], k=2)
        return [f"{left}.data = {right}.data;"]

    def shift_stack(self, scope: Scope, depth: int, kinds: tuple[str, ...]) -> Lines:
        stack = self.rng.choice(["s", "s", "t", "us"])
        call = self.rng.choice(["push_front", "pop_front"])
        return [f"hdr.{stack}.{call}({self.rng.choice([1, 1, 2, 5])});"]

    def compared(self, scope: Scope, depth: int, kinds: tuple[str, ...]) -> Lines:
        """Return an `if` statement whose condition compares two headers, or their varbits."""
        names = self.rng.choice(list(self.layout.instances.values()))
        left, right = self.rng.choices(names, k=2)
        data = ".data" if names is self.layout.instances["v_t"] and self.chance(50) else ""
        condition = f"{left}{data} {self.rng.choice(['==', '!='])} {right}{data}"
        return self.braces(f"if ({condition})", self.block(scope, depth - 1, kinds))

    # -- flow

    def branch(self, scope: Scope, depth: int, kinds: tuple[str, ...]) -> Lines:
        if depth <= 0:
            return self.assign(scope, depth, kinds)
        lines = self.braces(f"if ({self.condition(scope)})", self.block(scope, depth - 1, kinds))
        if self.chance(40):
            lines += self.braces("else", self.block(scope, depth - 1, kinds))
        return lines

    def choose(self, scope: Scope, depth: int, kinds: tuple[str, ...]) -> Lines:
        if depth <= 0:
            return self.assign(scope, depth, kinds)
        lines: Lines = []
        for value in self.rng.sample(range(6), self.rng.randrange(1, 4)):
            if self.chance(20):
                lines.append(f"{value + 10}:")
            lines += self.braces(f"{value}:", self.block(scope, depth - 1, kinds))
        if self.chance(60):
            lines += self.braces("default:", self.block(scope, depth - 1, kinds))
        return self.braces(f"switch ({self.bits(scope, 8)})", lines)

    def loop(self, scope: Scope, depth: int, kinds: tuple[str, ...]) -> Lines:
        if depth <= 0:
            return self.assign(scope, depth, kinds)
        self.locals += 1
        name = f"turn{self.locals}"
        body = self.block(scope.with_variables([Variable(name, 8)]), depth - 1, kinds)
        return self.braces(f"for (bit<8> {name} in 0 .. {self.rng.randrange(4)})", body)

    def leave(self, scope: Scope, depth: int, kinds: tuple[str, ...]) -> Lines:
        how = self.rng.choice(["exit;", "return;"])
        return self.braces(f"if ({self.rare()})", [how])

    def rare(self) -> str:
        """Return a condition that is true for few frames.

        It guards statements that end the processing of a packet. For most frames, the statements
        after them still run.
        """
        return f"hdr.first.kind == {self.rng.randrange(16)}"
