"""Sender of raw frames in real time: a process in the host's namespace."""

import contextlib
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from telemark.backends.real.flow_processes import build_program
from telemark.backends.real.udp import MAX_LAG_NS, RATE_NOT_KEPT
from telemark.errors import IDLE_MACHINE, InvalidRunError, TestbedError


class FrameSender:
    """Process that sends frames over the host's interface; the constructor starts it."""

    def __init__(
        self, host: Any, path: Path, times_ns: Sequence[int], frames: Sequence[bytes]
    ) -> None:
        self._host = host.name
        self._count = len(frames)
        with path.open("wb") as file:
            file.write(np.uint64(len(frames)).tobytes())
            file.write(np.asarray(times_ns, np.uint64).tobytes())
            file.write(np.array([len(frame) for frame in frames], np.uint32).tobytes())
            file.writelines(frames)
        program = str(build_program("send_frames"))
        command = [*host.enter(), program, str(host.defaultIntf()), str(path), str(MAX_LAG_NS)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def finish(self, timeout_s: float) -> None:
        """Wait for the last frame until the timeout, then stop sending.

        Raises InvalidRunError if a frame was sent too late, TestbedError if it could not be sent.
        """
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        self._process.terminate()
        output, errors = self._process.communicate()
        if self._process.returncode == RATE_NOT_KEPT:
            totals = json.loads(output)
            raise InvalidRunError(
                f"frames of {self._host}: {totals['sent']} of {self._count} sent, the last "
                f"{totals['largest_lag_ns'] / 1e6:.0f} ms late",
                f"lower the rate or {IDLE_MACHINE}",
            )
        if self._process.returncode:
            raise TestbedError(f"frames of {self._host}: {errors.decode().strip()}")

    def stop(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.communicate()
