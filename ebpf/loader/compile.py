"""Compiles C to BPF with clang. Identical sources are compiled only once."""

import hashlib
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from ebpf import INCLUDE_FOLDER
from ebpf.loader.errors import LoadError
from minip4.errors import ToolchainError
from minip4.native.cache import folder, held
from telemark.results.provenance import BpfSource, bpf_sources

OLDEST_CLANG = 14
# Version 3 of the instruction set has atomic operations that return a value. -g adds BTF, which has
# the types of maps. Each program has the parameter that the kernel passes, even if it does not use
# it.
FLAGS = ("-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Wextra", "-Werror",
         "-Wno-unused-parameter")  # fmt: skip
HEADERS = f"/usr/include/{platform.machine()}-linux-gnu"  # folder of <asm/types.h> on Debian
ROOT = INCLUDE_FOLDER.parent.parent


def find_source(source: str | Path) -> Path:
    """Return the path of a program.

    The given path is relative to the working directory or the repository's root.
    """
    tried = dict.fromkeys((Path(source).absolute(), ROOT / source))  # both paths may be the same
    for path in tried:
        if path.is_file():
            return path
    raise LoadError(f"no BPF program {' or '.join(map(str, tried))}")


@contextmanager
def compile_program(source: Path) -> Iterator[Path]:
    """Compile a program. The object file exists until the `with` block ends.

    Headers are found in ebpf/include and in the folder of the program. Raises LoadError.
    """
    compiler, version = clang()
    bpf_sources.add(hash_source(source))
    command = [compiler, *FLAGS, f"-I{INCLUDE_FOLDER}", f"-idirafter{HEADERS}", "-c", str(source)]

    def make(built: Path) -> None:
        run = subprocess.run(
            [*command, "-o", str(built)], capture_output=True, text=True, check=False
        )
        if run.returncode:
            raise LoadError(_describe_failure(source, run.stderr))

    digest = hashlib.sha256("\0".join((version, *FLAGS)).encode())
    headers = sorted({*INCLUDE_FOLDER.glob("*.h"), *source.parent.glob("*.h")})
    for path in (source, *headers):
        digest.update(path.name.encode() + path.read_bytes())
    try:
        with held(folder() / f"{digest.hexdigest()[:32]}.bpf.o", make) as path:
            yield path
    except ToolchainError as error:
        raise LoadError(str(error)) from None


def hash_source(source: Path) -> BpfSource:
    """Return the source of a program, for the provenance of results."""
    digest = hashlib.sha256()
    for path in sorted(_find_headers(source), key=lambda path: (path != source, path.name)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return BpfSource(source.resolve(), digest.hexdigest())


def _find_headers(source: Path) -> set[Path]:
    """Return a file and the project's headers that it includes.

    The project's headers are included by `#include "NAME"`. Includes in headers are followed, too.
    """
    found, todo = set[Path](), [source]
    while todo:
        path = todo.pop()
        found.add(path)
        for name in re.findall(r'^\s*#\s*include\s*"([^"]+)"', path.read_text(), re.MULTILINE):
            places = (path.parent / name, source.parent / name, INCLUDE_FOLDER / name)
            todo += [place for place in places if place.is_file() and place not in found][:1]
    return found


def _describe_failure(source: Path, errors: str) -> str:
    lines = [line for line in errors.splitlines() if "error:" in line]
    if "bpf_helpers.h' file not found" in errors:
        return "no bpf/bpf_helpers.h found: run ./setup.sh (package libbpf-dev)"
    return lines[0] if lines else f"{source}: clang failed: {errors.strip()[-200:] or 'no output'}"


@cache
def clang() -> tuple[str, str]:
    """Return the path and the version of clang.

    The compiler is $CLANG, clang, or the newest clang-N. Raises LoadError.
    """
    names = [os.environ.get("CLANG", "clang"), *(f"clang-{n}" for n in range(30, 13, -1))]
    for path in filter(None, map(shutil.which, names)):
        run = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
        match = re.search(r"clang version (\d+)\S*", run.stdout)
        if match and int(match[1]) >= OLDEST_CLANG:
            return path, match[0]
    raise LoadError(
        f"no clang of version {OLDEST_CLANG} or newer found: run ./setup.sh (package clang)"
    )
