"""IOAM: options in IPv6 packets, and reports of IOAM nodes."""
