"""Code shared by INT experiments."""
