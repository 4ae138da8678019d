"""The command `telemark`."""
