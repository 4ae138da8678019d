"""Targets: what runs a P4 program as a Mininet switch."""
