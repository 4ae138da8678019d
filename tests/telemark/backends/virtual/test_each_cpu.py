"""Virtual time gives the same bytes on each CPU, whatever instructions C code and NumPy use."""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from telemark.session import emulated_cpu

ROOT = Path(__file__).parents[4]
NO_AVX2 = {emulated_cpu.DISABLE: " ".join(emulated_cpu.FEATURES)}
# glibc must not use instructions that only some CPUs have, because fused multiply-add rounds
# differently.
NO_FMA = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-AVX2_Usable,-FMA,-FMA_Usable,-FMA4"}
SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined"


def samples(folder: Path, name: str, before: tuple[str, ...] = (), **environment: str) -> bytes:
    """Return the samples of an experiment that ran in a new process."""
    command = [*before, sys.executable, f"experiments/{name}.py", "--quick", "--time", "virtual"]
    done = subprocess.run(
        [*command, "--again", "--jobs", "1", "--out", str(folder)],
        capture_output=True, text=True, check=False, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return (folder / "samples.csv").read_bytes()


@cache
def here(name: str, folder: Path) -> bytes:
    """Return the samples on this CPU."""
    return samples(folder / name, name)


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("usual")


def compiler(folder: Path, flags: str) -> str:
    """Write a C compiler that replaces -march=native by these flags."""
    path = folder / "cc"
    path.write_text(f'#!/bin/bash\nexec cc "${{@/-march=native/-mtune=generic}}" {flags}\n')
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("name", ["dta_postcarding", "int_path"])
def test_a_cpu_without_vector_instructions(name: str, usual: Path, tmp_path: Path) -> None:
    plain = {"CC": compiler(tmp_path, ""), **NO_AVX2, **NO_FMA}
    assert samples(tmp_path / "out", name, **plain) == here(name, usual)


def test_sanitizers_find_nothing(usual: Path, tmp_path: Path) -> None:
    preloaded = [
        subprocess.run(
            ["cc", f"-print-file-name={library}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        # Matplotlib needs the second library for its exceptions.
        for library in ("libasan.so", "libstdc++.so.6")
    ]
    sanitized = {
        "CC": compiler(tmp_path, SANITIZERS), "LD_PRELOAD": " ".join(preloaded),
        "ASAN_OPTIONS": "detect_leaks=0",
    }  # fmt: skip
    found = samples(tmp_path / "out", "dta_postcarding", **sanitized)
    assert found == here("dta_postcarding", usual)


@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="needs qemu-user")
def test_an_emulated_cpu(usual: Path, tmp_path: Path) -> None:
    """An experiment gives the same samples on an emulated CPU as on the real CPU.

    Only the process of the experiment is emulated. The compiler that it starts runs on the real
    CPU.
    """
    emulator = ("qemu-x86_64", "-cpu", "max")
    found = samples(tmp_path / "out", "dta_postcarding", emulator, **NO_AVX2)
    assert found == here("dta_postcarding", usual)
