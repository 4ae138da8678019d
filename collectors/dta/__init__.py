"""Direct Telemetry Access (DTA): packets, load generator, and readers of collector memory."""
