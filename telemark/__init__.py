"""The library that experiments import, and the command `telemark`."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
