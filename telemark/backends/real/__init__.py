"""Backend in real time: Mininet, with isolated namespaces per run."""
