"""Queues and registers of bmv2 over Thrift, through the bindings that bmv2 installs."""

import argparse
import json
import select
import subprocess
import threading
from pathlib import Path
from typing import Any

from minip4.runtime.switch.port_options import QUEUE_KEYS, checked
from telemark.backends.real.bmv2_thrift import bindings
from telemark.errors import TestbedError

# Python's path contains the folder of this file; no module in it may hide `thrift`
CALLS = Path(__file__).parent / "in_env" / "thrift_calls.py"
ANSWER_S = 20.0
# largest number in Thrift (signed 64 bits); for larger values, bmv2 also returns this number
LARGEST = 2**63 - 1
QUEUE_WORDS = {"depth": "set_queue_depth", "rate_pps": "set_queue_rate"}


class ThriftCalls:
    """Process that runs thrift_calls.py in the system's Python. It starts at the first call."""

    def __init__(self) -> None:
        self.has_port = bindings.has_thrift()  # whether the switches have Thrift ports
        self._python = ""
        self.missing: str | None = None  # reason why Thrift calls are not possible
        if not self.has_port:
            self.missing = "this bmv2 was built without Thrift"
        else:
            try:
                self._python = bindings.interpreter()
            except TestbedError as error:
                self.missing = str(error)
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def call(self, port: int, method: str, /, **arguments: Any) -> Any:
        """Call a function of thrift_calls.py in the process.

        Raises TestbedError if the call fails or Thrift is missing.
        """
        if self.missing is not None:
            raise TestbedError(f"{method}: {self.missing}")
        with self._lock:
            request = {"port": port, "method": method, "arguments": arguments}
            answer = self._ask(json.dumps(request))
        if "error" in answer:
            raise TestbedError(f"{method}: {answer['error']}")
        return answer["result"]

    def stop(self) -> None:
        """Kill the process if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _ask(self, line: str) -> dict[str, Any]:
        if self._process is None:
            self._process = subprocess.Popen(
                [self._python, str(CALLS)], env=bindings.environment(), text=True,
                start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )  # fmt: skip
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None
        if not select.select([process.stdout], [], [], ANSWER_S)[0]:
            self.stop()
            raise TestbedError(f"no answer within {ANSWER_S:g} s")
        if not (line := process.stdout.readline()):
            raise self._ended()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _ended(self) -> TestbedError:
        """Create the error that reports that the process ended."""
        assert self._process is not None
        _, errors = self._process.communicate()
        self._process = None
        last = errors.strip().splitlines()[-1] if errors.strip() else "no output"
        return TestbedError(f"bmv2's Thrift API: process ended: {last}")


class Thrift:
    """Thrift API of one bmv2 switch.

    Methods raise TestbedError if bmv2 lacks Thrift or does not support the request.
    """

    def __init__(self, switch: str, port: int, calls: ThriftCalls) -> None:
        self._switch = switch
        self.port = port
        self._calls = calls

    def set_all_queues(self, depth: int) -> None:
        """Set the depth of all queues, in packets."""
        self._call("set_queue_depth", depth=depth)

    def set_queue(self, port: int, priority: int | None = None, **changes: Any) -> None:
        """Change `depth` (packets) and `rate_pps` (0 means unlimited) of a port's queue."""
        where = f"switch {self._switch}, port {port}: bmv2"
        if unknown := sorted(changes.keys() - QUEUE_WORDS.keys()):
            raise TestbedError(
                f"{where}: no queue parameter {', '.join(unknown)}; expected "
                f"{' or '.join(QUEUE_WORDS)}, or addLink(..., rate_bps=) to limit a link"
            )
        if priority:
            raise TestbedError(f"{where}: no queue of priority {priority}; expected 0")
        try:
            checked({"port": port, **changes}, QUEUE_KEYS)
        except argparse.ArgumentTypeError as error:
            raise TestbedError(f"{where}: {error}") from None
        for word, value in changes.items():
            self._call(QUEUE_WORDS[word], port=port, **{word: value})

    def read_register(self, name: str, bits: int, index: int | None = None) -> list[int]:
        """Read one cell of a register, or all its cells; `bits` is the width of a cell."""
        found = self._call("register_read", name=name, index=index)
        values = found if index is None else [found]
        if bits > 63 and LARGEST in values:
            raise TestbedError(
                f"switch {self._switch}: register {name}: cell "
                f"{index or values.index(LARGEST)} is 2**63 - 1 or more ({bits} bits), which "
                "Thrift cannot represent"
            )
        return values

    def write_register(self, name: str, value: int, cells: range) -> None:
        """Write one value into consecutive cells."""
        if not 0 <= value <= LARGEST:
            raise TestbedError(
                f"switch {self._switch}: register {name}: value {value}: expected 0 to 2**63 - 1 "
                "(Thrift)"
            )
        self._call("register_write", name=name, first=cells.start, end=cells.stop, value=value)

    @property
    def missing(self) -> str | None:
        """Reason why calls are not possible; None if calls are possible."""
        return self._calls.missing

    def _call(self, method: str, /, **arguments: Any) -> Any:
        try:
            return self._calls.call(self.port, method, **arguments)
        except TestbedError as error:
            raise TestbedError(f"switch {self._switch}: bmv2: {error}") from None
