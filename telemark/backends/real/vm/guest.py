"""Process 1 of the virtual machine: executes function calls, one at a time.

    Command: python -m telemark.backends.real.vm.guest

telemark.backends.real.vm.machine sends the calls.
"""

import os
import pickle
import struct
import traceback
from pathlib import Path
from typing import Any, BinaryIO

LENGTH = struct.Struct("!Q")  # header of each pickled message: its length
READY = "ready"


def send(channel: BinaryIO, message: Any) -> None:
    """Write one message."""
    packed = pickle.dumps(message)
    left = memoryview(LENGTH.pack(len(packed)) + packed)
    while left:
        left = left[channel.write(left) :]


def receive(channel: BinaryIO) -> Any:
    """Read one message. Raises EOFError."""
    return pickle.loads(_read(channel, LENGTH.unpack(_read(channel, LENGTH.size))[0]))


def _read(channel: BinaryIO, count: int) -> bytes:
    parts = []
    while count:
        part = channel.read(count)
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def serve(channel: BinaryIO) -> None:
    """Answer each pair (function, arguments) with (True, result) or with (False, traceback)."""
    send(channel, READY)
    while True:
        try:
            function, arguments = receive(channel)
            answer: tuple[bool, Any] = True, function(*arguments)
        except EOFError:
            return
        except Exception:
            answer = False, traceback.format_exc()
        send(channel, answer)


if __name__ == "__main__":
    os.environ["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"
    (port,) = Path("/dev").glob("vport*p1")
    with port.open("r+b", buffering=0) as opened:
        serve(opened)
