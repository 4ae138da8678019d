"""C from Python: built by cc, once for each content."""
