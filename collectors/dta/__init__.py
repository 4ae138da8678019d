"""Direct Telemetry Access (DTA): packets, load generator, and readers of the stores in memory."""
