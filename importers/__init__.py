"""Networks that others described: read, carried over into ours, run."""
