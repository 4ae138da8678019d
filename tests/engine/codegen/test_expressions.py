"""Arithmetic of every width and sign on values near the limits, compared with Python's results."""

import itertools
import json
import os
import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from small_programs import engine, json_of

from minip4.engine.engine import Engine

WIDTHS = (1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 130, 200)


def signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> (width - 1) else value


def clamp(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)


Operation = Callable[[int, int, int], int]  # (a, b, width) -> exact result

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
    "a + TOP": lambda a, b, w: a - 1,
    "a |-| TOP": lambda a, b, w: 0,
    "a |+| TOP": lambda a, b, w: (1 << w) - 1,
    "a < TOP ? ~a : TOP": lambda a, b, w: ~a if a < (1 << w) - 1 else a,
    "(bit<W>) a[HIGH:HALF]": lambda a, b, w: a >> w // 2,
    "(a ++ b)[HALF+W-1:HALF]": lambda a, b, w: (a << w | b) >> w // 2,
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
    "(int<W>) a < (int<W>) b ? (int<W>) -1 : 0": lambda a, b, w: -(signed(a, w) < signed(b, w)),
    "(int<W>) a |+| LOW": lambda a, b, w: max(signed(a, w) - (1 << (w - 1)), -1 << (w - 1)),
    "(int<W>) a * -1": lambda a, b, w: -a,
    "(int<W>) a >= LOW ? (int<W>) b : 0": lambda a, b, w: b,
    "(bit<W>) (int<W>) (int<WIDER>) (int<W>) a": lambda a, b, w: a,
}


OPERATIONS = {**UNSIGNED, **SIGNED}


def calculator(width: int) -> Engine:
    """Return an engine that reads a and b from a packet, and writes all results into the packet.

    There is a result per operation.
    """
    results = "".join(f"bit<{width}> r{i};" for i in range(len(OPERATIONS)))
    return engine(
        types=f"header h_t {{ bit<{width}> a; bit<{width}> b; {results} "
        f"bit<{padding(width)}> end; }}",
        ingress=" ".join(
            f"hdr.h.r{i} = (bit<{width}>) ({on_header(text, width)});"
            for i, text in enumerate(OPERATIONS)
        ),
    )


def padding(width: int) -> int:
    return 8 - (2 + len(OPERATIONS)) * width % 8


def on_header(text: str, width: int) -> str:
    """Return an expression of OPERATIONS for fields of the header and this width."""
    values = {
        "WIDER": width + 1,
        "W": width,
        "TOP": (1 << width) - 1,
        "LOW": -(1 << (width - 1)),
        "HIGH": width - 1,
        "HALF": width // 2,
        "a": "hdr.h.a",
        "b": "hdr.h.b",
    }
    return re.sub(r"\b[A-Zab]+\b", lambda found: str(values[found[0]]), text)


