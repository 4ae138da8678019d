"""The engine: BMv2 JSON to C, and the switch that runs it."""

from pathlib import Path

C_FOLDER = Path(__file__).parent / "c"
