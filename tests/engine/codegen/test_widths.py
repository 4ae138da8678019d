"""cc accepts the C code of programs with all widths, operators, constants and externs.

In these tests, warnings are errors; build.py does not enable these warnings. test_expressions.py
checks the values of expressions.
"""

import subprocess
import tempfile
from pathlib import Path

import pytest
from small_programs import json_of

from minip4 import engine, wire
from minip4.engine.codegen.generator import Generator
from minip4.engine.reader.program import read_program
from minip4.native.build import OPTIMISED, WARNINGS

WIDTHS = range(131)
TOGETHER = 5  # widths per program
LARGEST = 64  # largest width of a range match, and of a result of random()

NO_MISTAKES = ("-Wno-type-limits", "-Wno-tautological-compare", "-Wno-unused-label")
"""A program may well compare a field with what it cannot be."""
BINARY = ("+", "-", "*", "&", "|", "^", "|+|", "|-|")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


def unsigned(w: int) -> list[str]:
    """Return statements for width w.

    The statements use the fields a, b and r of bit<w>, and y and z of a byte. r and z get the
    results.
    """
    top = (1 << w) - 1
    edge = (0, top)[w % 2]
    lines = [f"$r = $a {op} {value};" for op in BINARY for value in ("$b", edge)]
    lines += [f"if ($a {op} {v}) {{ $r = $b; }}" for op in COMPARISONS for v in ("$b", edge)]
    lines += ["$r = ~$a;", "$r = -$a;", "$r = $a < $b ? $a : $b;", "$r = 0;",
              f"$r = {top};", "$r = ($a + $b) >> 1;"]  # fmt: skip
    lines += [f"$r = $a {op} {amount};" for op in ("<<", ">>")
              for amount in ("$y", "$b", (0, 1, w, w + 1, 300)[w % 5])]  # fmt: skip
    for to in {1, 8, max(1, w - 1), w, w + 1, 64, 65, 128, 129}:
        lines += [f"$z = (bit<8>) (bit<{to}>) $a;", f"$r = (bit<{w}>) (bit<{to}>) $y;"]
    lines += [f"$z = (bit<8>) ({pair});" for pair in ("$a ++ $b", "$y ++ $a", "$a ++ $s")]
    if w:
        lines += [f"$r[{i}:{j}] = $a[{i}:{j}]; $z = (bit<8>) $a[{i}:{j}];"
                  for i, j in {(0, 0), (w - 1, 0), (w - 1, w - 1), (w // 2, w // 4)}]  # fmt: skip
    return lines


def signed(w: int) -> list[str]:
    """Return statements for width w.

    The statements use s, t and q of int<w>, a of bit<w>, and y and z of a byte. q and z get the
    results.
    """
    low, high = -(1 << (w - 1)), (1 << (w - 1)) - 1
    edges = (low, -1, 0, high)
    edge = edges[w % 4]
    lines = [f"$q = $s {op} {v};" for op in BINARY for v in ("$t", edge)]
    lines += [f"if ($s {op} {v}) {{ $q = $t; }}" for op in COMPARISONS for v in ("$t", edge)]
    lines += ["$q = ~$s;", "$q = -$s;", "$q = $s > $t ? $s : $t;"]
    lines += [f"$q = {v};" for v in edges]
    lines += [f"$q = $s {op} {amount};" for op in ("<<", ">>")
              for amount in ("$y", (0, 1, w, w + 1, 300)[w % 5])]  # fmt: skip
    lines += [f"$q = (int<{w}>) (int<{to}>) $s;" for to in {2, max(2, w - 1), w + 1, 64, 65, 129}]
    lines += [f"$z = (bit<8>) (bit<{w + 8}>) ($s ++ $y); $z = (bit<8>) (bit<{w}>) $s;",
              f"$q = (int<{w}>) (bit<{w}>) $a; $z = (bit<8>) $s[{w - 1}:0];"]  # fmt: skip
    return lines


def externs(w: int) -> list[str]:
    lines = [f"r{w}.read($r, 1); r{w}.write((bit<32>) $y, $a); r{w}.write(0, {(1 << w) - 1});",
             f"hash($r, HashAlgorithm.crc32, (bit<{w}>) 0, {{ $a, $b, $y }}, (bit<{w}>) 1);",
             f"digest<digest{w}_t>(1, {{ $a, $z }}); meta.kept{w} = $a;",
             "log_msg(\"{}\", {$a}); if ($a ++ $b == $b ++ $a) { $z = 1; }",
             f"hdr.s{w}[$y].a = $a; if (hdr.h{w} == hdr.i{w}) {{ $z = 2; }}"]  # fmt: skip
    if 0 < w <= LARGEST:
        lines += ["random($r, 0, $a);"]
    return lines


def kinds(w: int) -> dict[str, str]:
    """Return the tables of a width: the name, and a template for the key field of its entries.

    The template is empty if the table has no entries.
    """
    top = (1 << w) - 1
    names = {"exact": "{}", "lpm": f"{{}} &&& {top}", "ternary": f"{{}} &&& {top >> 1}",
             "optional": "{}", "range": "0 .. {}", "two": "", "both": ""}  # fmt: skip
    if not 0 < w <= LARGEST:
        del names["range"]
    return names


def tables(w: int) -> str:
    """Return a table per match kind, and two tables with several key fields.

    Entries have keys near the limits, and action parameters of the width.
    """
    text = f"action put{w}(bit<{w}> v, bit<8> y) {{ hdr.h{w}.r = v; hdr.h{w}.z = y; }}\n"
    actions = f"actions = {{ put{w}; NoAction; }}"
    for kind, key in kinds(w).items():
        if key:
            edges = sorted({0, (1 << w) - 1})
            entries = " ".join(f"{key.format(v)} : put{w}({v}, 1);" for v in edges)
            text += f"table {kind}{w} {{ key = {{ hdr.h{w}.a : {kind}; }} {actions} "
            text += f"entries = {{ {entries} }} default_action = NoAction(); }}\n"
    for name, several in {
        "two": ("ternary", "exact", "exact"),
        "both": ("exact", "exact", "lpm"),
    }.items():
        key = " ".join(f"hdr.h{w}.{f} : {k};" for f, k in zip("aby", several, strict=True))
        text += f"table {name}{w} {{ key = {{ {key} }} {actions} }}\n"
    return text


def parser(widths: range) -> str:
    """Return a parser that extracts headers of each width. It also uses lookahead, and select."""
    sets, states = "", f"state start {{ packet.extract(hdr.first); transition next{widths[0]}; }}"
    for w in widths:
        top = (1 << w) - 1
        following = f"next{w + 1}" if w + 1 in widths else "accept"
        ahead = f"packet.lookahead<bit<{w}>>()" if w else "hdr.h0.a"
        in_set = f"set{w}: accept; " if w else ""
        sets += f"value_set<bit<{w}>>(2) set{w};" if w else ""
        states += f"""
            state next{w} {{ packet.extract(hdr.h{w}); packet.extract(hdr.s{w}.next);
                hdr.i{w}.r = {ahead};
                transition select(hdr.h{w}.a, hdr.s{w}.last.y) {{
                    (0, 1): ahead{w}; ({top}, _): set_of{w}; ({top} &&& {top >> 1}, 2): ahead{w};
                    default: {following}; }} }}
            state set_of{w} {{ transition select(hdr.h{w}.b) {{ {in_set}default: ahead{w}; }} }}
            state ahead{w} {{ transition select({ahead}) {{ {top}: accept;
                default: {following}; }} }}"""
    return sets + states


def declared(w: int) -> str:
    number = max(w, 1)  # int<0> does not exist
    return f"""
        header h{w}_t {{ bit<{w}> a; bit<{w}> b; bit<{w}> r; int<{number}> s; int<{number}> t;
            int<{number}> q; bit<{8 - (3 * w + 3 * number) % 8}> pad; bit<8> y; bit<8> z; }}
        struct digest{w}_t {{ bit<{w}> a; bit<8> z; }}"""


def program(widths: range) -> dict[str, str]:
    return {
        "types": "header first_t { bit<8> a; }" + "".join(map(declared, widths)),
        "headers": "first_t first;"
        + "".join(f"h{w}_t h{w}; h{w}_t i{w}; h{w}_t[2] s{w};" for w in widths),
        "metadata": "".join(f"@field_list(1) bit<{w}> kept{w};" for w in widths),
        "parser": parser(widths),
        "ingress_locals": "".join(f"register<bit<{w}>>(4) r{w};" + tables(w) for w in widths),
        "ingress": "clone_preserving_field_list(CloneType.I2E, 1, 1);"
        + "".join(statements(w) for w in widths),
    }


def statements(w: int) -> str:
    lines = [*unsigned(w), *signed(max(w, 1)), *externs(w)]
    lines += [f"{kind}{w}.apply();" for kind in kinds(w)]
    return " ".join(lines).replace("$", f"hdr.h{w}.")


@pytest.mark.parametrize("first", range(0, len(WIDTHS), TOGETHER))
def test_cc_takes_every_width(first: int) -> None:
    widths = range(first, min(first + TOGETHER, len(WIDTHS)))
    model = read_program(json_of(**program(widths)))
    assert_taken(Generator(model).text, "-fsyntax-only")


@pytest.mark.parametrize("trace", [False, True])
def test_cc_takes_the_least_widths_optimised_and_traced(trace: bool) -> None:
    """cc gives no warnings for the widths 0 and 1 if it optimises, with and without a trace.

    Some warnings of cc appear only if it optimises, for example those on reads beyond an array.
    """
    model = read_program(json_of(**program(range(2))))
    flags = ["-DMINIP4_TRACE"] if trace else []
    assert_taken(Generator(model, trace=trace).text, "-S", *OPTIMISED, *flags)


def assert_taken(text: str, *flags: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "generated.c"
        source.write_text(text)
        command = [
            "cc",
            *WARNINGS,
            *NO_MISTAKES,
            *flags,
            f"-I{engine.C_FOLDER}",
            f"-I{wire.C_FOLDER}",
            str(source),
        ]
        run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert run.returncode == 0, run.stderr[:4000]
