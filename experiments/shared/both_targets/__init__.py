"""Outputs of one target. They are compared byte by byte with the outputs of another target."""
