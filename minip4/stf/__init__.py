"""STF (simple test framework): scripts that test a program packet by packet."""
