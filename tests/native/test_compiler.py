"""C compilers other than gcc: clang, the package ziglang, and Zig for other platforms."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
import tna_programs
from small_programs import engine

from minip4.compiler import compile_p4
from minip4.engine import library
from minip4.engine.engine import GENERATORS
from minip4.engine.reader.program import read_program
from minip4.errors import ToolchainError
from minip4.native import build, compiler
from minip4.native.compiler import ZIG_FLAGS, ZIGLANG, Compiler, find_compiler, find_zig
from minip4.simulator import virtual

needs_zig = pytest.mark.skipif(find_zig() is None, reason="no package ziglang")
needs_clang = pytest.mark.skipif(shutil.which("clang") is None, reason="no clang")

ROUTER = Path(__file__).parents[2] / "p4src" / "routing" / "router.p4"
ELF_AARCH64 = b"\x7fELF", 18, b"\xb7\0"  # e_machine, at byte 18
MACH_O = b"\xcf\xfa\xed\xfe"
TARGETS = {
    "aarch64-linux-gnu.2.31": ELF_AARCH64,
    "aarch64-macos": (MACH_O, 4, b"\x0c\0\0\x01"),
    "x86_64-macos": (MACH_O, 4, b"\x07\0\0\x01"),
}


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    find_compiler.cache_clear()
    yield
    find_compiler.cache_clear()


@pytest.mark.parametrize("name", [pytest.param("clang", marks=needs_clang),
                                  pytest.param(ZIGLANG, marks=needs_zig)])  # fmt: skip
def test_another_compiler_builds_an_engine(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", name)
    e = engine(ingress="std.egress_spec = 3; hdr.h.b = hdr.h.a + 1;")
    try:
        assert e.process(1, bytes([5, 0, 0, 0]), 0) == [(3, bytes([5, 6, 0, 0]))]
    finally:
        e.close()


@pytest.mark.parametrize("name", [pytest.param("clang", marks=needs_clang),
                                  pytest.param(ZIGLANG, marks=needs_zig)])  # fmt: skip
def test_another_compiler_refuses_a_large_frame(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", name)
    text = "void use(char *); void f(void); void f(void) { char x[2000000]; use(x); }"
    with (
        pytest.raises(build.OverLimits, match="1048576 bytes of stack"),
        build.shared_object([], [build.Generated(text)]),
    ):
        pass


@needs_zig
def test_ziglang_is_used_where_cc_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(compiler.shutil, "which", lambda _: None)
    assert find_compiler().command[:2] == (str(find_zig()), "cc")


def test_an_empty_cc_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "")
    monkeypatch.setattr(compiler.shutil, "which", {"cc": "/bin/true"}.get)
    assert find_compiler().command == ("/bin/true",)


def test_without_a_compiler_the_error_names_both_remedies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(compiler.shutil, "which", lambda _: None)
    monkeypatch.setattr(compiler, "find_zig", lambda: None)
    with pytest.raises(ToolchainError, match=r"apt install gcc libc6-dev.*pip install ziglang"):
        find_compiler()


@needs_zig
@pytest.mark.parametrize("target", TARGETS)
def test_all_c_code_compiles_for_another_platform(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compile and link engines of both architectures, and the simulator; nothing is run.

    Linking proves that the platform has all functions.
    """
    heads: list[bytes] = []

    def take(path: object, *_: object, **__: object) -> mock.MagicMock:
        heads.append(Path(str(path)).read_bytes()[:32])
        return mock.MagicMock()

    zig = (str(find_zig()), "cc", "-target", target, *ZIG_FLAGS)
    cross = Compiler(zig, target, is_clang=True, cpu="-mcpu=baseline")
    monkeypatch.setattr(build, "find_compiler", lambda: cross)
    monkeypatch.setattr(library, "Library", take)
    monkeypatch.setattr(virtual.ctypes, "CDLL", take)
    if "macos" in target:
        monkeypatch.setattr(build, "OWN_CALLS", ())
        monkeypatch.setattr(build, "OWN_LINKS", ())
        monkeypatch.setattr(library, "HAS_DRIVER", False)

    for source in (ROUTER, tna_programs.write(tmp_path)):
        program = read_program(compile_p4(source).bmv2_json)
        text = GENERATORS[program.architecture](program, trace=True).text
        library.load(text, architecture=program.architecture, sanitize=False, trace=True)
    virtual._loaded(sanitize=False)
    magic, at, machine = TARGETS[target]
    assert len(heads) == 3
    assert all(head.startswith(magic) and head[at:].startswith(machine) for head in heads)
