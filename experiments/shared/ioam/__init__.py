"""Code shared by IOAM experiments."""
