"""Outputs of one target, to be compared byte by byte with the outputs of another target."""
