"""Streaming statistics of packets, which eBPF computes in one pass and readers merge per window."""
