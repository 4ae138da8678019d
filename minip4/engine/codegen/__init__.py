"""Generation of a program's C code from its model."""
