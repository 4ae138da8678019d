"""Fixtures: a bmv2 with Thrift, and a stand-in for its bindings (folder stand_in)."""

import os
import sys
from pathlib import Path

import pytest
from thrift_bindings import STAND_IN, stand_in_program

from telemark.backends.real.bmv2_thrift.bindings import CHOICE


@pytest.fixture
def thrift_stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Select the stand-in for the bindings; return the file in which it records the calls."""
    told = tmp_path / "told"
    told.touch()
    stand_in_program(tmp_path, "  --thrift-port arg   TCP port", monkeypatch)
    monkeypatch.setenv("TOLD", str(told))
    monkeypatch.setenv(CHOICE, sys.executable)
    monkeypatch.setenv("PYTHONPATH", f"{STAND_IN}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    return told
