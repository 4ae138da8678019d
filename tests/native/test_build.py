"""Builds of C code: what determines a build, where headers are searched, and limits of cc."""

import ctypes
import platform
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from minip4.errors import ToolchainError
from minip4.native import build
from minip4.native.build import Generated, OverLimits, Unit
from minip4.native.compiler import find_compiler


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a test, with a cache that no other test uses."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def values(folder: Path, generated: list[Generated], flags: tuple[str, ...] = ()) -> list[int]:
    """Build file.c and the generated text.

    Return the results of their functions value() and other().
    """
    with build.shared_object(
        [folder / "c" / "file.c"], generated, include=[folder / "include"], flags=flags
    ) as path:
        library = ctypes.CDLL(str(path))
    return [library.value(), library.other()]


@pytest.fixture
def sources(folder: Path) -> Path:
    (folder / "c").mkdir()
    (folder / "include").mkdir()
    (folder / "c" / "own.h").write_text("enum { OWN = 1 };")
    (folder / "include" / "far.h").write_text("enum { FAR = 20 };")
    (folder / "c" / "file.c").write_text(
        '#include "own.h"\n#include "far.h"\nint value(void) { return OWN + FAR; }'
    )
    return folder


OTHER = '#include "far.h"\nint other(void) { return FAR + MORE; }'


def test_a_shared_object_is_made_of_files_and_texts_with_flags_of_their_own(sources: Path) -> None:
    assert values(sources, [Generated(OTHER, ("-DMORE=300",))]) == [21, 320]
    assert values(sources, [Generated(OTHER, ("-DMORE=400",))]) == [21, 420]
    assert values(sources, [Generated(OTHER)], ("-DMORE=500",)) == [21, 520]


@pytest.mark.parametrize("changed", ["c/own.h", "include/far.h", "c/file.c"])
def test_it_is_made_anew_when_a_file_has_changed(sources: Path, changed: str) -> None:
    generated = [Generated(OTHER, ("-DMORE=0",))]
    before = values(sources, generated)
    path = sources / changed
    path.write_text(path.read_text().replace("= 1", "= 2").replace("= 20", "= 30")
                    .replace("return OWN", "return 5 + OWN"))  # fmt: skip
    assert values(sources, generated) != before


def test_the_files_of_a_unit_see_what_earlier_files_define(folder: Path) -> None:
    (folder / "far").mkdir()
    (folder / "far" / "far.h").write_text("#include <sched.h>\nenum { FAR = 20 };")
    (folder / "a.c").write_text('#include "far.h"\nstatic int hidden(void) { return FAR; }')
    # cpu_set_t needs _GNU_SOURCE before the first header
    (folder / "b.c").write_text(
        "#define _GNU_SOURCE\n#include <sched.h>\n"
        "int value(void) { cpu_set_t set; CPU_ZERO(&set); return hidden() + CPU_COUNT(&set); }"
    )
    unit = Unit([folder / "a.c", folder / "b.c"], [folder / "far"])
    with build.shared_object([unit]) as path:
        assert ctypes.CDLL(str(path)).value() == 20


def test_a_unit_is_made_anew_when_a_header_has_changed(folder: Path) -> None:
    (folder / "far").mkdir()
    (folder / "a.c").write_text('#include "far.h"\nint value(void) { return FAR; }')
    unit, found = Unit([folder / "a.c"], [folder / "far"]), []
    for number in (20, 30):
        (folder / "far" / "far.h").write_text(f"enum {{ FAR = {number} }};")
        with build.shared_object([unit]) as path:
            found.append(ctypes.CDLL(str(path)).value())
    assert found == [20, 30]


def objects(folder: Path) -> set[str]:
    return {path.name for path in (folder / "cache" / "minip4").glob("*.o")}


def test_a_unit_is_compiled_once_for_several_shared_objects(sources: Path) -> None:
    unit = Unit([sources / "c" / "file.c"], [sources / "include"])
    with build.shared_object([unit]):
        before = objects(sources)
    with build.shared_object([unit], [Generated("int one = 1;")], include=[sources / "c"]) as path:
        assert ctypes.CDLL(str(path)).value() == 21
    assert len(before) == 1
    assert len(objects(sources) - before) == 1


def test_a_program_finds_headers_and_is_made_anew(folder: Path) -> None:
    (folder / "main.c").write_text('#include "far.h"\nint main(void) { return FAR; }')
    (folder / "include").mkdir()
    for value in (3, 4):
        (folder / "include" / "far.h").write_text(f"enum {{ FAR = {value} }};")
        path = build.program([folder / "main.c"], include=[folder / "include"])
        assert subprocess.run([path], check=False).returncode == value


ANOTHER_CPU = """#!/bin/sh
for argument; do
    shift
    [ "$argument" = -march=native ] && argument=-march=$CPU
    set -- "$@" "$argument"
done
exec "$REAL_CC" "$@"
"""


@pytest.fixture
def another_cpu(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Return a function that makes cc compile for a given CPU, as if the machine had this CPU."""
    script = folder / "cc"
    script.write_text(ANOTHER_CPU)
    script.chmod(0o755)
    monkeypatch.setenv("REAL_CC", find_compiler().command[0])
    monkeypatch.setenv("CC", str(script))

    def see(cpu: str) -> None:
        monkeypatch.setenv("CPU", cpu)
        find_compiler.cache_clear()

    yield see
    find_compiler.cache_clear()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="CPUs are named that are none here")
def test_another_cpu_gets_a_program_of_its_own(
    folder: Path, another_cpu: Callable[[str], None]
) -> None:
    """A cached program is built again for another CPU, and reused for the same CPU.

    Machines with different CPUs may share a cache, for example in a home folder on a server.
    """
    (folder / "main.c").write_text(
        "int main(void) {\n#ifdef __AVX2__\nreturn 2;\n#endif\nreturn 1;\n}"
    )
    built = []
    for cpu, status in (("x86-64", 1), ("haswell", 2), ("x86-64", 1)):
        another_cpu(cpu)
        built.append(build.program([folder / "main.c"]))
        assert subprocess.run([built[-1]], check=False).returncode == status
    assert built[0] == built[2]


def test_a_compiler_error_is_one_line(folder: Path) -> None:
    (folder / "main.c").write_text("int main(void) { return nothing; }")
    with pytest.raises(ToolchainError, match=r"main\.c:1:25: error: .nothing. undeclared") as told:
        build.program([folder / "main.c"])
    assert "\n" not in str(told.value)


def test_cc_is_stopped_when_it_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "LIMITED", 'ulimit -t 1; exec "$@"')
    cases = " ".join(f"case {i}: return x * {i};" for i in range(400_000))
    text = f"int f(int x); int f(int x) {{ switch (x) {{ {cases} }} return 0; }}"
    with (
        pytest.raises(OverLimits, match="cannot compile the program within 120 s"),
        build.shared_object([], [Generated(text)]),
    ):
        pass


def test_cc_is_stopped_when_a_function_needs_a_thread_s_stack() -> None:
    text = "void use(char *); void f(void); void f(void) { char x[2000000]; use(x); }"
    with (
        pytest.raises(OverLimits, match="1048576 bytes of stack"),
        build.shared_object([], [Generated(text)]),
    ):
        pass
