"""Compile C code with cc and load it; identical code is compiled only once."""
