"""The preprocessor: directives, macros, conditions, includes, and source locations."""

from pathlib import Path

import pytest

from minip4.compiler.errors import P4Error
from minip4.compiler.preprocess.preprocessor import preprocess
from minip4.errors import Minip4Error


def texts(tmp_path: Path, text: str, defines: tuple[str, ...] = ()) -> list[str]:
    path = tmp_path / "test.p4"
    path.write_text(text)
    return [t.text for t in preprocess(path, [], defines)[0]][:-1]


MACROS = [
    ("#define W 8\nbit<W> a;", "bit < 8 > a ;"),
    ("#define A B\n#define B A\nA B", "A B"),
    ("#define ADD(a, b) ((a) + (b))\nADD(1, ADD(2, 3))", "( ( 1 ) + ( ( ( 2 ) + ( 3 ) ) ) )"),
    ("#define F(x) x\nF ((1, 2)) F", "( 1 , 2 ) F"),
    ("#define F(x) x\nF(\n 1\n)", "1"),
    ('#define STR(x) #x\nSTR(a "b")', '"a \\"b\\""'),
    ("#define STR(x) #x\nSTR( a.b /* c */  +1\n;)", '"a.b +1 ;"'),
    ('#define URL "http://x"  // x\nURL', '"http://x"'),
    ("#define CAT(a, b) a ## b\nCAT(x, 1) CAT(8w, 3)", "x1 8w3"),
    ("#define E()\n#define N 1 \\\n + 2\nE() N", "1 + 2"),
    ("#define N 1 // one\nN /* N */ N", "1 1"),
    ("#define N 1\n#undef N\nN", "N"),
    ("#define OBJECT (1)\nOBJECT", "( 1 )"),
    ("__LINE__\n\n__LINE__", "1 3"),
    ("a\\\nb 8\\\r\nw\\ \n1 <\\\n<", "ab 8w1 <<"),
    ('"a\\\n b" // c\\\nd', '"a b"'),
    ('# 7 "x.p4"\n#line 3\n__LINE__', "3"),
    ('#pragma pack(1)\n#ident "1.2"\n#pragma\na', "a"),
    ("#if 0\n#warning x\n#pragma once\n#endif\na", "a"),
]


@pytest.mark.parametrize(("source", "expected"), MACROS)
def test_macros_are_replaced(tmp_path: Path, source: str, expected: str) -> None:
    assert " ".join(texts(tmp_path, source)) == expected


LONG_STRINGS = {
    # content of a file, and the resulting tokens
    "blanks are kept in the first line": ('"a   b\n  c   d\n\te"', '"a   b\n  c d\n e"'),
    "macros are replaced but in the first line": (
        '#define M 5\n"M\n M;M "\n" M\nM" M',
        '"M\n 5;5 " " M\n5" M',
    ),
    "directives": (
        '#define M\n@brief("one\n#ifdef M\n  two\n#else\n  three\n#endif\n  four")',
        '@ brief ( "one\n\n  two\n\n\n\n  four" )',
    ),
    "text that is left out may have quotes": (
        '"a\n#if 0\nb" c\n#endif\nd"',
        '"a\n\n\n\nd"',
    ),
    "comments stay": ('"a // b\n c  // d  e\n/* f  */g"', '"a // b\n c // d  e\n/* f  */g"'),
    "a quote in a comment ends it": ('"a\n// b" c\nd', '"a\n// b" c d'),
    "what is no directive is text": ('"a\n# heading\n#2\n#\nb"', '"a\n# heading\n#2\n\nb"'),
    "joined lines": ('"a\nb\\\nc\nd"', '"a\nbc\n\nd"'),
    "escaped quotes": ('"a\n \\"b\n\\\\" c', '"a\n \\"b\n\\\\" c'),
    "apostrophes": ('"a\n don\'t  x  y\nz"', '"a\n don\'t  x  y\nz"'),
    "another begins where one ends": ('"a\n" "b\n" c', '"a\n" "b\n" c'),
    "in text that is left out": ('#if 0\n"a\n#endif\nb', "b"),
}


@pytest.mark.parametrize(("shift", "is_shift"), [("x >> 1", True), ("x > > 1", False)])
def test_macros_keep_shifts(tmp_path: Path, shift: str, is_shift: bool) -> None:
    path = tmp_path / "test.p4"
    path.write_text(f"#define SHIFT(x) {shift}\nSHIFT(2)")
    (_, first, second, *_rest), _ = preprocess(path, [], [])
    assert first.touches(second) == is_shift


@pytest.mark.parametrize("name", LONG_STRINGS)
def test_strings_that_span_lines(tmp_path: Path, name: str) -> None:
    """A string may span lines. The expected results are those of GNU cpp, which p4c uses."""
    source, expected = LONG_STRINGS[name]
    assert " ".join(texts(tmp_path, source)) == expected


