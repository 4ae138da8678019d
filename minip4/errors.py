"""Errors that minip4 shows its user as one clear line, with exit status 2."""


class Minip4Error(Exception):
    """What went wrong, where, what was expected, and how to mend it, in one line."""


class ToolchainError(Minip4Error):
    """The C compiler is missing, or it refused code that was generated."""
