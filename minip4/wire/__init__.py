"""What engines and drivers have in common, in C: packets, links, captures, and how they call."""

from pathlib import Path

C_FOLDER = Path(__file__).parent / "c"
