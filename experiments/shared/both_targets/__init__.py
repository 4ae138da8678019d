"""Outputs of one target, to be compared byte by byte with those of another."""
