"""The engine: generates C from BMv2 JSON and runs it as a switch."""

from pathlib import Path

C_FOLDER = Path(__file__).parent / "c"
