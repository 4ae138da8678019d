"""Stand-ins for bmv2's Thrift bindings, and for a bmv2 with or without Thrift."""

import os
from pathlib import Path

import pytest

from telemark.backends.real.bmv2_thrift.bindings import PROGRAM

STAND_IN = Path(__file__).parent / "backends" / "real" / "bmv2_thrift" / "stand_in"


def stand_in_program(folder: Path, help_text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a simple_switch_grpc first on PATH. It only prints this help text."""
    program = folder / PROGRAM
    program.write_text(f"#!/bin/sh\necho '{help_text}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
