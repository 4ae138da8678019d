"""A run of an experiment: command line, clock, progress and error reports."""
