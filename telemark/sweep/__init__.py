"""Sweeps: lists of runs in virtual time on all cores or machines, with a cache of finished runs."""
