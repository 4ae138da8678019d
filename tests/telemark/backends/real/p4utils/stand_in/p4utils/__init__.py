"""Stand-in for the parts of p4-utils that this project uses, for tests without p4-utils."""
