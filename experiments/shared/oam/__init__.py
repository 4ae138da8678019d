"""Telemetry methods on the same traffic and the same incidents."""
