"""The C compiler: the compiler of the system, else the one in the Python package ziglang."""

import importlib.util
import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from minip4.errors import ToolchainError

ZIGLANG = "ziglang"
NATIVE = "-march=native"  # code for the CPU of this machine
# Zig inserts checks for undefined behaviour unless it optimizes.
ZIG_FLAGS = ("-fno-sanitize=undefined",)


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler, with an id of its output: compiler version and CPU."""

    command: Sequence[str]
    id: str
    is_clang: bool
    cpu: str = NATIVE

    def max_frame(self, size: int) -> tuple[str, ...]:
        """Return the flags that refuse functions with a larger stack frame, in bytes."""
        if self.is_clang:
            return f"-Wframe-larger-than={size}", "-Werror=frame-larger-than"
        return (f"-Werror=frame-larger-than={size}",)


@cache
def find_compiler() -> Compiler:
    """Return the compiler named by $CC, else cc, else the one of the package ziglang.

    CC=ziglang selects the package. Raises ToolchainError if there is no compiler.
    """
    name = os.environ.get("CC") or "cc"
    if path := shutil.which(name):
        command: tuple[str, ...] = (path,)
    elif name in ("cc", ZIGLANG) and (zig := find_zig()):
        command = (str(zig), "cc", "-target", _zig_target(), *ZIG_FLAGS)
    else:
        raise ToolchainError(
            f"no C compiler found: minip4 needs {name}; install a compiler "
            "(Debian, Ubuntu: apt install gcc libc6-dev) or, without root, pip install ziglang"
        )
    # -### prints the compiler version and the instruction sets that `native` selects on this CPU
    # (clang also prints the current folder).
    query = [*command, NATIVE, "-###", "-E", "-x", "c", "/dev/null"]
    run = subprocess.run(query, capture_output=True, text=True, check=False, cwd="/")
    output = run.stdout + run.stderr
    return Compiler(command, output, "clang version" in output)


def find_zig() -> Path | None:
    """Return the executable of the package ziglang, if it is installed."""
    spec = importlib.util.find_spec(ZIGLANG)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).with_name("zig")


def _zig_target() -> str:
    """Return the target of this machine, with the version of its C library.

    With a target, Zig uses its own headers and does not search for those of the system.
    """
    machine = {"arm64": "aarch64", "AMD64": "x86_64"}.get(platform.machine(), platform.machine())
    if platform.system() == "Darwin":
        return f"{machine}-macos"
    library, version = platform.libc_ver()
    return f"{machine}-linux-gnu.{version}" if library == "glibc" else f"{machine}-linux-musl"
