"""Compile C with cc to shared objects and programs; identical code is compiled only once.

The caller passes the C files and the folders of their headers.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from minip4.errors import ToolchainError
from minip4.native.cache import folder, held
from minip4.native.compiler import find_compiler

WARNINGS = ("-std=gnu11", "-Wall", "-Wextra", "-Werror")
# A fused multiply-add rounds once instead of twice. With it, meters would depend on the CPU that
# compiles the code.
OPTIMISED = ("-O2", "-ffp-contract=off", "-fno-strict-aliasing")
SANITIZED = ("-O1", "-g1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined",
             "-fno-sanitize-recover=undefined")  # fmt: skip
# Flags of the compiler and of the linker: a shared object calls its own functions, not those of an
# engine that was loaded before. On macOS, this is always so.
OWN_CALLS = ("-fno-semantic-interposition",) if sys.platform == "linux" else ()
OWN_LINKS = ("-Wl,-Bsymbolic",) if sys.platform == "linux" else ()
LIBRARIES = ("-lpthread", "-lm")
# Files of a unit that need this macro define it, too, but only the first file of a unit can define
# it in time.
ALL_OF_LIBC = "-D_GNU_SOURCE="

# Limits of cc's CPU time, of its memory, and of the stack frame of a function. The limits are
# needed, because generated code may be hostile.
MAX_CPU_S = 120
MAX_MEMORY_KB = 4 << 20
# a thread has 8 MB of stack, and up to four such functions call each other
MAX_FRAME_BYTES = 1 << 20
LIMITED = f'ulimit -t {MAX_CPU_S} 2>&-; ulimit -v {MAX_MEMORY_KB} 2>&-; exec "$@"'
OVER_LIMITS = (
    "signal terminated program", "out of memory", "memory exhausted", "frame size of",
    "stack frame size",
)  # fmt: skip

# keeps compiled programs in the cache, because this process may start them at any time
_kept = ExitStack()


class OverLimits(ToolchainError):
    """An error for generated code that cc cannot compile within its limits."""


@dataclass(frozen=True, slots=True)
class Unit:
    """C files that are one translation unit, with the folders of their headers.

    cc compiles a unit faster than single files. Static names of its files must differ.
    """

    files: Sequence[Path]
    include: Sequence[Path] = ()


@dataclass(frozen=True, slots=True)
class Generated:
    """Generated C code: a translation unit with its own compiler flags."""

    text: str
    flags: Sequence[str] = ()


@contextmanager
def shared_object(
    sources: Sequence[Path | Unit], generated: Sequence[Generated] = (), *,
    include: Sequence[Path] = (), flags: Sequence[str] = (), sanitize: bool = False,
) -> Iterator[Path]:  # fmt: skip
    """Compile `sources` and `generated` to a shared object; load it within the `with` block.

    Headers are searched in the folders `include` (a Unit has its own) and in the folders of the
    sources. With `sanitize`, the code is built with AddressSanitizer and UBSan; the loading process
    must have preloaded libasan. Raises ToolchainError, or OverLimits if cc reaches a limit with
    generated code.
    """
    all_flags = (*_mode(sanitize), "-fPIC", *OWN_CALLS, *flags)
    frames = find_compiler().max_frame(MAX_FRAME_BYTES)
    units = [Unit((each,), include) if isinstance(each, Path) else each for each in sources]
    # generated code first, because it may take longest
    parts = [
        _Call((), each.text, include, (*all_flags, *each.flags, *frames, "-c"))
        for each in generated
    ]
    parts += [
        _Call(unit.files, "", unit.include, (*all_flags, ALL_OF_LIBC, "-c")) for unit in units
    ]
    link = (*all_flags, "-shared", *OWN_LINKS)

    def make(built: Path) -> None:
        # Only the generated code differs between programs. All other files are compiled once.
        with ThreadPoolExecutor(os.cpu_count()) as threads, ExitStack() as used:
            objects = list(threads.map(used.enter_context, (part.held(".o") for part in parts)))
            _Call(objects, "", (), link).run(built)

    texts = [text for each in generated for text in (*each.flags, each.text)]
    files = [path for unit in units for path in unit.files]
    folders = [*include, *(folder for unit in units for folder in unit.include)]
    whole = _Call(files, "\0".join(texts), folders, (*link, *frames))
    with held(whole.place(".so"), make) as path:
        yield path


def program(
    sources: Sequence[Path], text: str = "", *, include: Sequence[Path] = (),
    sanitize: bool = False,
) -> Path:  # fmt: skip
    """Compile `sources` and generated code to an executable that exists as long as this process.

    Raises ToolchainError.
    """
    return _kept.enter_context(_Call(sources, text, include, _mode(sanitize)).held(""))


def _mode(sanitize: bool) -> tuple[str, ...]:
    return (*WARNINGS, *(SANITIZED if sanitize else (find_compiler().cpu, *OPTIMISED)))


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of cc for files or for generated code."""

    sources: Sequence[Path]
    text: str
    include: Sequence[Path]
    flags: Sequence[str]

    def held(self, suffix: str) -> AbstractContextManager[Path]:
        return held(self.place(suffix), self.run)

    def place(self, suffix: str) -> Path:
        """Return the path of the result in the cache; the file name is a hash of all inputs."""
        compiler = find_compiler()
        inputs = (*compiler.command, compiler.id, *self.flags, self.text)
        digest = hashlib.sha256("\0".join(inputs).encode())
        folders = {*self.include, *(source.parent for source in self.sources)}
        headers = [header for folder in sorted(folders) for header in sorted(folder.glob("*.h"))]
        for path in [*self.sources, *headers]:
            digest.update(path.name.encode() + path.read_bytes())
        return folder() / (digest.hexdigest()[:32] + suffix)

    def run(self, built: Path) -> None:
        compiler = find_compiler()
        inputs = [str(path) for path in self.sources]
        if self.text:
            text = built.with_suffix(".c")
            text.write_text(self.text)
            inputs.append(str(text))
        elif "-c" in self.flags:  # one object for all files
            inputs = [word for path in inputs for word in ("-include", path)]
            inputs += ["-x", "c", "/dev/null"]
        folders = [f"-I{folder}" for folder in self.include]
        libraries = () if "-c" in self.flags else LIBRARIES  # clang refuses unused arguments
        command = [*compiler.command, *self.flags, *folders, *inputs, "-o", str(built), *libraries]
        # A preloaded sanitizer would need more address space than cc may use.
        environment = {name: text for name, text in os.environ.items() if name != "LD_PRELOAD"}
        # The C library that Zig compiles is kept for later builds. The build folder is removed.
        environment["ZIG_GLOBAL_CACHE_DIR"] = str(folder() / "zig")
        environment["ZIG_LOCAL_CACHE_DIR"] = str(built.parent)
        run = subprocess.run(
            ["/bin/sh", "-c", LIMITED, "sh", *command],
            capture_output=True, text=True, check=False, env=environment,
        )  # fmt: skip
        if run.returncode:
            self._fail(built, command, run.returncode, run.stderr)

    def _fail(self, built: Path, command: Sequence[str], status: int, errors: str) -> None:
        was_killed = status < 0  # by the limit of CPU time; unknown for several processes
        if self.text and (was_killed or any(sign in errors for sign in OVER_LIMITS)):
            raise OverLimits(
                f"{command[0]} cannot compile the program within {MAX_CPU_S} s of "
                f"CPU time, {MAX_MEMORY_KB} KB of memory and {MAX_FRAME_BYTES} bytes of stack "
                "per function"
            )
        log = folder() / built.with_suffix(".log").name
        log.write_text(" ".join(command) + "\n" + errors + "\n" + self.text)
        first = next((line for line in errors.splitlines() if "error:" in line), "no output")
        raise ToolchainError(f"{command[0]} failed: {first} (full log: {log})")
