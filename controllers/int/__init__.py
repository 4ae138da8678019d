"""Controllers of In-band Network Telemetry (INT v2.1, Telemetry Report v2.0)."""
