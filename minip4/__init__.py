"""minip4: an embedded P4 target: a P4-16 compiler, an engine in C, and a P4Runtime switch."""
