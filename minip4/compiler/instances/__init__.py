"""Instances that the constructors of a checked program create: V1Switch, blocks and objects.

Both lowering and P4Info use them, so both have the same names.
"""
