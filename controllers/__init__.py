"""P4Runtime controllers."""
