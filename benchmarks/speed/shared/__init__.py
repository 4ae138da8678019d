"""Code that several speed benchmarks share, and the longer parts of single ones."""
