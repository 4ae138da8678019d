"""C code shared by engines and drivers: packets, links, captures and their interfaces."""

from pathlib import Path

C_FOLDER = Path(__file__).parent / "c"
