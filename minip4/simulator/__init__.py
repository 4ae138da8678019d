"""A virtual network: engines, hosts and wires on one event queue."""

from pathlib import Path

C_FOLDER = Path(__file__).parent / "c"
