"""INT collector: decodes Telemetry Reports, and indexes, stores and exports their content."""

from pathlib import Path

C_FOLDER = Path(__file__).parent / "c"
