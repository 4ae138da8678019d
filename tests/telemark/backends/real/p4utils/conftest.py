"""Fixtures: a Python environment in which p4-utils is a stand-in (folder stand_in)."""

import os
import sys
from pathlib import Path

import pytest

from telemark.backends.real.p4utils.environment import CHOICE

STAND_IN = Path(__file__).with_name("stand_in")


@pytest.fixture
def p4utils_stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Select the stand-in for p4-utils; return the file in which it records the calls."""
    told = tmp_path / "told"
    told.touch()
    monkeypatch.setenv("TOLD", str(told))
    monkeypatch.setenv(CHOICE, sys.executable)
    monkeypatch.setenv("PYTHONPATH", f"{STAND_IN}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    return told
