"""Switches that share a process; see minip4.switch_group."""

import contextlib
import json
import math
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from telemark.errors import TestbedError

READY = "minip4 switch: ready"
EXIT = "exit "


class GroupedSwitch:
    """A running switch of a group, with the methods of subprocess.Popen that its owner needs."""

    def __init__(self, group: "SwitchGroup", connection: socket.socket) -> None:
        self.pid = group.pid  # PID of the process of all switches
        self.returncode: int | None = None
        self.is_lost = False  # the process of all switches has ended before the switch
        self._group = group
        self._connection = connection
        self._output = b""

    def wait_ready(self) -> bool:
        """Wait until the switch is ready; return False if it has ended."""
        return any(line.startswith(READY) for line in self._lines())

    def end(self) -> None:
        """Ask the switch to drain its queues and to write its counters."""
        self._send(b"end\n")

    def kill(self) -> None:
        """End the switch immediately, without counters."""
        self._send(b"kill\n")

    def poll(self) -> int | None:
        """Return the exit status, or None if the switch runs."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._connection, selectors.EVENT_READ)
            while self.returncode is None and selector.select(0):
                self._receive()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """Wait until the switch has ended. Raises subprocess.TimeoutExpired."""
        deadline_s = math.inf if timeout is None else time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            selector.register(self._connection, selectors.EVENT_READ)
            while self.returncode is None:
                left_s = max(deadline_s - time.monotonic(), 0)
                if not selector.select(None if timeout is None else left_s):
                    raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
                self._receive()
        self._connection.close()
        return "", None

    def _send(self, command: bytes) -> None:
        if self.poll() is None:
            with contextlib.suppress(OSError):  # the process of all switches has just ended
                self._connection.sendall(command)

    def _lines(self) -> Iterator[str]:
        while self.returncode is None:
            yield from self._receive()

    def _receive(self) -> list[str]:
        """Wait for output; return its complete lines. Sets the exit status at the end."""
        try:
            part = self._connection.recv(1 << 16)
        except ConnectionResetError:  # the process has ended without reading a command
            part = b""
        if not part:
            self.is_lost = True
            self.returncode = self._group.exit_status()
            return []
        *lines, self._output = (self._output + part).split(b"\n")
        texts = [line.decode() for line in lines]
        for text in texts:
            if text.startswith(EXIT):
                self.returncode = int(text.removeprefix(EXIT))
        return texts


class SwitchGroup:
    """A process that runs switches until close()."""

    def __init__(self, log: Path, *, sanitize: bool) -> None:
        """Start the process. Its messages are written to `log`."""
        self.log = log
        self._channel, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with end, log.open("w") as errors:
            command = [sys.executable, "-m", "minip4.switch_group", str(end.fileno())]
            self._process = subprocess.Popen(
                [*command, *(["--sanitize"] if sanitize else [])], pass_fds=[end.fileno()],
                stdin=subprocess.DEVNULL, stderr=errors, start_new_session=True,
            )  # fmt: skip
        self.pid = self._process.pid

    def start(
        self, arguments: Sequence[str], memory_links: Mapping[int, tuple[str, int]], log: Path
    ) -> GroupedSwitch:
        """Start a switch with the arguments of `minip4 switch`. Its messages are written to `log`.

        `memory_links` is as in minip4.ports.driver.Driver. Raises TestbedError if the process has
        ended.
        """
        ours, theirs = socket.socketpair()
        message = json.dumps({"arguments": arguments, "memory_links": memory_links}).encode()
        with theirs, log.open("w") as errors:
            try:
                socket.send_fds(self._channel, [message], [theirs.fileno(), errors.fileno()])
            except (BrokenPipeError, ConnectionResetError) as error:
                ours.close()
                raise TestbedError(f"switches cannot be started: {self.describe_exit()}") from error
        return GroupedSwitch(self, ours)

    def exit_status(self) -> int:
        """Wait for the end of the process; return its exit status."""
        return self._process.wait()

    def describe_exit(self) -> str:
        """Describe why the process has ended."""
        lines = self.log.read_text().strip().splitlines()
        status = describe_status(self.exit_status())
        return f"the process of all switches {status}: {lines[-1] if lines else 'no output'}"

    def close(self) -> None:
        """End the process; kill the switches that run."""
        self._channel.close()
        self._process.kill()
        self._process.wait()


def describe_status(status: int) -> str:
    """Describe an exit status."""
    return (
        f"ended by {signal.Signals(-status).name}" if status < 0 else f"exited with status {status}"
    )
