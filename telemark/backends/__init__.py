"""Backends of a Network: Mininet in real time, an event queue in virtual time."""
