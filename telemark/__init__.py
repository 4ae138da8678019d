"""Library for experiments, and the command `telemark`."""

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent

# Without this, gRPC writes a line to stderr if a switch ends before its controllers. gRPC reads the
# variable when it is imported.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
