"""What p4-utils brings with it."""


class NoSuchProcess(Exception):
    """As psutil's class."""
