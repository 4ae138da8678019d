"""The real-time driver: moves frames between packet sockets and an engine."""

from pathlib import Path

from minip4.native.build import Unit

C_FOLDER = Path(__file__).parent / "c"
# the part that engines and Workers have in common
WORKER = Unit((C_FOLDER / "memory_link.c", C_FOLDER / "worker.c"))
