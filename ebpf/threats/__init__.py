"""Threat detection from packet statistics of eBPF programs. Alerts contain evidence."""
