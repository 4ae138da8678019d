"""Receivers of telemetry: decoders, stores and exporters of switches' reports."""

from pathlib import Path

C_FOLDER = Path(__file__).parent / "c"  # C headers shared by all collectors
WIRESHARK = Path(__file__).parent / "wireshark"  # dissectors of telemetry formats
