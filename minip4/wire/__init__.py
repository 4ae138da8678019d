"""Packets, their memory, links and captures: the C that engines and drivers have in common."""

from pathlib import Path

C_FOLDER = Path(__file__).parent / "c"
