"""The minip4 target: a Mininet switch that runs minip4."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mininet.node import Switch

from minip4.runtime.switch.control import call
from telemark.backends.backend import derive_seed
from telemark.backends.real.bmv2_thrift.client import Thrift
from telemark.backends.real.scheduling import wait_for, wait_for_output
from telemark.backends.real.shell import Shell
from telemark.backends.real.switch_group import (
    KILL_S,
    GroupedSwitch,
    SwitchGroup,
    describe_status,
)
from telemark.errors import TestbedError
from telemark.programs import Program
from telemark.topology import links

# Two runs can use the same ports, because each run has its own loopback interface.
GRPC_BASE_PORT = 9550
START_S = 60.0  # maximum time until a switch is ready, and the others that start with it
STOP_S = 10.0  # maximum time for draining queues and links
CLOSE_PORT_S = 0.2  # the kernel needs about 0.05 s to close the sockets of a port


@dataclass(frozen=True)
class SwitchSettings:
    """Settings of all switches of a network."""

    programs: Mapping[str, Program]  # switch -> its program
    folder: Path  # folder for logs, counters and captures
    seed: int
    capture: bool
    snaplen: int  # maximum number of bytes of a frame in captures
    stamp_log: bool
    options: dict[str, Sequence[str]]  # map from switch to further options of `minip4 switch`
    device_ids: Mapping[str, int]  # switch -> its device ID
    group: SwitchGroup
    wires: str  # "memory": links between switches in memory; "veth": interfaces


class Minip4Switch(Shell, Switch):
    """Switch in the run's root namespace, with P4Runtime on 127.0.0.1.

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
        self._running: GroupedSwitch | None = None
        # the topology may set the port of a switch
        port = params.get("grpc_port", GRPC_BASE_PORT + self.device_id)
        self.grpc_address = f"127.0.0.1:{port}"
        self.p4info_path = settings.programs[name].p4info_path
        self.blob_path = settings.programs[name].blob_path
        self.log_path = settings.folder / f"{name}.log"
        self.control_path = settings.folder / f"{name}.sock"
        self.counters: dict[str, Any] = {}  # counters of `minip4 switch`; set by finish()

    def start(self, _controllers: object) -> None:
        """Start the switch."""
        self._running = self._settings.group.start(
            self._arguments(), self.memory_links(), self.log_path
        )

    def wait_ready(self) -> None:
        """Wait until the switch forwards and responds.

        Raises TestbedError if it has ended or hangs.
        """
        running = self._running
        assert running is not None
        problem = f"switch {self.name}: was not ready"
        if not wait_for(running.wait_ready, running.pid, START_S, problem):
            raise self._ended(running)

    def request_end(self) -> None:
        """Ask the switch to end. It then drains its queues and writes its counters."""
        if self._running is not None:
            self._running.end()

    def finish(self) -> None:
        """Wait for the end of the switch, and read its counters.

        Does nothing if the user stopped the switch in the CLI.
        """
        if self._running is None:
            return
        wait_for_output(self._running, STOP_S + self._close_s(), f"switch {self.name}")
        ended, self._running = self._running, None
        if ended.returncode:
            raise self._ended(ended)
        self.counters = json.loads(self._counters_path.read_text())

    def connected(self) -> bool:
        """Return whether the switch runs. Mininet's class Switch defines this method."""
        return self._running is not None and self._running.poll() is None

    def check_alive(self) -> None:
        """Raise TestbedError if the switch has stopped unexpectedly."""
        if self._running is not None and self._running.poll() is not None:
            raise self._ended(self._running)

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
        """Kill the switch, and remove the interfaces.

        Raises TestbedError if the switch hangs. Then the process of all switches is killed.
        """
        running, self._running = self._running, None
        if running is not None:
            running.kill()
            try:
                name = f"switch {self.name}, when it was killed"
                wait_for_output(running, KILL_S + self._close_s(), name)
            except TestbedError:
                self._settings.group.kill()
                raise
        super().stop(deleteIntfs)

    def _close_s(self) -> float:
        """Return the maximum time until the sockets of all ports are closed."""
        return CLOSE_PORT_S * (len(self.ports) - 1)  # without `lo`

    @property
    def _counters_path(self) -> Path:
        return self._settings.folder / f"{self.name}-counters.json"

    def _ended(self, ended: GroupedSwitch) -> TestbedError:
        """Return the error for a switch that has ended."""
        assert ended.returncode is not None
        if ended.is_lost:
            names = [*self._settings.device_ids]
            return TestbedError(
                f"{'switch' if len(names) == 1 else 'switches'} {', '.join(names)}: "
                f"{self._settings.group.describe_exit()}"
            )
        lines = self.log_path.read_text().strip().splitlines()
        return TestbedError(
            f"switch {self.name} {describe_status(ended.returncode)}: "
            f"{lines[-1] if lines else 'no output'}"
        )

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
        return command

    def memory_links(self) -> dict[int, tuple[str, int]]:
        """Return the memory links of ports to other minip4 switches (minip4.ports.driver)."""
        found = {}
        for interface, port in self.ports.items():
            if interface.name == "lo" or self._settings.wires != "memory":
                continue
            ends = [interface.link.intf1, interface.link.intf2]
            if all(type(end.node) is Minip4Switch for end in ends):
                found[port] = f"{ends[0].name}-{ends[1].name}", ends.index(interface)
        return found

    def _program_options(self) -> list[str]:
        """Return the arguments for the P4 program and P4Runtime."""
        return [
            str(self.blob_path), "--p4info", str(self.p4info_path),
            "--grpc-server-addr", self.grpc_address, *self._settings.options.get(self.name, ()),
        ]  # fmt: skip
