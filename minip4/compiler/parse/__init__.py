"""The parser: from tokens to the syntax tree."""
