"""BMv2 JSON, read and checked: a model of the program."""
