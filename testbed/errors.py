"""Errors of the testbed that its user sees as one clear line, with exit status 2."""


class TestbedError(Exception):
    """What the user or the environment got wrong, where, and how to mend it, in one line."""

    __test__ = False  # or pytest takes the name for a test class
