"""Code shared by RoCE experiments."""
