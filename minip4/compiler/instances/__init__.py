"""Instances created by the constructors of a checked program: V1Switch, blocks and objects.

Lowering and P4Info both use them, so that names are the same.
"""
