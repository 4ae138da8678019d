"""From the syntax tree to a checked one, with names, types and constants, or to an error."""
