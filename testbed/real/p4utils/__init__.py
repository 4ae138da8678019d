"""p4-utils, which lives in a Python environment of its own: bmv2's Thrift."""
