"""Code of the experiments about IOAM."""
