"""Sweeps: runs in virtual time on all cores or on several machines. Finished runs are cached."""
