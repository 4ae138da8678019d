"""Compile C code with cc, once per content, and load it."""
