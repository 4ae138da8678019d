"""P4Runtime entities: writes to the engine and reads from it, for each kind of entity."""
