"""Targets that run P4 programs as Mininet switches: minip4 and bmv2."""
