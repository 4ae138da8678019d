"""The engine's part of Tofino's architecture (TNA); minip4.compiler.tna describes the design."""

from pathlib import Path

C_FOLDER = Path(__file__).parent / "c"
