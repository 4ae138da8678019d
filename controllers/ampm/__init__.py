"""Controllers for alternate marking (AM-PM, RFC 9341)."""
