"""Where telemetry lands: what receives, decodes and keeps the reports of switches."""
