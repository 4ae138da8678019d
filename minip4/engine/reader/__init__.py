"""Reader of BMv2 JSON: checks it and creates a model of the program."""
