"""Random expressions of P4 that have a given type: bit<W>, int<W> or bool."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

WIDTHS = (1, 2, 3, 4, 7, 8, 9, 12, 13, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 128, 129)
ARITHMETIC = ("+", "-", "*", "&", "|", "^", "|+|", "|-|")
ORDER = ("<", "<=", ">", ">=")


@dataclass(frozen=True)
class Variable:
    """A value that an expression may read: a field, a variable, or a parameter."""

    name: str
    width: int
    signed: bool = False

    @property
    def type(self) -> str:
        return f"{'int' if self.signed else 'bit'}<{self.width}>"


@dataclass(frozen=True)
class Function:
    """A function that an expression may call: `bit<width> name(in bit<..> ...)`."""

    name: str
    width: int
    parameters: tuple[int, ...]


@dataclass
class Scope:
    """The names that an expression may use."""

    variables: list[Variable]
    headers: list[str] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    """Variables of type bool."""

    def with_variables(self, more: list[Variable]) -> Scope:
        return Scope(self.variables + more, self.headers, self.functions, self.flags)


class Expressions:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def chance(self, percent: int) -> bool:
        return self.rng.randrange(100) < percent

    def number(self, width: int) -> int:
        """Return a number of this width: a small one, one near a limit, or any one."""
        top = (1 << width) - 1
        return self.rng.choice([
            self.rng.randrange(9) & top, self.rng.choice([0, 1, top, top >> 1, 1 << (width - 1)]),
            self.rng.getrandbits(width),
        ])  # fmt: skip

    def constant(self, width: int) -> str:
        return f"{width}w{self.number(width)}"

    # -- bit<W>

    def bits(self, scope: Scope, width: int, depth: int = 3) -> str:
        if depth <= 0 or self.chance(15):
            return self.leaf(scope, width)
        return self.rng.choice(self.BITS)(self, scope, width, depth - 1)

    def leaf(self, scope: Scope, width: int) -> str:
        """Return a constant of this width, or a variable that is cut or extended to it."""
        same = [v.name for v in scope.variables if v.width == width and not v.signed]
        others = [v for v in scope.variables if v.width != width and not v.signed]
        if same and self.chance(60):
            return self.rng.choice(same)
        if others and self.chance(70):
            v = self.rng.choice(others)
            if v.width < width or self.chance(50):
                return f"(bit<{width}>) {v.name}"
            low = self.rng.randrange(v.width - width + 1)
            return f"{v.name}[{low + width - 1}:{low}]"
        return self.constant(width)

    def arithmetic(self, scope: Scope, width: int, depth: int) -> str:
        left, right = self.bits(scope, width, depth), self.bits(scope, width, depth)
        return f"({left} {self.rng.choice(ARITHMETIC)} {right})"

    def shift(self, scope: Scope, width: int, depth: int) -> str:
        amount = self.rng.choice([
            str(self.rng.choice([0, 1, width - 1, width, width + 3])),
            f"({self.bits(scope, 8, depth - 1)})",
        ])  # fmt: skip
        return f"({self.bits(scope, width, depth)} {self.rng.choice(['<<', '>>'])} {amount})"

    def power(self, scope: Scope, width: int, depth: int) -> str:
        divisor = 1 << self.rng.randrange(width)
        return f"({self.bits(scope, width, depth)} {self.rng.choice('/%')} {divisor})"

    def unary(self, scope: Scope, width: int, depth: int) -> str:
        return f"({self.rng.choice('~-')}{self.bits(scope, width, depth)})"

    def choice(self, scope: Scope, width: int, depth: int) -> str:
        left, right = self.bits(scope, width, depth), self.bits(scope, width, depth)
        return f"({self.condition(scope, depth)} ? {left} : {right})"

    def concatenation(self, scope: Scope, width: int, depth: int) -> str:
        if width == 1:
            return self.leaf(scope, width)
        first = self.rng.randrange(1, width)
        left, right = self.bits(scope, first, depth), self.bits(scope, width - first, depth)
        return f"({left} ++ {right})"

    def slice(self, scope: Scope, width: int, depth: int) -> str:
        of = self.rng.choice([w for w in (*WIDTHS, width + 5) if w >= width])
        low = self.rng.randrange(of - width + 1)
        return f"({self.bits(scope, of, depth)})[{low + width - 1}:{low}]"

    def resized(self, scope: Scope, width: int, depth: int) -> str:
        return f"(bit<{width}>) ({self.bits(scope, self.rng.choice(WIDTHS), depth)})"

    def unsigned(self, scope: Scope, width: int, depth: int) -> str:
        return f"(bit<{width}>) ({self.integer(scope, width, depth)})"

    def from_bool(self, scope: Scope, width: int, depth: int) -> str:
        return f"(bit<{width}>) (bit<1>) ({self.condition(scope, depth)})"

    def call(self, scope: Scope, width: int, depth: int) -> str:
        if not scope.functions:
            return self.arithmetic(scope, width, depth)
        f = self.rng.choice(scope.functions)
        arguments = ", ".join(self.bits(scope, w, depth - 1) for w in f.parameters)
        return f"(bit<{width}>) {f.name}({arguments})"

    BITS = (arithmetic, arithmetic, arithmetic, shift, power, unary, choice, concatenation, slice,
            resized, unsigned, from_bool, call)  # fmt: skip

    # -- int<W>

    def integer(self, scope: Scope, width: int, depth: int = 3) -> str:
        if depth <= 0 or self.chance(20):
            return self.signed_leaf(scope, width)
        left, right = (self.integer(scope, width, depth - 1) for _ in range(2))
        other = self.rng.choice([w for w in WIDTHS if w > 1])
        return self.rng.choice([
            f"({left} {self.rng.choice(ARITHMETIC)} {right})",
            f"({left} {self.rng.choice(ARITHMETIC)} {right})",
            f"({left} {self.rng.choice(['<<', '>>'])} ({self.bits(scope, 8, depth - 2)}))",
            f"({self.rng.choice('~-')}{left})",
            f"(int<{width}>) ({self.integer(scope, other, depth - 1)})",
            f"(int<{width}>) ({self.bits(scope, width, depth - 1)})",
            f"({self.condition(scope, depth - 2)} ? {left} : {right})",
        ])  # fmt: skip

    def signed_leaf(self, scope: Scope, width: int) -> str:
        found = [v for v in scope.variables if v.signed]
        if found and self.chance(60):
            v = self.rng.choice(found)
            return v.name if v.width == width else f"(int<{width}>) {v.name}"
        if width > 1 and self.chance(60):
            value = self.number(width)
            return f"{width}s{value >> 1}" if self.chance(50) else f"(-{width}s{value >> 1})"
        return f"(int<{width}>) {self.constant(width)}"

    # -- bool

    def condition(self, scope: Scope, depth: int = 3) -> str:
        width = self.rng.choice(WIDTHS)
        kinds = [self.comparison, self.comparison, self.signed_comparison]
        if scope.headers:
            kinds.append(lambda s, w, d: f"{self.rng.choice(s.headers)}.isValid()")
            kinds += [self.small, self.small]
        if scope.flags:
            kinds.append(lambda s, w, d: self.rng.choice(s.flags))
        if depth > 0:
            kinds += [self.both, self.negation]
        return self.rng.choice(kinds)(scope, width, depth)

    def comparison(self, scope: Scope, width: int, depth: int) -> str:
        left, right = (self.bits(scope, width, depth - 1) for _ in range(2))
        return f"({left} {self.rng.choice([*ORDER, '==', '!='])} {right})"

    def signed_comparison(self, scope: Scope, width: int, depth: int) -> str:
        width = max(width, 2)
        left, right = (self.integer(scope, width, depth - 1) for _ in range(2))
        return f"({left} {self.rng.choice([*ORDER, '==', '!='])} {right})"

    def small(self, scope: Scope, width: int, depth: int) -> str:
        """Return a comparison of a field with a small number. Frames often have such numbers."""
        name = self.rng.choice(["hdr.first.kind", "hdr.first.more", "hdr.first.number[7:0]"])
        return f"({name} {self.rng.choice([*ORDER, '==', '!='])} {self.rng.randrange(6)})"

    def both(self, scope: Scope, width: int, depth: int) -> str:
        left, right = (self.condition(scope, depth - 1) for _ in range(2))
        return f"({left} {self.rng.choice(['&&', '||', '==', '!='])} {right})"

    def negation(self, scope: Scope, width: int, depth: int) -> str:
        return f"!({self.condition(scope, depth - 1)})"
