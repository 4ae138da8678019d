"""INT collector: decodes Telemetry Reports, indexes flows, and stores and exports the results."""

from pathlib import Path

C_FOLDER = Path(__file__).parent / "c"
