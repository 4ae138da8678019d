"""Switch processes that are forked from one process; see minip4.switch_starter."""

import ctypes
import json
import math
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from telemark.errors import TestbedError

PR_SET_CHILD_SUBREAPER = 36  # <sys/prctl.h>


class SwitchProcess:
    """Process of a switch, with the methods of subprocess.Popen that its owner needs."""

    def __init__(self, pid: int, stdout: TextIO) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, or None if the process runs."""
        return self._wait(os.WNOHANG)

    def wait(self) -> int:
        """Wait until the process exits; return its exit status."""
        status = self._wait(0)
        assert status is not None
        return status

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """Wait until the process closes its output and exits; return the rest of the output.

        Raises subprocess.TimeoutExpired.
        """
        deadline_s = math.inf if timeout is None else time.monotonic() + timeout
        output = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self.stdout, selectors.EVENT_READ)
            while True:
                left_s = max(deadline_s - time.monotonic(), 0)
                if not selector.select(None if timeout is None else left_s):
                    raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
                if not (part := os.read(self.stdout.fileno(), 1 << 16)):
                    break
                output += part
        self.stdout.close()
        self.wait()
        return output.decode(), None

    def send_signal(self, number: int) -> None:
        """Send a signal, if the process has not exited."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process, if it has not exited."""
        self.send_signal(signal.SIGKILL)

    def _wait(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


class SwitchStarter:
    """Starts switches until close(). The starting process adopts them."""

    def __init__(self) -> None:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._channel, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with end:
            command = [sys.executable, "-m", "minip4.switch_starter", str(end.fileno())]
            self._process = subprocess.Popen(
                command, pass_fds=[end.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
            )

    def start(self, arguments: Sequence[str], log: Path) -> SwitchProcess:
        """Start `minip4 switch` with these arguments. Its errors are written to `log`.

        Raises TestbedError if the process that starts switches has ended.
        """
        reader, writer = os.pipe()
        with open(writer, "w") as stdout, log.open("w") as stderr:
            descriptors = [stdout.fileno(), stderr.fileno()]
            try:
                socket.send_fds(self._channel, [json.dumps(arguments).encode()], descriptors)
                reply = self._channel.recv(64)
            except (BrokenPipeError, ConnectionResetError):
                reply = b""
        if not reply:
            os.close(reader)
            raise TestbedError(
                "switches cannot be started: `python -m minip4.switch_starter` has exited; "
                "it printed the reason to stderr"
            )
        return SwitchProcess(int(reply), open(reader))

    def close(self) -> None:
        """End the process that starts switches; the switches continue."""
        self._channel.close()
        self._process.wait()
