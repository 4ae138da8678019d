"""XDP and eBPF: programs that run in the kernel of a host, and what loads and reads them."""

from pathlib import Path

INCLUDE_FOLDER = Path(__file__).parent / "include"
