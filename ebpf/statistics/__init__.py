"""Streaming statistics of packets: eBPF computes them in one pass, and readers merge them per
window.
"""
