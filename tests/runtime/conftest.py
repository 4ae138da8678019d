"""Settings that must be made before gRPC is imported."""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC would log closed channels
