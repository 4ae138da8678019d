"""P4Runtime's entities: each kind, written to the engine and read from it."""
