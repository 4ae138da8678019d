"""Errors that minip4 shows its user as one clear line, with exit status 2."""


class Minip4Error(Exception):
    """What went wrong, where, what was expected, and how to mend it, in one line."""

    has_place = False  # the text begins with the place in a file that it speaks of


class ToolchainError(Minip4Error):
    """The C compiler is missing, or it refused code that was generated."""
