"""Applications that run on hosts."""
