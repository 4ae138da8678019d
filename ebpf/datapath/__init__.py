"""XDP programs that drop, forward, load-balance or filter packets."""
