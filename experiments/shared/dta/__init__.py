"""Code shared by DTA experiments."""
