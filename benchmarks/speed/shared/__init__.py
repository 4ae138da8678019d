"""Code shared by several speed benchmarks, and longer parts of individual benchmarks."""
