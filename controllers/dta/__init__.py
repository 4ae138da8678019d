"""Controllers of Direct Telemetry Access: what a translator writes, and where."""
