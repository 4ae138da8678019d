"""p4-utils, which lives in a Python environment of its own: its scripts, and bmv2's Thrift."""
