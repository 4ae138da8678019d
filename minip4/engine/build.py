"""Compiles C with cc, once for each content: shared objects of engines, and small programs."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from minip4.errors import ToolchainError

C_FOLDER = Path(__file__).parent / "c"

WARNINGS = ("-std=gnu11", "-Wall", "-Wextra", "-Werror")
NO_WARNINGS = ("-w",)
"""For generated C, which cc takes whatever the program and its widths: a value is of one of three
types (expressions.py), a constant of exactly one (layout.literal), and a store says its type. What
cc only warns of there is nothing that a P4 programmer could mend: tests/engine/test_widths.py has
the warnings on."""
OPTIMISED = ("-O2", "-march=native", "-fno-strict-aliasing")
SANITIZED = ("-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined",
             "-fno-sanitize-recover=undefined")  # fmt: skip


SHARED = ("-fPIC", "-fno-semantic-interposition")


def shared_object(
    sources: Sequence[Path], generated: str = "", *, sanitize: bool = False, trace: bool = False
) -> Path:
    """Return the shared object made of `sources` and the C text `generated`.

    With `sanitize` it carries AddressSanitizer and UBSan; the process that loads it must have
    libasan preloaded. With `trace` it has what trace.h declares. Raises ToolchainError.
    """
    flags = (*_mode(sanitize), *SHARED, *(("-DMINIP4_TRACE",) if trace else ()))
    quiet = (*flags, *NO_WARNINGS)
    link = (*flags, "-shared", "-Wl,-Bsymbolic")
    built = _place(sources, generated, link, ".so")
    if not built.exists():
        # Only the generated text differs from program to program: the rest is compiled once.
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            text = threads.submit(_object, None, generated, quiet) if generated else None
            objects = list(threads.map(lambda source: _object(source, "", flags), sources))
        _compile([*objects, *([text.result()] if text else [])], "", link, built)
    return built


def program(sources: Sequence[Path], *, sanitize: bool = False) -> Path:
    """Return the executable made of `sources`. Raises ToolchainError."""
    return _build(sources, "", _mode(sanitize), "")


def cache_folder() -> Path:
    """Where built objects are kept: $XDG_CACHE_HOME/minip4, or ~/.cache/minip4."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "minip4"


def _mode(sanitize: bool) -> tuple[str, ...]:
    return (*WARNINGS, *(SANITIZED if sanitize else OPTIMISED))


def _build(sources: Sequence[Path], generated: str, flags: Sequence[str], suffix: str) -> Path:
    built = _place(sources, generated, flags, suffix)
    if not built.exists():
        _compile(sources, generated, flags, built)
    return built


def _object(source: Path | None, generated: str, flags: Sequence[str]) -> Path:
    return _build([source] if source else [], generated, (*flags, "-c"), ".o")


def _place(sources: Sequence[Path], generated: str, flags: Sequence[str], suffix: str) -> Path:
    """Where it is cached: named after all that its content depends on."""
    digest = hashlib.sha256("\0".join((*_compiler(), *flags, generated)).encode())
    folders = {C_FOLDER, *(source.parent for source in sources)}
    headers = [header for folder in sorted(folders) for header in sorted(folder.glob("*.h"))]
    for path in [*sources, *headers]:
        digest.update(path.name.encode() + path.read_bytes())
    return cache_folder() / (digest.hexdigest()[:32] + suffix)


def _compile(sources: Sequence[Path], generated: str, flags: Sequence[str], built: Path) -> None:
    compiler, _ = _compiler()
    built.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=built.parent) as folder:
        inputs = [str(path) for path in sources]
        if generated:
            text = Path(folder) / "generated.c"
            text.write_text(generated)
            inputs.append(str(text))
        output = Path(folder) / "output"
        command = [compiler, *flags, f"-I{C_FOLDER}", *inputs, "-o", str(output), "-lpthread",
                   "-lm"]  # fmt: skip
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode:
            log = built.with_suffix(".log")
            log.write_text(" ".join(command) + "\n" + run.stderr + "\n" + generated)
            first = next((line for line in run.stderr.splitlines() if "error" in line), "no output")
            raise ToolchainError(f"{compiler} failed: {first} (whole log: {log})")
        output.replace(built)  # atomic: builds side by side do no harm


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
