"""Code shared by XDP and eBPF experiments."""
