"""Ground truth: captures, packet accounting and dropped packets."""
