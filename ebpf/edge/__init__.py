"""Telemetry on hosts: tc programs (edge programs) that mark, count and report like switches."""
