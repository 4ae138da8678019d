"""Backend in real time: Mininet; each run has its own namespaces."""
