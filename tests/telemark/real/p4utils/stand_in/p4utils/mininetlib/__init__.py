"""See p4utils."""
