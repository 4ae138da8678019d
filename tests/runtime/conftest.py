"""Settings that must be made before gRPC is imported."""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # a channel that closes is no news
