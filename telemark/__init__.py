"""Library for experiments, and the command `telemark`."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
