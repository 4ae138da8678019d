"""What the constructors of a checked program make: V1Switch, its blocks, and the objects in them.

Lowering and P4Info both start from here, so that they use the same names.
"""