def test_tokens_after_a_multi_line_string_have_the_right_position(tmp_path: Path) -> None:
    path = tmp_path / "test.p4"
    path.write_text('x "a\nb" c\\\n  d\ne')
    tokens, _ = preprocess(path, [], [])
    places = [(t.text, t.line, t.column, t.end_line, t.end_column) for t in tokens[:-1]]
    assert places == [
        ("x", 1, 1, 1, 2),
        ('"a\nb"', 1, 3, 2, 3),
        ("c", 2, 4, 2, 5),
        ("d", 2, 7, 2, 8),
        ("e", 4, 1, 4, 2),
    ]


def test_a_string_without_end_is_located(tmp_path: Path) -> None:
    path = tmp_path / "test.p4"
    path.write_text('x\n "a\nb')
    (_x, string, _), _ = preprocess(path, [], [])
    assert (string.kind, string.line, string.column) == ("bad", 2, 2)


def test_include_in_a_string_is_refused(tmp_path: Path) -> None:
    with pytest.raises(P4Error, match="2:1: error: #include in a string"):
        texts(tmp_path, '"a\n#include <core.p4>\n"')


UNKNOWN = ["#frobnicate", "#!/usr/bin/p4", "  # elsif 3", '#x "y']


@pytest.mark.parametrize("line", UNKNOWN)
def test_unknown_directives_are_ignored_with_a_warning(tmp_path: Path, line: str) -> None:
    path = tmp_path / "test.p4"
    path.write_text(f"a\n{line}\nb\n#if 0\n{line}\n#endif")
    tokens, warnings = preprocess(path, [], [])
    assert [t.text for t in tokens] == ["a", "b", ""]
    (warning,) = warnings
    assert (warning.kind, warning.source.line) == ("cpp", 2)
    assert "is ignored" in str(warning)


CONDITIONS = [
    ("1", True), ("0", False), ("defined(X)", True), ("defined Y", False), ("!defined(Y)", True),
    ("X == 3 && X < 4", True), ("X + 1 == 4 || 1 / 0", None), ("(1 ? 0 : 1)", None),
    ("Y", False), ("X * 2 - 1 == 5", True), ("~0 & 3", True), ("X % 2 == 1", True),
    ("0x10 > 15", True), ("1 | 0", True), ("2 ^ 2", False), ("-X < 0", True), ("(1", None),
    ("8 != (1<<X)", False), ("1 << 1 + 1 == 4", True), ("16 >> X == 2", True), ("1 > > 1", None),
    ("2 > 1", True), ("1 << 64", None), ("1 >> -1", None), ("1 >", None),
    ("1 1", None), ("", None), ("X / 0", None), ("(" * 80 + "1" + ")" * 80, None),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "expected"), CONDITIONS)
def test_conditions_follow_c(tmp_path: Path, condition: str, expected: bool | None) -> None:
    source = f"#if {condition}\nyes\n#else\nno\n#endif"
    if expected is None:
        with pytest.raises(P4Error, match="bad #if"):
            texts(tmp_path, source, ("X=3",))
    else:
        assert texts(tmp_path, source, ("X=3",)) == ["yes" if expected else "no"]


def test_only_the_first_true_branch_counts_and_skipped_text_may_be_anything(
    tmp_path: Path,
) -> None:
    source = """#ifdef A
$ ` "
#if 1
x
#endif
#elif 1
taken
#elif 1
not
#else
not
#endif
#ifndef A
also
#endif"""
    assert texts(tmp_path, source) == ["taken", "also"]


ERRORS = [
    ("#if 1", "1:1: error: this conditional has no #endif"),
    ("\n#endif", "2:1: error: #endif without #if"),
    ("#if 1\n#else\n#else\n#endif", "3:1: error: #else after #else"),
    ("#error no luck", "1:1: error: #error no luck"),
    ("#include <nowhere.p4>", "1:1: error: cannot find 'nowhere.p4' to include"),
    ("#include nowhere", "1:1: error: bad #include"),
    ('#include "test.p4"', "#include is nested too deeply"),
    ("#define F(x) x\nF(1, 2)", "2:1: error: macro F takes 1 argument(s), 2 given"),
    ("#define F(x) x\nF(1", "2:1: error: the arguments of macro F have no closing ')'"),
    ("#define", "1:1: error: #define without a name"),
    ("#define F(a b) a", "1:1: error: bad macro parameters"),
    ("#ifdef\n#endif", "1:1: error: #ifdef without a name"),
]


@pytest.mark.parametrize(("source", "message"), ERRORS)
def test_mistakes_are_located(tmp_path: Path, source: str, message: str) -> None:
    with pytest.raises(P4Error) as caught:
        texts(tmp_path, source)
    assert message in str(caught.value)


