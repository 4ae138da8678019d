"""The C of a program, written from its model."""
