"""For any text, the front end quickly returns a program, or an error with a location."""

import random
import time
from contextlib import suppress
from pathlib import Path

import front_end
import pytest
from programs_to_check import WHOLE, check, program

from minip4.compiler.errors import P4Error
from minip4.compiler.front import parse_and_check

MANY = 20_000
DOUBLING_STRUCTS = "struct s0 { bit<8> a; bit<8> b; }" + "".join(
    f"struct s{i + 1} {{ s{i} a; s{i} b; }}" for i in range(60)
)
DOUBLING_TYPES = "struct p<A, B> { A a; B b; } typedef p<bit<8>, bit<8>> t0;" + "".join(
    f"typedef p<t{i}, t{i}> t{i + 1};" for i in range(60)
)
DOUBLING_STRINGS = 'const string s0 = "ab";' + "".join(
    f"const string s{i + 1} = s{i} ++ s{i};" for i in range(60)
)
ARMS = "if (true) { } else " * 1000 + "if (true) { "

MONSTERS = {
    "parentheses": ("const bit<8> a = " + "(" * MANY, "nested deeper"),
    "minus signs": ("const bit<8> a = " + "-" * MANY + "1;", "nested deeper"),
    "braces": ("const bit<8> a = " + "{" * MANY, "nested deeper"),
    "casts": ("const bit<8> a = " + "(bit<8>)" * MANY + "1;", "nested deeper"),
    "sum": ("const bit<8> a = 1" + " + 1" * MANY + ";", "operators in a row"),
    "conditions": ("const bit<8> a = " + "true ? 1 : " * MANY + "1;", "nested deeper"),
    "members": ("const bit<8> a = b" + ".c" * MANY + ";", "members in a row"),
    "types": ("const " + "tuple<" * MANY, "nested deeper"),
    "widths": ("const " + "bit<(" * MANY, "nested deeper"),
    "blocks": ("action a() " + "{" * MANY, "nested deeper"),
    "else if": ("action a() { " + "if (true) { } else " * MANY, "more than 1500"),
    "else if in else if": ("action a() { " + ARMS * 2, "more than 1500"),
    "annotations": ("@a(" * MANY, "expected: ')'"),
    "wide shift": ("const bit<8> a = (bit<8>) (1 << 1000000000);", "too large"),
    "power": ("const int a0 = 1 << 60000; const int a1 = a0 * a0;", "too large"),
    "wide type": ("const bit<1000000000> a = 1;", "no valid width"),
    "long number": ("const int a = " + "9" * MANY + ";", "too long"),
    "structs": (DOUBLING_STRUCTS, "too large"),
    "type arguments": (DOUBLING_TYPES, "too large"),
    "strings": (DOUBLING_STRINGS, "too long"),
    "comment": ("/* " * MANY, "comment is not closed"),
    "string": ('const string a = "' + "x" * MANY, "string is not closed"),
    "zeros": ("\0" * 100, "unexpected character"),
    "include": ('#include "test.p4"\n#include "test.p4"\n', "possibly a file includes itself"),
}


@pytest.mark.parametrize("name", MONSTERS)
def test_monsters_are_refused_quickly(name: str) -> None:
    text, message = MONSTERS[name]
    start = time.process_time()
    with pytest.raises(P4Error) as caught:
        check(text)
    assert message in str(caught.value)
    assert time.process_time() - start < 3


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "test.p4"
    path.write_bytes(bytes(range(256)))
    with pytest.raises(P4Error, match="unexpected character"):
        parse_and_check(path)


def test_encodings_and_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "test.p4"
    text = program(body="m.x = 1; // caf\u00e9").replace("\n", "\r\n")
    for data in (b"\xef\xbb\xbf" + text.encode(), text.encode("latin-1")):
        path.write_bytes(data)
        parse_and_check(path)


def test_deep_but_sane_programs_pass() -> None:
    chain = " else ".join(f"if (m.x == {i}) {{ m.y = {i}; }}" for i in range(1500))
    total = " + ".join(["m.x"] * 300)
    blocks = "{" * 190 + "}" * 190
    check(
        program(body=f"{chain} else {blocks} {chain} m.x = {total}; m.y = {'(' * 90}1{')' * 90};")
    )


@pytest.mark.parametrize("seed", range(4))
def test_mutilated_programs_give_located_errors(seed: int) -> None:
    generator = random.Random(seed)
    words = front_end.words_of(WHOLE)
    for _ in range(40):
        with suppress(P4Error):
            check(front_end.mutate(words, generator))
