"""Threat detection from eBPF packet statistics: alerts with their evidence."""
