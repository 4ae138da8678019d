"""The collector of INT: Telemetry Reports to arrays, flows, files and other systems."""

from pathlib import Path

C_FOLDER = Path(__file__).parent / "c"
