"""Stand-in for psutil, which p4-utils installs."""


class NoSuchProcess(Exception):
    """Stand-in for psutil's class."""
