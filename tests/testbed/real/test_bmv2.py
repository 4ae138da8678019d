"""The bmv2 target: its panel, what it refuses, and where bmv2 is installed an experiment on it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from minip4.compiler import compile_p4
from minip4.engine.engine import Engine
from testbed.real.targets.bmv2 import PANEL, PROGRAM

REPOSITORY = Path(__file__).parents[3]
StartExperiment = Callable[..., subprocess.Popen[str]]
HEAD = """
from testbed.network import Network
from topologies.line import Line
"""


def test_the_panel_passes_frames_on_between_a_port_and_bmv2_s_port() -> None:
    panel = Engine(compile_p4(PANEL).bmv2_json)
    for frame in (b"", b"x", bytes(1514)):
        assert panel.process(1, frame, 0) == [(257, frame)]
        assert panel.process(257, frame, 0) == [(1, frame)]
        assert panel.process(254, frame, 0) == [(510, frame)]


def stand_in(folder: Path, script: str) -> None:
    """Something else that is called simple_switch_grpc."""
    path = folder / PROGRAM
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("{}", "switch s1: bmv2 ended with status 3: no such library"),
        ("{'s1': ['--clock-offset-us', '5']}", "switch s1: bmv2 has no --clock-offset-us"),
    ],
)
def test_what_cannot_be_gets_one_line(
    start_experiment: StartExperiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    options: str, words: str,
) -> None:  # fmt: skip
    stand_in(tmp_path, "echo no such library >&2; exit 3")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    body = (
        "with Network(Line(switches=1), run, program='p4src/routing/router.p4',\n"
        f"             switch_options={options}):\n"
        "    raise AssertionError('it cannot have started')\n"
    )
    process = start_experiment(body, "--target", "bmv2", head=HEAD)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 2, output + errors
    assert words in errors
    assert errors.count("\n") == 1


def test_an_experiment_that_sets_clocks_is_not_for_bmv2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, "exit 3")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    command = [sys.executable, str(REPOSITORY / "experiments" / "ampm_sync.py"), "--quick",
               "--target", "bmv2", "--out", str(tmp_path)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "for --target minip4 alone" in done.stderr


@pytest.mark.skipif(shutil.which(PROGRAM) is None, reason=f"{PROGRAM} is not on PATH")
def test_loss_is_exact_on_bmv2(tmp_path: Path) -> None:
    """Of the whole experiment; what bmv2 drops itself on a busy machine is not at issue here."""
    command = [sys.executable, str(REPOSITORY / "experiments" / "ampm_loss.py"), "--quick",
               "--target", "bmv2", "--loss", "5", "--rate", "100",
               "--out", str(tmp_path)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["target"] == "bmv2"
    exact = [check for check in summary["checks"] if "largest error of a block" in check["name"]]
    assert len(exact) == 5
    assert all(check["passed"] for check in exact), exact
