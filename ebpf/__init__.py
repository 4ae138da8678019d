"""XDP and eBPF programs for the kernel of a host, their loader, and readers of their maps."""

from pathlib import Path

INCLUDE_FOLDER = Path(__file__).parent / "include"
