"""Direct Telemetry Access (DTA): packets, load generator, and readers of a collector's memory."""