def test_a_macro_that_grows_without_end_is_refused(tmp_path: Path) -> None:
    doubling = "\n".join(f"#define A{i} A{i + 1} A{i + 1}" for i in range(40))
    with pytest.raises(P4Error, match="expands without end"):
        texts(tmp_path, doubling + "\nA0")


def test_tokens_keep_their_file_line_and_column(tmp_path: Path) -> None:
    (tmp_path / "inner.p4").write_text("\n  inner")
    path = tmp_path / "test.p4"
    path.write_text('#define M 1 +\\\n 2\n/* two\nlines */ a\n#include "inner.p4"\n  M end')
    tokens, _ = preprocess(path, [], [])
    places = [(t.text, Path(t.file.path).name, t.line, t.column) for t in tokens]
    assert places == [
        ("a", "test.p4", 4, 10),
        ("inner", "inner.p4", 2, 3),
        ("1", "test.p4", 6, 3),
        ("+", "test.p4", 6, 3),
        ("2", "test.p4", 6, 3),
        ("end", "test.p4", 6, 5),
        ("", "test.p4", 6, 8),
    ]


def test_include_directories_come_before_our_own_files(tmp_path: Path) -> None:
    folder = tmp_path / "include"
    folder.mkdir()
    (folder / "core.p4").write_text("mine")
    path = tmp_path / "test.p4"
    path.write_text("#include <core.p4>")
    assert preprocess(path, [folder], [])[0][0].text == "mine"
    assert preprocess(path, [], [])[0][0].file.is_system


def test_defines_of_the_command_line(tmp_path: Path) -> None:
    assert texts(tmp_path, "A B", ("A", "B=x y")) == ["1", "x", "y"]
    with pytest.raises(Minip4Error, match="expected NAME or NAME=value"):
        texts(tmp_path, "", ("1=2",))


ONCE = [
    ("#pragma once\nx", "x"),
    ("x\n#  pragma  once // x", "x"),
    ("#if 0\n#pragma once\n#endif\nx", "x x x"),
    ("#pragma once more\nx", "x x x"),
]


@pytest.mark.parametrize(("inner", "expected"), ONCE)
def test_pragma_once(tmp_path: Path, inner: str, expected: str) -> None:
    (tmp_path / "inner.p4").write_text(inner)
    (tmp_path / "other.p4").symlink_to("inner.p4")
    source = '#include "inner.p4"\n#include "./inner.p4"\n#include "other.p4"\n'
    assert " ".join(texts(tmp_path, source)) == expected


GUARDED = [
    ("/* a */ // b\n# ifndef G // c\n#define G\nx\n#if 1\n#else\n#endif\n#endif // G\n", "x", 1),
    ("#ifndef G\nx\n#endif\n", "x x", 2),  # G stays undefined, so the file is included twice
    ("#ifndef G\n#define G\nx\n#else\ny\n#endif", "x y", 2),
    ("#ifndef G\n#define G\nx\n#elif 1\ny\n#endif", "x y", 2),
    ("#ifndef G\n#define G\nx\n#endif\ny", "x y y", 2),
    ("y\n#ifndef G\n#define G\nx\n#endif", "y x y", 2),
    ("#ifndef G\n#define G\nx\n#endif\n#ifndef H\ny\n#endif", "x y y", 2),
    ("#ifdef G\nx\n#else\n#define G\ny\n#endif", "y x", 2),
    ("#ifdef __TARGET_BMV2__\nx\n#endif", "x x", 2),
]


@pytest.mark.parametrize(("inner", "expected", "reads"), GUARDED)
def test_a_file_that_its_guard_empties_is_read_once(
    tmp_path: Path, inner: str, expected: str, reads: int
) -> None:
    (tmp_path / "inner.p4").write_text(inner)
    path = tmp_path / "test.p4"
    path.write_text('#include "inner.p4"\n#include "./inner.p4"\n')
    *tokens, end = preprocess(path, [], [])[0]
    assert " ".join(token.text for token in tokens) == expected
    assert len(end.file.includes) == reads


def test_a_guard_that_is_undefined_again_guards_no_more(tmp_path: Path) -> None:
    (tmp_path / "inner.p4").write_text("#ifndef G\n#define G\nx\n#endif\n")
    source = '#include "inner.p4"\n#undef G\n#include "inner.p4"\n'
    assert texts(tmp_path, source) == ["x", "x"]


def test_a_warning_has_its_place(tmp_path: Path) -> None:
    path = tmp_path / "test.p4"
    path.write_text("a\n#warning look here // please\nb")
    tokens, warnings = preprocess(path, [], [])
    assert [t.text for t in tokens] == ["a", "b", ""]
    [warning] = warnings
    assert "test.p4:2:1: warning: #warning look here [--Wdisable=cpp]\n" in str(warning)
