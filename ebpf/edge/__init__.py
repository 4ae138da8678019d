"""Telemetry at host edges: tc programs that mark, count and report as the switches do."""
