"""Code shared by AM-PM experiments."""
