"""Errors that minip4 reports in one line, with exit status 2."""


class Minip4Error(Exception):
    """An error of the user or the environment.

    Its text names object, problem and remedy in one line.
    """

    has_place = False  # the text begins with a source location


class ToolchainError(Minip4Error):
    """The C compiler is missing, or it rejected generated code."""
