"""The minip4 target: `minip4 switch` as a Mininet switch."""

import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mininet.node import Switch

from minip4.runtime.switch.control import call
from telemark.backends.backend import derive_seed
from telemark.backends.real.bmv2_thrift.client import Thrift
from telemark.backends.real.process_timeout import wait_for_output
from telemark.backends.real.scheduling import raise_priority
from telemark.backends.real.shell import Shell
from telemark.errors import TestbedError
from telemark.programs import Program
from telemark.topology import links

GRPC_BASE_PORT = 9550  # each run has a loopback interface of its own
READY = "minip4 switch: ready"
STOP_S = 10.0  # for what is under way in queues and links


@dataclass(frozen=True)
class SwitchSettings:
    """What all switches of a network share."""

    programs: Mapping[str, Program]  # of each switch
    folder: Path  # logs, counters, captures
    seed: int
    capture: bool
    snaplen: int  # bytes of each frame in captures
    stamp_log: bool
    options: dict[str, Sequence[str]]  # switch -> further options of `minip4 switch`
    device_ids: Mapping[str, int]  # of each switch


class Minip4Switch(Shell, Switch):
    """A switch process in the run's root namespace, with P4Runtime on 127.0.0.1.

    start() only launches it; wait_ready() awaits it, so that many can start side by side.
    """

    clock_offset_us: int | None = 0  # to be added to get the common clock; None: to be found
    clock_error_us: float = 0  # by which that may be wrong
    thrift: Thrift | None = None  # where P4Runtime does not give all
    without_thrift: str | None = None  # what the switch lacks, for want of Thrift

    def __init__(self, name: str, settings: SwitchSettings, **params: Any) -> None:
        self.device_id = settings.device_ids[name]
        super().__init__(name, **{**params, "dpid": f"{self.device_id:x}"})
        self._settings = settings
        self._process: subprocess.Popen[str] | None = None
        port = params.get("grpc_port", GRPC_BASE_PORT + self.device_id)  # of the topology
        self.grpc_address = f"127.0.0.1:{port}"
        self.p4info_path = settings.programs[name].p4info_path
        self.blob_path = settings.programs[name].blob_path
        self.log_path = settings.folder / f"{name}.log"
        self.control_path = settings.folder / f"{name}.sock"
        self.counters: dict[str, Any] = {}  # what `minip4 switch` counted; filled by finish()

    def start(self, _controllers: object) -> None:
        """Launch the switch process."""
        with self.log_path.open("w") as log:
            self._process = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                text=True, start_new_session=True,
            )  # fmt: skip
        raise_priority(self._process.pid)

    def wait_ready(self) -> None:
        """Return when the switch forwards and answers. Raises TestbedError when it died."""
        assert self._process is not None
        assert self._process.stdout is not None
        # The end of the process ends its output: this cannot wait for ever.
        if not any(line.startswith(READY) for line in self._process.stdout):
            raise self._ended(self._process.wait())

    def request_end(self) -> None:
        """Ask the switch process to end: it empties its queues and writes its counters."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)

    def finish(self) -> None:
        """Wait for the end of the switch process, and take its counters in.

        Nothing, where the command line stopped it.
        """
        if self._process is None:
            return
        wait_for_output(self._process, STOP_S, f"switch {self.name}")  # stop() ends what hangs
        status = self._process.returncode
        self._process = None
        if status:
            raise self._ended(status)
        self.counters = json.loads(self._counters_path.read_text())

    def connected(self) -> bool:
        """Whether the process runs; Mininet's name for it."""
        return self._process is not None and self._process.poll() is None

    def check_alive(self) -> None:
        """Raise TestbedError when the switch process has ended by itself."""
        if self._process is not None and (status := self._process.poll()) is not None:
            raise self._ended(status)

    def set_link(self, port: int, **changes: Any) -> None:
        """Change the link behind a port while the switch runs, in the words of addLink().

        What is not given stays. Raises Minip4Error and TestbedError for values that cannot be.
        """
        own = links.properties(changes, f"switch {self.name}, port {port}")
        call(self.control_path, "set_link", port=port, **own)

    def set_queue(self, port: int, **changes: int) -> None:
        """Change depth (packets), bytes, rate_pps, rate_bps of a port's queues (or `priority`)."""
        call(self.control_path, "set_queue", port=port, **changes)

    def read_counters(self) -> dict[str, Any]:
        """The counters now, as `minip4 switch --counters` writes them at the end."""
        counters: dict[str, Any] = call(self.control_path, "counters")
        return counters

    def stop(self, deleteIntfs: bool = True) -> None:
        """End the switch process whatever state it is in, and remove the interfaces."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
        super().stop(deleteIntfs)

    @property
    def _counters_path(self) -> Path:
        return self._settings.folder / f"{self.name}-counters.json"

    def _ended(self, status: int) -> TestbedError:
        return TestbedError(f"switch {self.name} {how_it_ended(status)}: {self._last_log()}")

    def _last_log(self) -> str:
        lines = self.log_path.read_text().strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def _command(self) -> list[str]:
        settings = self._settings
        command = [
            sys.executable, "-m", "minip4.cli", "switch", *self._program_options(),
            "--device-id", str(self.device_id), "--counters", str(self._counters_path),
            "--control", str(self.control_path),
            "--seed", str(derive_seed(settings.seed, self.name)),
        ]  # fmt: skip
        if settings.capture:
            command += ["--pcap", str(settings.folder), "--drop-log", str(settings.folder),
                        "--snaplen", str(settings.snaplen)]  # fmt: skip
        if settings.stamp_log:
            command += ["--stamp-log", str(settings.folder)]
        for interface, port in sorted(self.ports.items(), key=lambda item: item[1]):
            if interface.name != "lo":
                command += ["-i", f"{port}@{interface.name}"]
                seed = derive_seed(settings.seed, interface.name)
                command += links.link_option(port, interface.params, seed)
        return command

    def _program_options(self) -> list[str]:
        """What the process runs, and how its controller reaches it."""
        return [
            str(self.blob_path), "--p4info", str(self.p4info_path),
            "--grpc-server-addr", self.grpc_address, *self._settings.options.get(self.name, ()),
        ]  # fmt: skip


def how_it_ended(status: int) -> str:
    """What the exit status of a process says."""
    return (
        f"ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    )
