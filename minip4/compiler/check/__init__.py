"""The checker: decorates the syntax tree with names, types and constants, or raises an error."""
