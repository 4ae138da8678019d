"""Part of the stand-in for p4-utils: see the package p4utils."""
