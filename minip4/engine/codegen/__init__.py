"""Generation of C code from the model of a program."""
