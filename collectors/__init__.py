"""Receivers of telemetry: decoders, stores and exporters of reports from switches."""

from pathlib import Path

C_FOLDER = Path(__file__).parent / "c"  # C headers that all collectors share
WIRESHARK = Path(__file__).parent / "wireshark"  # Wireshark dissectors of telemetry formats
