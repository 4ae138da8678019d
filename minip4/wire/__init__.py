"""C code shared by engines and drivers: packets, links, captures, and the engine's interface."""

from pathlib import Path

C_FOLDER = Path(__file__).parent / "c"
