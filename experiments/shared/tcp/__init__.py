"""Code shared by TCP experiments."""
