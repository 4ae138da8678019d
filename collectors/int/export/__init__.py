"""What the collector of INT found, for other systems: their text or their packets."""
