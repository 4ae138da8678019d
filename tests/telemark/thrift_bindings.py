"""Stand-ins of bmv2's Thrift bindings, and of a bmv2 that says whether it has Thrift."""

import os
from pathlib import Path

import pytest

from telemark.backends.real.bmv2_thrift.bindings import PROGRAM

STAND_IN = Path(__file__).parent / "real" / "bmv2_thrift" / "stand_in"


def stand_in_program(folder: Path, help_text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program that prints its help first on PATH, as simple_switch_grpc."""
    program = folder / PROGRAM
    program.write_text(f"#!/bin/sh\necho '{help_text}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
