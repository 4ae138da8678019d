"""A wrongly emulated CPU is detected. NumPy then runs without the affected instructions."""

import os
import shutil
import subprocess
import sys

import pytest

from minip4.native import build
from telemark.session import emulated_cpu


def test_a_real_cpu_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.execv", pytest.fail)
    emulated_cpu.restart_without_gathers()


def test_the_process_is_restarted_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    started: list[list[str]] = []
    monkeypatch.setenv(emulated_cpu.DISABLE, "AVX512F")
    monkeypatch.setattr(emulated_cpu, "PROBE", "int main(void) { return 1; }")
    monkeypatch.setattr("os.execv", lambda _, arguments: started.append(arguments))
    for _ in range(2):
        emulated_cpu.restart_without_gathers()
    assert started == [[sys.executable, *sys.orig_argv[1:]]]
    assert os.environ[emulated_cpu.DISABLE] == "AVX512F X86_V3 AVX2"
    assert "NumPy runs without AVX2" in capfd.readouterr().err


@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="needs qemu-user")
def test_the_emulator_s_gathers_are_judged_as_numpy_sorts() -> None:
    probe = str(build.program([], emulated_cpu.PROBE))
    sorts = (
        "import numpy as np; v = np.random.default_rng(1).random(500)\n"
        "raise SystemExit(bool((np.diff(v[np.argsort(v)]) < 0).any()))"
    )
    is_wrong = subprocess.run(["qemu-x86_64", "-cpu", "max", probe], check=False).returncode
    command = ["qemu-x86_64", "-cpu", "max", sys.executable, "-c", sorts]
    assert (subprocess.run(command, check=False).returncode != 0) == (is_wrong != 0)
    disabled = {**os.environ, emulated_cpu.DISABLE: " ".join(emulated_cpu.FEATURES)}
    assert subprocess.run(command, check=False, env=disabled).returncode == 0
