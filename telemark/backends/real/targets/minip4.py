"""The minip4 target: `minip4 switch` as a Mininet switch."""

import json
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mininet.link import Intf
from mininet.node import Switch

from minip4.runtime.switch.control import call
from telemark.backends.backend import derive_seed
from telemark.backends.real.bmv2_thrift.client import Thrift
from telemark.backends.real.scheduling import raise_priority, wait_for_output
from telemark.backends.real.shell import Shell
from telemark.backends.real.switch_starter import SwitchProcess, SwitchStarter
from telemark.errors import TestbedError
from telemark.programs import Program
from telemark.topology import links

# Two runs can use the same ports, because each run has its own loopback interface.
GRPC_BASE_PORT = 9550
READY = "minip4 switch: ready"
STOP_S = 10.0  # maximum time for draining queues and links


@dataclass(frozen=True)
class SwitchSettings:
    """Settings of all switches of a network."""

    programs: Mapping[str, Program]  # by switch
    folder: Path  # folder for logs, counters and captures
    seed: int
    capture: bool
    snaplen: int  # maximum number of bytes of a frame in captures
    stamp_log: bool
    options: dict[str, Sequence[str]]  # map from switch to further options of `minip4 switch`
    device_ids: Mapping[str, int]  # by switch
    starter: SwitchStarter
    memory: Path | None = None  # folder for memory links between switches; None: use interfaces


class Minip4Switch(Shell, Switch):
    """Switch process in the run's root namespace, with P4Runtime on 127.0.0.1.

    start() does not wait until the switch is ready, so that many switches start in parallel. Use
    wait_ready().
    """

    target = "minip4"
    # time of the common clock minus time of the switch's clock; None: unknown
    clock_offset_us: int | None = 0
    clock_error_us: float = 0  # maximum error of clock_offset_us
    thrift: Thrift | None = None  # Thrift API, only on bmv2
    without_thrift: str | None = None  # message that names the features that need Thrift

    def __init__(self, name: str, settings: SwitchSettings, **params: Any) -> None:
        self.device_id = settings.device_ids[name]
        super().__init__(name, **{**params, "dpid": f"{self.device_id:x}"})
        self._settings = settings
        self._process: SwitchProcess | None = None
        # the topology may set the port of a switch
        port = params.get("grpc_port", GRPC_BASE_PORT + self.device_id)
        self.grpc_address = f"127.0.0.1:{port}"
        self.p4info_path = settings.programs[name].p4info_path
        self.blob_path = settings.programs[name].blob_path
        self.log_path = settings.folder / f"{name}.log"
        self.control_path = settings.folder / f"{name}.sock"
        self.counters: dict[str, Any] = {}  # counters of `minip4 switch`; set by finish()

    def start(self, _controllers: object) -> None:
        """Start the switch process."""
        self._process = self._settings.starter.start(self._arguments(), self.log_path)
        raise_priority(self._process.pid)

    def wait_ready(self) -> None:
        """Wait until the switch forwards and responds.

        Raises TestbedError if the process has exited.
        """
        assert self._process is not None
        # The loop ends even if the process exits, because its output ends then.
        if not any(line.startswith(READY) for line in self._process.stdout):
            raise self._ended(self._process.wait())

    def request_end(self) -> None:
        """Ask the switch process to end. It then drains its queues and writes its counters."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)

    def finish(self) -> None:
        """Wait for the end of the switch process, and read its counters.

        Does nothing if the user stopped the switch in the CLI.
        """
        if self._process is None:
            return
        wait_for_output(self._process, STOP_S, f"switch {self.name}")
        status = self._process.returncode
        self._process = None
        if status:
            raise self._ended(status)
        self.counters = json.loads(self._counters_path.read_text())

    def connected(self) -> bool:
        """Return whether the process runs. Mininet's class Switch defines this method."""
        return self._process is not None and self._process.poll() is None

    def check_alive(self) -> None:
        """Raise TestbedError if the switch process has stopped unexpectedly."""
        if self._process is not None and (status := self._process.poll()) is not None:
            raise self._ended(status)

    def set_link(self, port: int, **changes: Any) -> None:
        """Change parameters of the link at a port (see addLink()) while the switch runs.

        Other parameters keep their values. Raises Minip4Error or TestbedError for invalid values.
        """
        own = links.properties(changes, f"switch {self.name}, port {port}")
        call(self.control_path, "set_link", port=port, **own)

    def set_queue(self, port: int, **changes: int) -> None:
        """Change `depth` (packets), `bytes`, `rate_pps` or `rate_bps` of the queues of a port.

        With `priority`, only the queue of this priority changes.
        """
        call(self.control_path, "set_queue", port=port, **changes)

    def read_counters(self) -> dict[str, Any]:
        """Return the current counters, in the format of `minip4 switch --counters`."""
        counters: dict[str, Any] = call(self.control_path, "counters")
        return counters

    def stop(self, deleteIntfs: bool = True) -> None:
        """Kill the switch process, and remove the interfaces."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
        super().stop(deleteIntfs)

    @property
    def _counters_path(self) -> Path:
        return self._settings.folder / f"{self.name}-counters.json"

    def _ended(self, status: int) -> TestbedError:
        return TestbedError(f"switch {self.name} {describe_exit(status)}: {self._last_log()}")

    def _last_log(self) -> str:
        lines = self.log_path.read_text().strip().splitlines()
        return lines[-1] if lines else "no output"

    def _arguments(self) -> list[str]:
        """Return the arguments of `minip4 switch`."""
        settings = self._settings
        command = [
            *self._program_options(),
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
                command += self._memory_link(port, interface)
        return command

    def _memory_link(self, port: int, interface: Intf) -> list[str]:
        """Return the option for a memory link; none if the neighbour is not a minip4 switch."""
        ends = [interface.link.intf1, interface.link.intf2]
        if self._settings.memory is None or any(type(end.node) is not Minip4Switch for end in ends):
            return []
        path = self._settings.memory / f"{ends[0].name}-{ends[1].name}"
        return ["--memory-link", f"{port}:{path},{ends.index(interface)}"]

    def _program_options(self) -> list[str]:
        """Return the arguments for the P4 program and P4Runtime."""
        return [
            str(self.blob_path), "--p4info", str(self.p4info_path),
            "--grpc-server-addr", self.grpc_address, *self._settings.options.get(self.name, ()),
        ]  # fmt: skip


def describe_exit(status: int) -> str:
    """Describe the exit status of a process."""
    return (
        f"ended by {signal.Signals(-status).name}" if status < 0 else f"exited with status {status}"
    )
