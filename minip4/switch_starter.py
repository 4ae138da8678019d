"""Starts switch processes quickly: forks them from a process that has imported all modules.

python -m minip4.switch_starter FD

A switch needs 0.3 s of CPU time to import its modules. FD is a Unix socket (SOCK_SEQPACKET). Each
message is a JSON list, the arguments of `minip4 switch`, with two descriptors: stdout and stderr of
the switch. The reply is the process number. A switch is a child of the nearest ancestor that adopts
orphans (PR_SET_CHILD_SUBREAPER). The process ends when the socket is closed.
"""

import ctypes
import json
import os
import socket
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import NoReturn

# The import is the purpose of this process: a forked switch does not repeat it.
import minip4.runtime.switch.process  # noqa: F401
from minip4 import cli

PR_SET_NAME = 15  # <sys/prctl.h>
MESSAGE_SIZE = 1 << 20  # bytes, enough for the options of 500 ports


def main(channel: socket.socket) -> None:
    """Start switches until the other end closes the channel."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, MESSAGE_SIZE, 2)
        if not message:
            return
        pid = _fork(channel, json.loads(message), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        channel.send(str(pid).encode())


def _fork(channel: socket.socket, arguments: Sequence[str], descriptors: Sequence[int]) -> int:
    """Fork a switch through a process that ends, so that the switch becomes an orphan."""
    reader, writer = os.pipe()
    between = os.fork()
    if not between:
        if os.fork():
            os._exit(0)
        os.setsid()  # before the starter gets the number, by which the session gets a priority
        os.write(writer, str(os.getpid()).encode())
        os.close(reader)
        os.close(writer)
        channel.close()
        _run(arguments, descriptors)
    os.close(writer)
    with open(reader) as text:
        pid = int(text.read())
    os.waitpid(between, 0)
    return pid


def _run(arguments: Sequence[str], descriptors: Sequence[int]) -> NoReturn:
    for target, descriptor in enumerate(descriptors, start=1):
        os.dup2(descriptor, target)
        os.close(descriptor)
    device_id = dict(pairwise(arguments)).get("--device-id", "")
    name = f"minip4 {device_id}"
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode(), 0, 0, 0)  # for ps and top
    # with --sanitize, the switch executes its command line again
    sys.orig_argv = [sys.executable, "-m", "minip4.cli", "switch", *arguments]
    sys.exit(cli.main(["switch", *arguments]))


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
