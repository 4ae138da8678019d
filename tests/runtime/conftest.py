"""Settings that must precede the import of gRPC."""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # otherwise, gRPC logs closed channels
