"""Controllers of AM-PM alternate marking (RFC 9341)."""
