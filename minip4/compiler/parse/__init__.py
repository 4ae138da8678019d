"""The parser: converts tokens to the syntax tree."""
