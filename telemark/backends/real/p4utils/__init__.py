"""p4-utils in its own Python environment: NetworkAPI scripts."""
