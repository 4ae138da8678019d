"""Switches that share a process; see minip4.switch_group."""

import contextlib
import json
import math
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from telemark.errors import TestbedError

READY = "minip4 switch: ready"
EXIT = "exit "
PROCESS = "the process of all switches (minip4)"
KILL_S = 5.0  # maximum time for closing sockets
CHANNEL_S = 30.0  # maximum time until the process has room for another message


class GroupedSwitch:
    """A running switch of a group, with the methods of subprocess.Popen that its owner needs."""

    def __init__(self, group: "SwitchGroup", connection: socket.socket) -> None:
        self.pid = group.pid  # PID of the process of all switches
        self.returncode: int | None = None
        self.is_lost = False  # the process of all switches has ended before the switch
        self._group = group
        self._connection = connection
        self._output = b""
        self._is_ready = False

    def wait_ready(self, timeout: float | None = None) -> bool:
        """Wait until the switch is ready; return False if it has ended.

        Raises subprocess.TimeoutExpired.
        """
        self._wait(lambda: self._is_ready, timeout)
        return self._is_ready

    def end(self) -> None:
        """Ask the switch to drain its queues and to write its counters."""
        self._send(b"end\n")

    def kill(self) -> None:
        """End the switch immediately, without counters."""
        self._send(b"kill\n")

    def poll(self) -> int | None:
        """Return the exit status, or None if the switch runs."""
        while self.returncode is None and self._receive(0):
            pass
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """Wait until the switch has ended. Raises subprocess.TimeoutExpired."""
        self._wait(lambda: False, timeout)
        self._connection.close()
        return "", None

    def _send(self, command: bytes) -> None:
        if self.poll() is None:
            with contextlib.suppress(OSError):  # the process of all switches has just ended
                self._connection.sendall(command)

    def _wait(self, is_done: Callable[[], bool], timeout: float | None) -> None:
        """Wait until `is_done` or the end of the switch. Raises subprocess.TimeoutExpired."""
        deadline_s = math.inf if timeout is None else time.monotonic() + timeout
        while self.returncode is None and not is_done():
            left_s = max(deadline_s - time.monotonic(), 0)
            if not self._receive(None if timeout is None else left_s):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)

    def _receive(self, timeout: float | None) -> bool:
        """Wait for output, and evaluate its complete lines. Return False on timeout."""
        self._connection.settimeout(timeout)
        try:
            part = self._connection.recv(1 << 16)
        except (TimeoutError, BlockingIOError):
            return False
        except ConnectionResetError:  # the process has ended without reading a command
            part = b""
        if not part:
            self.is_lost = True
            self.returncode = self._group.exit_status()
            return True
        *lines, self._output = (self._output + part).split(b"\n")
        for text in (line.decode() for line in lines):
            self._is_ready |= text.startswith(READY)
            if text.startswith(EXIT):
                self.returncode = int(text.removeprefix(EXIT))
        return True


class SwitchGroup:
    """A process that runs switches until close()."""

    def __init__(self, log: Path, *, interfaces: int, sanitize: bool) -> None:
        """Start the process. Its messages are written to `log`.

        `interfaces` is as in minip4.ports.driver.Workers.
        """
        self.log = log
        self._switches: list[GroupedSwitch] = []
        self._channel, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.settimeout(CHANNEL_S)
        with end, log.open("w") as errors:
            command = [
                sys.executable, "-m", "minip4.switch_group", str(end.fileno()), str(interfaces),
                *(["--sanitize"] if sanitize else []),
            ]  # fmt: skip
            self._process = subprocess.Popen(
                command, pass_fds=[end.fileno()],
                stdin=subprocess.DEVNULL, stderr=errors, start_new_session=True,
            )  # fmt: skip
        self.pid = self._process.pid

    def start(
        self, arguments: Sequence[str], memory_links: Mapping[int, tuple[str, int]], log: Path
    ) -> GroupedSwitch:
        """Start a switch with the arguments of `minip4 switch`. Its messages are written to `log`.

        `memory_links` is as in minip4.ports.driver.Driver. Raises TestbedError if the process has
        ended or hangs.
        """
        ours, theirs = socket.socketpair()
        message = json.dumps({"arguments": arguments, "memory_links": memory_links}).encode()
        with theirs, log.open("w") as errors:
            try:
                socket.send_fds(self._channel, [message], [theirs.fileno(), errors.fileno()])
            except (BrokenPipeError, ConnectionResetError) as error:
                ours.close()
                raise TestbedError(f"switches cannot be started: {self.describe_exit()}") from error
            except TimeoutError as error:
                ours.close()
                raise TestbedError(
                    f"switches cannot be started: {PROCESS} did not respond within {CHANNEL_S:g} s"
                ) from error
        self._switches.append(GroupedSwitch(self, ours))
        return self._switches[-1]

    def exit_status(self) -> int:
        """Wait for the end of the process; return its exit status."""
        return self._process.wait()

    def describe_exit(self) -> str:
        """Describe why the process has ended."""
        lines = self.log.read_text().strip().splitlines()
        status = self.exit_status()
        silent = "no output"
        if status == -signal.SIGKILL:
            silent = "the kernel, for lack of memory, or another program killed it"
        return f"{PROCESS} {describe_status(status)}: {lines[-1] if lines else silent}"

    def kill(self) -> None:
        """End the process and all its switches.

        Switches close their sockets at the same time; the kernel would close those of a killed
        process one after the other. A process that hangs is killed.
        """
        running = [switch for switch in self._switches if switch.poll() is None]
        for switch in running:
            switch.kill()
        with contextlib.suppress(OSError):  # the process has ended
            self._channel.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(subprocess.TimeoutExpired):
            if running:
                self._process.wait(KILL_S)
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End the process, and close the connection to it."""
        self.kill()
        self._channel.close()


def describe_status(status: int) -> str:
    """Describe an exit status."""
    return (
        f"ended by {signal.Signals(-status).name}" if status < 0 else f"exited with status {status}"
    )
