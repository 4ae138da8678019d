"""The real-time driver: moves frames between packet sockets and an engine."""

from pathlib import Path

C_FOLDER = Path(__file__).parent / "c"
