"""P4Info: names, types and translations, and the encoding of values."""
