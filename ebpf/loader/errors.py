"""Error class of the loader, and explanations of error codes of the kernel."""

import errno
import os

from telemark.errors import TestbedError

ENOTSUPP = 524  # error code that the kernel uses internally; it has no name in user space


class LoadError(TestbedError):
    """A program cannot be compiled, loaded, attached or run.

    The message is one line.
    """


def explain_errno(number: int) -> str:
    """Explain an errno of the bpf() system call."""
    if number in (errno.EPERM, errno.EACCES):
        return "not permitted; run as root (use sudo; a container needs --privileged)"
    if number in (errno.EOPNOTSUPP, ENOTSUPP):
        return f"Linux {os.uname().release} does not support this"
    return os.strerror(number)
