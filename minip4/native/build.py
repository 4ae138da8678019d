"""Compiles C with cc, once for each content: shared objects of engines, and small programs."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from pathlib import Path

from minip4.engine.errors import TooLarge
from minip4.errors import ToolchainError
from minip4.native.cache import folder, held

WARNINGS = ("-std=gnu11", "-Wall", "-Wextra", "-Werror")
NO_ERRORS = ("-Wno-error", "-Werror=incompatible-pointer-types", "-Werror=int-conversion")
"""For generated C, which cc takes whatever the program and its widths: a value is of one of three
types (minip4/engine/codegen/expressions.py), a constant of exactly one (layout.literal), and a
store says its type. What cc only warns of there is nothing that a P4 programmer could mend:
tests/engine/codegen/test_widths.py has the warnings on."""
OPTIMISED = ("-O2", "-march=native", "-fno-strict-aliasing")
SANITIZED = ("-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined",
             "-fno-sanitize-recover=undefined")  # fmt: skip
SHARED = ("-fPIC", "-fno-semantic-interposition")

# cc's time and memory, and the stack that a function may ask for: generated text may be hostile.
MAX_CPU_S = 120
MAX_MEMORY_KB = 4 << 20
MAX_FRAME_BYTES = 1 << 20  # a thread has 8 MB, and four such functions call each other
LIMITED = f'ulimit -t {MAX_CPU_S} 2>&-; ulimit -v {MAX_MEMORY_KB} 2>&-; exec "$@"'
OVER_LIMITS = ("signal terminated program", "out of memory", "memory exhausted", "frame size of")

_kept = ExitStack()  # programs that this process may start at any time


@contextmanager
def shared_object(
    sources: Sequence[Path], generated: str = "", *, include: Sequence[Path] = (),
    is_large: bool = False, sanitize: bool = False, trace: bool = False,
) -> Iterator[Path]:  # fmt: skip
    """The shared object made of `sources` and the C text `generated`; load it within the `with`.

    Headers are looked for in the folders `include`, beside those of the sources.
    A large text is optimised less. With `sanitize` it carries AddressSanitizer and UBSan; the
    process that loads it must have libasan preloaded. With `trace` it has what trace.h declares.
    Raises ToolchainError, and TooLarge for a text that cc cannot translate within its limits.
    """
    flags = (*_mode(sanitize), *SHARED, *(("-DMINIP4_TRACE",) if trace else ()))
    link = (*flags, "-shared", "-Wl,-Bsymbolic")
    text_flags = (*flags, *NO_ERRORS, f"-Werror=frame-larger-than={MAX_FRAME_BYTES}",
                  *(("-O1",) if is_large else ()))  # fmt: skip

    def make(built: Path) -> None:
        # Only the generated text differs from program to program: the rest is compiled once.
        with ThreadPoolExecutor(os.cpu_count()) as threads, ExitStack() as used:
            wanted = [_object([source], "", include, flags) for source in sources]
            wanted += [_object([], generated, include, text_flags)] if generated else []
            objects = list(threads.map(used.enter_context, wanted))
            _compile(objects, "", (), link, built)

    with held(_place(sources, generated, include, (*link, *text_flags), ".so"), make) as path:
        yield path


def program(
    sources: Sequence[Path], *, include: Sequence[Path] = (), sanitize: bool = False
) -> Path:
    """The executable made of `sources`, there as long as this process. Raises ToolchainError."""
    return _kept.enter_context(_built(sources, "", include, _mode(sanitize), ""))


def _mode(sanitize: bool) -> tuple[str, ...]:
    return (*WARNINGS, *(SANITIZED if sanitize else OPTIMISED))


def _object(
    sources: Sequence[Path], generated: str, include: Sequence[Path], flags: Sequence[str]
) -> AbstractContextManager[Path]:
    return _built(sources, generated, include, (*flags, "-c"), ".o")


def _built(
    sources: Sequence[Path],
    generated: str,
    include: Sequence[Path],
    flags: Sequence[str],
    suffix: str,
) -> AbstractContextManager[Path]:
    def make(built: Path) -> None:
        _compile(sources, generated, include, flags, built)

    return held(_place(sources, generated, include, flags, suffix), make)


def _place(
    sources: Sequence[Path],
    generated: str,
    include: Sequence[Path],
    flags: Sequence[str],
    suffix: str,
) -> Path:
    """Where it is cached: named after all that its content depends on."""
    digest = hashlib.sha256("\0".join((*_compiler(), *flags, generated)).encode())
    folders = {*include, *(source.parent for source in sources)}
    headers = [header for folder in sorted(folders) for header in sorted(folder.glob("*.h"))]
    for path in [*sources, *headers]:
        digest.update(path.name.encode() + path.read_bytes())
    return folder() / (digest.hexdigest()[:32] + suffix)


def _compile(
    sources: Sequence[Path],
    generated: str,
    include: Sequence[Path],
    flags: Sequence[str],
    built: Path,
) -> None:
    compiler, _ = _compiler()
    inputs = [str(path) for path in sources]
    if generated:
        text = built.with_suffix(".c")
        text.write_text(generated)
        inputs.append(str(text))
    folders = [f"-I{folder}" for folder in include]
    command = [compiler, *flags, *folders, *inputs, "-o", str(built), "-lpthread", "-lm"]
    # A sanitizer that is preloaded here would take more addresses than cc is allowed.
    environment = {name: text for name, text in os.environ.items() if name != "LD_PRELOAD"}
    run = subprocess.run(
        ["/bin/sh", "-c", LIMITED, "sh", *command],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    if not run.returncode:
        return
    if generated and any(sign in run.stderr for sign in OVER_LIMITS):
        raise TooLarge(
            f"{compiler} cannot translate the program within {MAX_CPU_S} s of processor time, "
            f"{MAX_MEMORY_KB} KB of memory and {MAX_FRAME_BYTES} bytes of stack a function"
        )
    log = folder() / built.with_suffix(".log").name
    log.write_text(" ".join(command) + "\n" + run.stderr + "\n" + generated)
    first = next((line for line in run.stderr.splitlines() if "error" in line), "no output")
    raise ToolchainError(f"{compiler} failed: {first} (whole log: {log})")


@cache
def _compiler() -> tuple[str, str]:
    """The compiler's path, and what tells its code apart from another's: version and CPU."""
    path = shutil.which(os.environ.get("CC", "cc"))
    if path is None:
        raise ToolchainError(
            "no C compiler found: minip4 needs cc (Debian, Ubuntu: apt install gcc libc6-dev)"
        )
    command = [path, "-march=native", "-Q", "--help=target", "--version"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return path, run.stdout
