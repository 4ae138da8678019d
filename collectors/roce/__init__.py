"""RDMA collection: switches write telemetry into a memory region of a collector, over RoCE."""

from pathlib import Path

C_FOLDER = Path(__file__).parent / "c"
