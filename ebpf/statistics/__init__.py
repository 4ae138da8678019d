"""Streaming statistics of packets.

eBPF programs compute them in one pass, and readers merge them per window.
"""
