"""The error of the loader, with explanations of the kernel's error codes."""

import errno
import os

from telemark.errors import TestbedError

ENOTSUPP = 524  # the kernel's own, which has no name outside


class LoadError(TestbedError):
    """A program that cannot be compiled, loaded, attached or run: the reason in one line."""


def explain_errno(number: int) -> str:
    """Explain an errno of the bpf() system call."""
    if number in (errno.EPERM, errno.EACCES):
        return "not permitted: root is needed (use sudo; a container needs --privileged)"
    if number in (errno.EOPNOTSUPP, ENOTSUPP):
        return f"Linux {os.uname().release} cannot do that"
    return os.strerror(number)
