"""Where telemetry lands: what receives, decodes and keeps the reports of switches."""

from pathlib import Path

C_FOLDER = Path(__file__).parent / "c"  # what the C of all of them shares
WIRESHARK = Path(__file__).parent / "wireshark"  # dissectors of what is reported
