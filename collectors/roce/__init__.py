"""RDMA collection: over RoCE, switches write telemetry into a memory region of a collector."""

from pathlib import Path

C_FOLDER = Path(__file__).parent / "c"
