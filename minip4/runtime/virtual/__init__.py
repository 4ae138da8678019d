"""Switches in a virtual network, and P4Runtime to them without sockets."""
