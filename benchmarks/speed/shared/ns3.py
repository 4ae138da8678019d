"""Compile the ns-3 scenarios in benchmarks/speed/cpp/ against an installed ns-3 and run them."""

import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from telemark.errors import TestbedError

FLAGS = ("-O3", "-march=native", "-DNDEBUG", "-Wall", "-Wextra", "-Werror")
# C++ standards: new versions of ns-3 require the first, old versions only support the second
STANDARDS = ("c++23", "c++17")


class Ns3:
    """Installed ns-3 with one compiled scenario."""

    def __init__(self, folder: Path, source: Path, libraries: Sequence[str]) -> None:
        """Compile the scenario. Raises TestbedError if this fails or if ns-3 is missing."""
        self.version = _pkg_config("--modversion", libraries[0])
        self.program = folder / source.stem
        flags = _flags(libraries)
        compiler = shutil.which("c++")
        if compiler is None:
            raise TestbedError("no C++ compiler found: apt install g++")
        for standard in STANDARDS:
            done = subprocess.run(
                [compiler, f"-std={standard}", *FLAGS, source, "-o", self.program, *flags],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode == 0:
                return
        wrong = next((line for line in done.stderr.splitlines() if "error" in line), "no output")
        raise TestbedError(f"{source.name} does not compile with ns-3 {self.version}: {wrong}")

    def run(self, description: str) -> str:
        """Run the scenario with `description` on its standard input; return its output.

        Raises TestbedError if it fails.
        """
        done = subprocess.run(
            [self.program], input=description, capture_output=True, text=True, check=False
        )
        if done.returncode:
            last = (done.stderr.splitlines() or ["no output"])[-1]
            raise TestbedError(f"ns-3 {self.version}: exit status {done.returncode}: {last}")
        return done.stdout


def _flags(libraries: Sequence[str]) -> list[str]:
    """Return the compiler options, with the library paths of ns-3 itself."""
    words = shlex.split(_pkg_config("--cflags", "--libs", *libraries))
    folders = [word[2:] for word in words if word.startswith("-L")]
    return [
        *(word.replace("-I", "-isystem", 1) for word in words if word.startswith("-")),
        *(f"-Wl,-rpath,{folder}" for folder in folders),
    ]


def _pkg_config(*words: str) -> str:
    program = shutil.which("pkg-config")
    if program is not None:
        done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.strip()
    raise TestbedError(
        "ns-3 was not found by pkg-config: apt install libns3-dev pkg-config g++; for a fair"
        " comparison, install one configured with --build-profile=optimized and add its"
        " lib/pkgconfig to PKG_CONFIG_PATH"
    )
