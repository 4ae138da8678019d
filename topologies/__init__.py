"""Mininet topologies."""
