"""Code that several experiments share: a package per system."""
