"""Telemetry at hosts' edges: programs at tc that mark, count and report as the switches do."""