def edges(width: int) -> list[int]:
    near = {0, 1, width - 1, width, 64, 127, 1 << width // 2, *(1 << i for i in (32, 63, 64, 127))}
    near |= {(1 << width) - 1, (1 << width) - 2, 1 << (width - 1), (1 << (width - 1)) - 1}
    return sorted(v for v in near if 0 <= v < 1 << width)


@pytest.mark.parametrize("width", WIDTHS)
def test_operations_agree_with_exact_arithmetic(width: int) -> None:
    made = calculator(width)  # for one engine with all widths, cc would need much longer
    rng = random.Random(width)
    pairs = list(itertools.product(edges(width), repeat=2))
    pairs += [(rng.getrandbits(width), rng.getrandbits(width)) for _ in range(50)]
    bits = (2 + len(OPERATIONS)) * width
    for a, b in pairs:
        number = (a << width | b) << (bits - 2 * width + padding(width))
        frame = number.to_bytes((bits + padding(width)) // 8, "big")
        [(_, sent)] = made.process(1, frame, 0)
        got = int.from_bytes(sent, "big") >> padding(width)
        for i, (text, operation) in enumerate(OPERATIONS.items()):
            result = got >> width * (len(OPERATIONS) - 1 - i) & ((1 << width) - 1)
            wanted = operation(a, b, width) & ((1 << width) - 1)
            assert result == wanted, f"{text} with a = {a:#x}, b = {b:#x}"
    made.close()


FIELDS = [1, 3, 4, 7, 8, 9, 13, 16, 20, 31, 32, 33, 48, 57, 63, 64, 65, 127, 128, 129, 10]


def test_fields_of_any_width_and_place_are_read_and_written_back() -> None:
    rest = -sum(FIELDS) % 8
    fields = "".join(f"bit<{w}> f{i};" for i, w in enumerate(FIELDS))
    pad = f"bit<{rest}> pad;" if rest else ""
    e = engine(
        types=f"header h_t {{ {fields} {pad} }}",
        ingress=" ".join(f"hdr.h.f{i} = ~hdr.h.f{i};" for i in range(0, len(FIELDS), 2)),
    )
    rng = random.Random(1)
    for _ in range(50):
        values = [rng.getrandbits(w) for w in FIELDS]
        wanted = [v ^ ((1 << w) - 1) if i % 2 == 0 else v
                  for i, (v, w) in enumerate(zip(values, FIELDS, strict=True))]  # fmt: skip
        [(_, sent)] = e.process(1, packed(values, rest), 0)
        assert sent == packed(wanted, rest)
    e.close()


def packed(values: list[int], rest: int) -> bytes:
    number = 0
    for value, width in zip(values, FIELDS, strict=True):
        number = number << width | value
    return (number << rest).to_bytes((sum(FIELDS) + rest) // 8, "big")


OF_STACKS = {
    "types": "header h_t { bit<8> a; bit<8> b; bit<16> c; } header s_t { bit<8> v; }",
    "headers": "h_t h; s_t[3] s; s_t[3] behind;",
    "parser": f"""state start {{ packet.extract(hdr.h); {3 * "packet.extract(hdr.s.next);"}
        {3 * "packet.extract(hdr.behind.next);"} transition accept; }}""",
}


def test_an_index_out_of_bounds_reaches_no_element() -> None:
    ingress = "hdr.h.c = (bit<16>) (hdr.s[hdr.h.a].v); hdr.s[hdr.h.b].v = 0xEE;"
    out_of_bounds_reaches_nothing(engine(**OF_STACKS, ingress=ingress))


def test_nor_does_one_that_the_engine_works_out() -> None:
    """If an index that the engine computes is out of bounds, it selects no element of a stack.

    JSON of p4c may have such an index. JSON of minip4 has a condition for each element instead.
    """
    ingress = "hdr.h.c = (bit<16>) (hdr.s[1].v); hdr.s[2].v = 0xEE;"
    text = json.dumps(json_of(**OF_STACKS, ingress=ingress))
    for index, field in ((1, "a"), (2, "b")):
        known = json.dumps({"type": "field", "value": [f"s[{index}]", "v"]})
        assert text.count(known) == 1
        text = text.replace(known, json.dumps(element_by(field)))
    out_of_bounds_reaches_nothing(Engine(json.loads(text), sanitize="SANITIZE" in os.environ))


def element_by(field: str) -> dict[str, Any]:
    """Return the JSON of the first field of an element of `s`; a field of `h` is its index."""
    index = {"type": "field", "value": ["h", field]}
    stack = {"type": "header_stack", "value": "s"}
    element = {"op": "dereference_header_stack", "left": stack, "right": index}
    access = {"op": "access_field", "left": {"type": "expression", "value": element}, "right": 0}
    return {"type": "expression", "value": access}


def out_of_bounds_reaches_nothing(e: Engine) -> None:
    """Assert that an index below 3 reads and writes its element, and a larger index no element."""
    for index in range(256):
        frame = bytes([index, index, 0, 0, 10, 11, 12, 13, 14, 15])
        [(_, sent)] = e.process(1, frame, 0)
        if index < 3:
            assert sent[3] == 10 + index
            assert sent[4 + index] == 0xEE
        else:
            assert sent[4:] == frame[4:], "a write out of bounds must not reach any element"
    e.close()
