"""P4Runtime entities: each kind is written to the engine and read from it."""
