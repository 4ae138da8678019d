"""Networks in real time: namespaces, processes, and a run of its own."""
