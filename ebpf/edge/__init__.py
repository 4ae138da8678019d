"""Telemetry on hosts. tc programs (edge programs) mark, count and report packets like switches."""
