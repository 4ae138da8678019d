"""Arithmetic of every width and sign against Python's, on values at the edges."""

import itertools
import random
from collections.abc import Callable

import pytest
from small_programs import engine

EDGES = {
    8: [0, 1, 2, 7, 8, 127, 128, 254, 255],
    64: [0, 1, 63, 64, 2**32, 2**63 - 1, 2**63, 2**64 - 1],
    100: [0, 1, 65, 99, 2**64 - 1, 2**64, 2**99, 2**100 - 1],
    200: [0, 1, 70, 2**64, 2**128 - 1, 2**128, 2**199, 2**200 - 1],
}


def signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> (width - 1) else value


def clamp(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)


Operation = Callable[[int, int, int], int]  # a, b, width

UNSIGNED: dict[str, Operation] = {
    "a + b": lambda a, b, w: a + b,
    "a - b": lambda a, b, w: a - b,
    "a * b": lambda a, b, w: a * b,
    "a & b": lambda a, b, w: a & b,
    "a | b": lambda a, b, w: a | b,
    "a ^ b": lambda a, b, w: a ^ b,
    "~a": lambda a, b, w: ~a,
    "-a": lambda a, b, w: -a,
    "a |+| b": lambda a, b, w: clamp(a + b, 0, (1 << w) - 1),
    "a |-| b": lambda a, b, w: clamp(a - b, 0, (1 << w) - 1),
    "a << (bit<8>) b": lambda a, b, w: a << (b & 255),
    "a >> (bit<8>) b": lambda a, b, w: a >> (b & 255),
    "a < b ? a : b": lambda a, b, w: min(a, b),
    "a >= b ? (bit<W>) 1 : 0": lambda a, b, w: int(a >= b),
    "a == b ? (bit<W>) 1 : 0": lambda a, b, w: int(a == b),
    "(bit<W>) a[5:2]": lambda a, b, w: a >> 2 & 15,
}
SIGNED: dict[str, Operation] = {
    "(int<W>) a + (int<W>) b": lambda a, b, w: a + b,
    "(int<W>) a |+| (int<W>) b": lambda a, b, w: clamp(
        signed(a, w) + signed(b, w), -(1 << (w - 1)), (1 << (w - 1)) - 1
    ),
    "(int<W>) a |-| (int<W>) b": lambda a, b, w: clamp(
        signed(a, w) - signed(b, w), -(1 << (w - 1)), (1 << (w - 1)) - 1
    ),
    "(int<W>) a >> (bit<8>) b": lambda a, b, w: signed(a, w) >> (b & 255),
    "(int<W>) a < (int<W>) b ? (int<W>) 1 : 0": lambda a, b, w: int(signed(a, w) < signed(b, w)),
}


@pytest.mark.parametrize("width", EDGES)
def test_operations_agree_with_exact_arithmetic(width: int) -> None:
    operations = {**UNSIGNED, **SIGNED}
    results = "".join(f"bit<{width}> r{i};" for i in range(len(operations)))
    lines = [
        f"hdr.h.r{i} = (bit<{width}>) ({on_header(text, width)});"
        for i, text in enumerate(operations)
    ]
    e = engine(
        types=f"header h_t {{ bit<{width}> a; bit<{width}> b; {results} bit<8> end; }}"
        if (2 + len(operations)) * width % 8 == 0
        else f"header h_t {{ bit<{width}> a; bit<{width}> b; {results} "
        f"bit<{-(2 + len(operations)) * width % 8}> end; }}",
        ingress=" ".join(lines),
    )
    dice = random.Random(width)
    pairs = list(itertools.product(EDGES[width], repeat=2))
    pairs += [(dice.getrandbits(width), dice.getrandbits(width)) for _ in range(50)]
    bits = (2 + len(operations)) * width
    padding = 8 if bits % 8 == 0 else -bits % 8
    size = (bits + padding) // 8
    for a, b in pairs:
        number = (a << width | b) << (bits - 2 * width + padding)
        [(_, sent)] = e.process(1, number.to_bytes(size, "big"), 0)
        got = int.from_bytes(sent, "big") >> padding
        for i, (text, operation) in enumerate(operations.items()):
            result = got >> width * (len(operations) - 1 - i) & ((1 << width) - 1)
            wanted = operation(a, b, width) & ((1 << width) - 1)
            assert result == wanted, f"{text} with a = {a:#x}, b = {b:#x}"
    e.close()


def on_header(text: str, width: int) -> str:
    """The expression on the header's fields."""
    text = text.replace("W", str(width))
    return " ".join({"a": "hdr.h.a", "b": "hdr.h.b", "~a": "~hdr.h.a", "-a": "-hdr.h.a",
                     "a[5:2]": "hdr.h.a[5:2]"}.get(t, t) for t in text.split())  # fmt: skip


FIELDS = [1, 3, 4, 7, 8, 9, 13, 16, 20, 31, 32, 33, 48, 57, 63, 64, 65, 127, 128, 129, 10]


def test_fields_of_any_width_and_place_are_read_and_written_back() -> None:
    padding = -sum(FIELDS) % 8
    fields = "".join(f"bit<{w}> f{i};" for i, w in enumerate(FIELDS))
    pad = f"bit<{padding}> pad;" if padding else ""
    e = engine(
        types=f"header h_t {{ {fields} {pad} }}",
        ingress=" ".join(f"hdr.h.f{i} = ~hdr.h.f{i};" for i in range(0, len(FIELDS), 2)),
    )
    dice = random.Random(1)
    for _ in range(50):
        values = [dice.getrandbits(w) for w in FIELDS]
        wanted = [v ^ ((1 << w) - 1) if i % 2 == 0 else v
                  for i, (v, w) in enumerate(zip(values, FIELDS, strict=True))]  # fmt: skip
        [(_, sent)] = e.process(1, packed(values, padding), 0)
        assert sent == packed(wanted, padding)
    e.close()


def packed(values: list[int], padding: int) -> bytes:
    number = 0
    for value, width in zip(values, FIELDS, strict=True):
        number = number << width | value
    return (number << padding).to_bytes((sum(FIELDS) + padding) // 8, "big")


def test_an_index_out_of_bounds_reaches_no_element() -> None:
    e = engine(
        types="header h_t { bit<8> a; bit<8> b; bit<16> c; } header s_t { bit<8> v; }",
        headers="h_t h; s_t[3] s;",
        parser="""state start { packet.extract(hdr.h); packet.extract(hdr.s.next);
            packet.extract(hdr.s.next); packet.extract(hdr.s.next); transition accept; }""",
        ingress="""hdr.h.c = (bit<16>) (hdr.s[hdr.h.a].v);
            hdr.s[hdr.h.b].v = 0xEE;""",
    )
    for index in range(256):
        frame = bytes([index, index, 0, 0, 10, 11, 12])
        [(_, sent)] = e.process(1, frame, 0)
        if index < 3:
            assert sent[3] == 10 + index
            assert sent[4 + index] == 0xEE
        else:
            assert sent[4:] == frame[4:], "a write out of bounds must not reach any element"
    e.close()
