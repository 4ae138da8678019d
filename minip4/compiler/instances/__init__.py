"""Instances that the constructors of a checked program create: V1Switch, blocks and objects.

Lowering and P4Info both use these instances, so names are the same in both.
"""
