"""C code for expressions, with the arithmetic of simple_switch (unbounded precision).

Every expression has a range of values that is known at compile time. A value is computed modulo 2^R
in a representation of R bits: one machine word, two words (unsigned __int128) or, if needed, a
structure of limbs. Sums, products and bit operations are correct modulo 2^R even if their operands
were truncated; other operations (comparison, right shift, division) use a representation that holds
their operands exactly.
"""

from __future__ import annotations

from minip4.engine import model as m
from minip4.engine.codegen.layout import Layout, Place, c_type, literal, literals
from minip4.engine.codegen.ranges import (
    MAX_WIDE_BITS,
    STACK_ELEMENT_OPS,
    Range,
    accessed_field,
    cast_width,
    is_boolean,
    is_header,
    range_of,
    signed,
    unsigned,
    within,
)
from minip4.engine.errors import NotSupported
from minip4.engine.words import limbs

WIDE = 1 << 20
"""The representation as limbs.

Its real size is known only after all expressions of the program were generated.
"""

WRAPPING = {"+", "-", "*", "&", "|", "^"}


class Expressions:
    """Generates C for expressions.

    In the C code, `h` is the parsed packet, `v` contains the variables of the function, and `d` is
    the data of the action.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.params: list[int] = []
        """For each parameter of the current action, the index of its first word in the data."""
        self.wide_bits = 0
        """The number of bits that limbs must hold; 0 means that no expression needs limbs."""

    def _exact(self, *ranges: Range) -> tuple[int, bool]:
        """Return a representation that holds values of all ranges, and whether it is signed."""
        low, high = min(r[0] for r in ranges), max(r[1] for r in ranges)
        for bits in (64, 128):
            if within((low, high), unsigned(bits)):
                return bits, False
            if within((low, high), signed(bits)):
                return bits, True
        bits = max(low.bit_length(), high.bit_length()) + 1
        if bits > MAX_WIDE_BITS:
            raise NotSupported(f"an expression whose value may have more than {bits - 1} bits")
        self.wide_bits = max(self.wide_bits, bits)
        return WIDE, True

    # --- values ----------------------------------------------------------------------------

    def word(self, e: m.Expr) -> str:
        """Return C code for the value modulo 2^64, as a uint64_t."""
        return self.value(e, 64)

    def for_width(self, e: m.Expr, width: int) -> tuple[str, int]:
        """Return C code for a value with correct low `width` bits, and its representation."""
        rep = 64 if width <= 64 else 128 if width <= 128 else WIDE
        if rep == WIDE:
            self.wide_bits = max(self.wide_bits, width)
        return self.value(e, rep), rep

    def value(self, e: m.Expr, rep: int) -> str:
        if isinstance(e, m.Const):
            return self._constant(e.value, rep)
        if isinstance(e, m.FieldRef | m.StackField | m.UnionStackField):
            return self._field(*self.accessed(e), rep)
        if isinstance(e, m.Param):
            return self._load(f"d[{self.params[e.index]}]", e.width, rep)
        if isinstance(e, m.RegisterRef):
            return self._register(e, rep)
        if isinstance(e, m.Valid):
            return self._convert(f"(uint64_t)h->valid[{self.layout.place(e.header).number}]", rep)
        if is_boolean(e):
            return self._convert(f"(uint64_t)({self.boolean(e)})", rep)
        if isinstance(e, m.Op):
            return self._operation(e, rep)
        raise NotSupported(f"{type(e).__name__} used as a number")

    def _constant(self, value: int, rep: int) -> str:
        if rep == 64:
            return literal(value)
        if rep == 128:
            value &= 2**128 - 1
            if value < 2**64:
                return f"(u128){literal(value)}"
            return f"((u128){literal(value >> 64)} << 64 | {literal(value)})"
        width = value.bit_length() + 1
        self.wide_bits = max(self.wide_bits, 64 * limbs(width))
        words = f"(const uint64_t[]){{{literals(value, width)}}}"
        return f"wide_words({words}, {limbs(width)}, {int(value < 0)})"

    def _load(self, first: str, width: int, rep: int) -> str:
        """Return C code of a value of `width` bits in words; `first` is the lowest word."""
        if width <= 64 or rep == 64:
            return self._convert(f"(uint64_t){first}", rep)
        if rep == 128:
            return f"load128(&{first})"
        self.wide_bits = max(self.wide_bits, width + 1)
        return f"wide_words(&{first}, {limbs(width)}, 0)"

    def _field(self, place: Place, field: m.Field, rep: int) -> str:
        _check_number(field)
        name = f"{place.pointer}->{self.layout.reads(place.type, field)}"
        if field.width > 64:
            name += "[0]"
        if not field.signed:
            return self._load(name, field.width, rep)
        own, _ = self._exact(signed(field.width))
        code = f"sign_extend{_suffix(own)}({self._load(name, field.width, own)}, {field.width})"
        return self._convert(code, rep, own, is_signed=True)

    def _register(self, e: m.RegisterRef, rep: int) -> str:
        register = e.register
        index = self.word(e.index)
        code = f"*register_cell(c, {register.index}, {register.size}u, {register.limbs}, {index})"
        return self._load(f"({code})" if register.limbs == 1 else code, register.width, rep)

    def _convert(self, code: str, to: int, own: int = 64, *, is_signed: bool = False) -> str:
        """Convert C code between representations, preserving the value modulo the smaller one."""
        if own == to:
            return code
        if own == WIDE:
            return f"wide_low{to}({code})"
        if to == WIDE:
            return f"wide_from_{'i' if is_signed else 'u'}{own}({code})"
        if to == 64:
            return f"(uint64_t)({code})"
        return f"(u128)(__int128)(int64_t)({code})" if is_signed else f"(u128)({code})"

    def _operation(self, e: m.Op, rep: int) -> str:
        op, args = e.op, e.args
        if op == "access_field":
            return self._field(*self.accessed(e), rep)
        if op == "b2d":
            return self._convert(f"(uint64_t)({self.boolean(args[0])})", rep)
        if op in ("last_stack_index", "size_stack"):
            return self._convert(self._stack_index(e), rep)
        if op == "?":
            branches = f"{self.value(args[1], rep)} : {self.value(args[2], rep)}"
            return f"({self.boolean(args[0])} ? {branches})"
        if op in WRAPPING and len(args) == 2:
            return self._wrapping(op, self.value(args[0], rep), self.value(args[1], rep), rep)
        if op == "-":
            return self._wrapping("-", self._constant(0, rep), self.value(args[0], rep), rep)
        if op == "~":
            code = self.value(args[0], rep)
            return f"wide_not({code})" if rep == WIDE else f"(~{code})"
        if op == "<<":
            code = self.value(args[0], rep)
            return f"shift_left{_suffix(rep)}({code}, {self._amount(args[1])})"
        if op in (">>", "/", "%"):
            return self._exact_operation(e, rep)
        if op in ("two_comp_mod", "sat_cast", "usat_cast"):
            return self._cast(e, rep)
        raise NotSupported(f"operation {op!r} is not supported {e.where}")

    def _wrapping(self, op: str, left: str, right: str, rep: int) -> str:
        if rep == WIDE:
            return f"wide_{_WIDE_NAMES[op]}({left}, {right})"
        return f"({left} {op} {right})"

    def _amount(self, e: m.Expr) -> str:
        """Return C code for a shift amount; values of more than 64 bits become the maximum."""
        own, is_signed = self._exact(range_of(e))
        code = self.value(e, own)
        if is_signed and range_of(e)[0] < 0:
            return f"amount_signed{_suffix(own)}({code})"
        return code if own == 64 else f"amount{_suffix(own)}({code})"

    def _exact_operation(self, e: m.Op, rep: int) -> str:
        left, right = e.args
        ranges = [range_of(left)] if e.op == ">>" else [range_of(left), range_of(right)]
        own, is_signed = self._exact(*ranges)
        code = self.value(left, own)
        kind = "i" if is_signed else "u"
        if e.op == ">>":
            amount = self._amount(right)
            code = f"shift_right_{kind}{_suffix(own)}({code}, {amount})"
            return self._convert(code, rep, own, is_signed=is_signed)
        if min(r[0] for r in ranges) < 0:
            raise NotSupported(f"{e.op} of a value that may be negative {e.where}")
        name = "divide" if e.op == "/" else "modulo"
        code = f"{name}{_suffix(own)}({code}, {self.value(right, own)})"
        return self._convert(code, rep, own)

    def _cast(self, e: m.Op, rep: int) -> str:
        width = cast_width(e)
        if e.op == "two_comp_mod":
            own, _ = self._exact(signed(width))
            code = f"sign_extend{_suffix(own)}({self.value(e.args[0], own)}, {width})"
            return self._convert(code, rep, own, is_signed=True)
        limits = unsigned(width) if e.op == "usat_cast" else signed(width)
        own, is_signed = self._exact(range_of(e.args[0]), limits)
        low, high = (self._constant(v, own) for v in limits)
        kind = "i" if is_signed else "u"
        code = f"clamp_{kind}{_suffix(own)}({self.value(e.args[0], own)}, {low}, {high})"
        return self._convert(code, rep, own, is_signed=is_signed)

    def _stack_index(self, e: m.Op) -> str:
        stack = e.args[0]
        if not isinstance(stack, m.StackRef | m.UnionStackRef):
            raise NotSupported(f"{e.op} of a value that is not a stack {e.where}")
        counter = self.layout.counter(stack.stack)
        return f"(uint64_t){counter}" if e.op == "size_stack" else f"last_index({counter})"

    # --- booleans --------------------------------------------------------------------------

    def boolean(self, e: m.Expr) -> str:
        if isinstance(e, m.BoolConst):
            return "1" if e.value else "0"
        if isinstance(e, m.Valid):
            return f"h->valid[{self.layout.place(e.header).number}]"
        if not isinstance(e, m.Op) or not is_boolean(e):
            own, _ = self._exact(range_of(e))
            code = self.value(e, own)
            return f"!wide_is_zero({code})" if own == WIDE else f"({code} != 0)"
        op, args = e.op, e.args
        if op == "?":
            branches = f"{self.boolean(args[1])} : {self.boolean(args[2])}"
            return f"({self.boolean(args[0])} ? {branches})"
        if op in ("and", "or"):
            return (
                f"({self.boolean(args[0])} {'&&' if op == 'and' else '||'} {self.boolean(args[1])})"
            )
        if op == "not":
            return f"!{self.boolean(args[0])}"
        if op == "d2b":
            return self.boolean(args[0])
        if op == "valid":
            return f"h->valid[{self.header(args[0]).number}]"
        if op == "valid_union":
            return self._valid_union(args[0])
        return self._comparison(e)

    def _comparison(self, e: m.Op) -> str:
        left, right = e.args
        if isinstance(left, m.FieldRef) and left.field.varbit:
            code = self._equal_varbits(self.varbit(left)[0], self.varbit(right)[0])
            return code if e.op == "==" else f"!{code}"
        if is_header(left):
            code = self._equal_headers(self.header(left), self.header(right))
            return code if e.op == "==" else f"!{code}"
        if is_boolean(left) or is_boolean(right):
            return f"(!{self.boolean(left)} {e.op} !{self.boolean(right)})"
        own, is_signed = self._exact(range_of(left), range_of(right))
        a, b = self.value(left, own), self.value(right, own)
        if own == WIDE:
            return f"(wide_compare({a}, {b}) {e.op} 0)"
        if is_signed and e.op not in ("==", "!="):
            type_ = "(int64_t)" if own == 64 else "(__int128)"
            a, b = type_ + a, type_ + b
        return f"({a} {e.op} {b})"

    def _equal_headers(self, a: Place, b: Place) -> str:
        """Compare headers as simple_switch does: both must be valid and all fields equal."""
        terms = [f"h->valid[{a.number}]", f"h->valid[{b.number}]"]
        for field in a.type.fields:
            name = self.layout.reads(a.type, field)
            if field.varbit:
                code = self._equal_varbits(f"{a.pointer}->{name}", f"{b.pointer}->{name}")
                terms.append(code)
            elif field.width > 64:
                size = f"sizeof {a.pointer}->{name}"
                terms.append(f"!memcmp({a.pointer}->{name}, {b.pointer}->{name}, {size})")
            else:
                terms.append(f"{a.pointer}->{name} == {b.pointer}->{name}")
        return f"({' && '.join(terms)})"

    def _equal_varbits(self, a: str, b: str) -> str:
        return f"({a}_bits == {b}_bits && !memcmp({a}, {b}, {a}_bits / 8))"

    def _valid_union(self, e: m.Expr) -> str:
        terms = [f"h->valid[{place.number}]" for place in self.union(e)]
        return f"({' || '.join(terms)})"

    # --- headers and fields ----------------------------------------------------------------

    def header(self, e: m.Expr) -> Place:
        if isinstance(e, m.HeaderRef):
            return self.layout.place(e.header)
        if isinstance(e, m.Op) and e.op in STACK_ELEMENT_OPS:
            stack = e.args[0]
            if isinstance(stack, m.StackRef):
                array = stack.stack.array
                return self.layout.element(array, self._index(e.args[1], len(array.headers)))
        if isinstance(e, m.Op) and e.op == "access_union_header":
            position = e.args[1]
            assert isinstance(position, m.Const)
            return self.union(e.args[0])[position.value]
        raise NotSupported(f"{type(e).__name__} used as a header")

    def union(self, e: m.Expr) -> list[Place]:
        """Return all members of a union."""
        if isinstance(e, m.UnionRef):
            return [self.layout.place(h) for _, h in e.union.members]
        if isinstance(e, m.Op) and e.op == "dereference_union_stack":
            stack = e.args[0]
            if isinstance(stack, m.UnionStackRef):
                index = self._index(e.args[1], len(stack.stack.unions))
                names = stack.stack.columns
                return [self.layout.column_element(stack.stack, n, index) for n in names]
        raise NotSupported(f"{type(e).__name__} used as a header union")

    def _index(self, e: m.Expr, size: int) -> str:
        """Return an array index.

        An index out of bounds selects the spare element at the end.
        """
        if isinstance(e, m.Const):
            return str(e.value if 0 <= e.value < size else size)
        own, _ = self._exact(range_of(e))
        code = self.value(e, own)
        if own != 64:
            code = f"amount{_suffix(own)}({code})"
        return f"element({code}, {size})"

    def accessed(self, e: m.Expr) -> tuple[Place, m.Field]:
        """Return the header and the field that a reference names."""
        if isinstance(e, m.FieldRef):
            return self.layout.field_place(e.header, e.field), e.field
        if isinstance(e, m.StackField):
            size = len(e.stack.array.headers)
            last = f"last_element({self.layout.counter(e.stack)}, {size})"
            return self.layout.element(e.stack.array, last), e.field
        if isinstance(e, m.UnionStackField):
            last = f"last_element({self.layout.counter(e.stack)}, {len(e.stack.unions)})"
            return self.layout.column_element(e.stack, e.member, last), e.field
        if isinstance(e, m.Op) and e.op == "access_field":
            return self.header(e.args[0]), accessed_field(e)
        raise NotSupported(f"{type(e).__name__} used as a field")

    def lvalue(self, e: m.Expr) -> tuple[str, m.Field]:
        """Return C code for the field that an assignment writes."""
        place, field = self.accessed(e)
        _check_number(field)
        return f"{place.pointer}->{self.layout.writes(place.type, field)}", field

    def readable(self, e: m.Expr) -> tuple[str, m.Field]:
        """Return C code for the field that an expression reads."""
        place, field = self.accessed(e)
        _check_number(field)
        return f"{place.pointer}->{self.layout.reads(place.type, field)}", field

    def varbit(self, e: m.Expr, *, written: bool = False) -> tuple[str, Place, m.Field]:
        """Return the C name of the bytes of a varbit field.

        With `_bits` appended, it is the name of its length.
        """
        place, field = self.accessed(e)
        if not field.varbit:
            raise NotSupported(f"field {field.name} used as a varbit")
        layout = self.layout.writes if written else self.layout.reads
        return f"{place.pointer}->{layout(place.type, field)}", place, field

    def store(self, target: m.Expr, value: m.Expr) -> str:
        """Return the statement that assigns a value, truncated to the width of the target."""
        name, field = self.lvalue(target)
        code, rep = self.for_width(value, field.width)
        fits = not is_boolean(value) and within(range_of(value), unsigned(field.width))
        return self.store_code(name, field.width, code, rep, fits=fits)

    def store_code(self, name: str, width: int, code: str, rep: int, *, fits: bool = False) -> str:
        """Assign C code in representation `rep` to the field `name`."""
        if width > 64:
            return f"store{_suffix(rep)}({name}, {code}, {width});"
        type_ = c_type(width)
        if not fits and type_ != f"uint{width}_t":
            code = f"({code}) & {literal((1 << width) - 1)}"
        return f"{name} = ({type_})({code});"


def _check_number(field: m.Field) -> None:
    if field.varbit:
        raise NotSupported(f"varbit field {field.name} used as a number")


def _suffix(rep: int) -> str:
    return "_wide" if rep == WIDE else str(rep)


_WIDE_NAMES = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor"}
