"""Controllers of IOAM domains (p4src/ioam)."""
