"""XDP and eBPF programs that run in a host's kernel, with their loader and readers."""

from pathlib import Path

INCLUDE_FOLDER = Path(__file__).parent / "include"
