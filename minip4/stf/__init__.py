"""STF: scripts that test a program packet by packet."""
