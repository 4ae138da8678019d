"""The bmv2 target: simple_switch_grpc as a Mininet switch, behind a panel switch.

The panel is a minip4 switch (panel.p4). It forwards every frame between the interfaces of the
Mininet switch and the interfaces of bmv2. It provides the same links, captures and counters as the
minip4 target. bmv2 does not count its drops, so the panel counts the frames that enter and leave
bmv2.

The panel also implements link rates, so the P4 program on bmv2 sees empty queues. With
`pushes_back=True` in the topology, the kernel also limits the rate of bmv2's interface, like
Mininet's TCLink. Then packets wait in bmv2's queues.
"""

import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from telemark.backends.real.bmv2_thrift.bindings import PROGRAM
from telemark.backends.real.bmv2_thrift.client import Thrift, ThriftCalls
from telemark.backends.real.scheduling import SWITCH_PRIORITY, set_priority
from telemark.backends.real.switch_group import describe_status
from telemark.backends.real.targets.bmv2_counters import PANEL_PORTS, with_inner_counts
from telemark.backends.real.targets.minip4 import Minip4Switch, SwitchSettings
from telemark.errors import TestbedError
from telemark.programs import Program
from telemark.topology.links import ETHERNET_BYTES, SWITCH_MTU

PANEL = Path(__file__).with_name("panel.p4")
THRIFT_BASE_PORT = 9090  # like GRPC_BASE_PORT, runs can use the same ports
START_S = 20.0
# QUEUE_DEPTH is the depth of bmv2's queues at ports without a rate; USUAL_DEPTH is bmv2's default.
# The panel implements the queues of links. bmv2's queues store only the packets that arrive while
# other processes use the core. A depth of 64 packets would be enough for only 5 ms.
QUEUE_DEPTH, USUAL_DEPTH = 4096, 64
KNOWN_OPTIONS = {"--cpu-port"}
# Limit of the kernel's queue at an interface with a rate. The kernel's queue drops no packet,
# because bmv2's socket buffer (net.core.wmem_default) is full earlier, and then bmv2 waits.
KERNEL_QUEUE_BYTES = 1 << 24


class Bmv2Switch(Minip4Switch):
    """simple_switch_grpc process behind a panel; it runs the same JSON as minip4."""

    target = "bmv2"
    clock_offset_us = None  # unknown: bmv2's clock starts with its process
    thrift: Thrift
    clock_error_us = 2000  # maximum: half of a readout's round-trip time on a loaded machine

    def __init__(
        self, name: str, settings: SwitchSettings, panel: Program, calls: ThriftCalls, **params: Any
    ) -> None:
        super().__init__(name, settings, **params)
        self._panel = panel
        self.thrift = Thrift(name, THRIFT_BASE_PORT + self.device_id, calls)
        if calls.missing is not None:
            self.without_thrift = (
                f"bmv2 without Thrift: queues hold {USUAL_DEPTH} packets and cannot be changed; "
                f"registers cannot be accessed by P4Runtime calls ({calls.missing})"
            )
        # All switches share the loopback interface of the run, so each switch needs its own Thrift
        # port.
        self._thrift_ports = (self.thrift.port,) if calls.has_port else ()
        self._bmv2: subprocess.Popen[bytes] | None = None
        # map from port to the two ends of its veth pair: the panel's interface and bmv2's interface
        self._wires: dict[int, tuple[str, str]] = {}
        self._sized_queues: set[int] = set()  # ports for which the user has set a queue depth
        self._bmv2_log = settings.folder / f"{name}-bmv2.log"
        options = settings.options.get(name, ())
        if unknown := {*options[::2]} - KNOWN_OPTIONS:
            raise TestbedError(
                f"switch {name}: bmv2 has no option {', '.join(sorted(unknown))}; expected "
                f"{', '.join(KNOWN_OPTIONS)}, or use --target minip4"
            )

    def start(self, controllers: object) -> None:
        """Start the panel and bmv2."""
        ports = [port for interface, port in self.ports.items() if interface.name != "lo"]
        for port in ports:
            panel_end, bmv2_end = self._wires[port] = (
                panel_interface(self.name, port), f"{self.name}-bmv2p{port}",
            )  # fmt: skip
            _run(f"ip link add name {panel_end} mtu {SWITCH_MTU} type veth "
                 f"peer name {bmv2_end} mtu {SWITCH_MTU}")  # fmt: skip
            for end in (panel_end, bmv2_end):
                # With offloads, libpcap reserves 64 KB per frame, so its buffer has room for only
                # 32 frames.
                _run(f"ethtool -K {end} tx off rx off sg off tso off gso off gro off")
                _run(f"ip link set dev {end} up")
        for port, rate_bps in self._kernel_rates().items():
            limit_rate(self._wires[port][1], rate_bps)
        super().start(controllers)
        bound = [word for port, (_, end) in self._wires.items() for word in ("-i", f"{port}@{end}")]
        with self._bmv2_log.open("w") as log:
            self._bmv2 = subprocess.Popen(
                [PROGRAM, "--no-p4", "--device-id", str(self.device_id),
                 *(f"--thrift-port={port}" for port in self._thrift_ports), *bound,
                 "--", "--grpc-server-addr", self.grpc_address,
                 *self._settings.options.get(self.name, ())],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        set_priority(self._bmv2.pid, SWITCH_PRIORITY)

    def wait_ready(self) -> None:
        """Wait until the panel forwards and bmv2 responds; set the depths of bmv2's queues."""
        super().wait_ready()
        host, _, port = self.grpc_address.rpartition(":")
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            self._check_bmv2()
            try:
                for each in (int(port), *self._thrift_ports):
                    socket.create_connection((host, each), timeout=1).close()
            except OSError:
                time.sleep(0.01)
            else:
                self._size_queues()
                return
        raise TestbedError(f"switch {self.name}: bmv2 did not respond within {START_S:g} s")

    def read_counters(self) -> dict[str, Any]:
        """Return the panel's counters, and the numbers of frames that entered and left bmv2."""
        return with_inner_counts(super().read_counters())

    def finish(self) -> None:
        """Read the panel's counters and stop bmv2.

        Raises TestbedError if bmv2 had already stopped.
        """
        is_up = self._running is not None
        super().finish()
        if is_up:
            self.counters = with_inner_counts(self.counters)
        if self._bmv2 is not None:
            self._check_bmv2()
            self._end_bmv2()

    def check_alive(self) -> None:
        """Raise TestbedError if the panel or bmv2 has stopped unexpectedly."""
        super().check_alive()
        if self._bmv2 is not None:
            self._check_bmv2()

    def set_queue(self, port: int, **changes: Any) -> None:
        """Change `depth` (packets) and `rate_pps` of the queue of a port in bmv2."""
        if port not in self._wires:
            raise TestbedError(f"switch {self.name}: no port {port}")
        if "depth" in changes:
            self._sized_queues.add(port)
        # If the port gets a rate, packets wait in bmv2's queue, and not in the link's queue. So the
        # queue gets bmv2's default depth, unless the user has set a depth.
        elif port not in self._sized_queues:
            changes = {"depth": USUAL_DEPTH, **changes}
        self.thrift.set_queue(port, **changes)

    def stop(self, deleteIntfs: bool = True) -> None:
        """Kill both processes, and remove the interfaces."""
        self._end_bmv2()
        for panel_end, _ in self._wires.values():
            subprocess.run(["ip", "link", "del", "dev", panel_end], check=False,
                           capture_output=True)  # fmt: skip
        super().stop(deleteIntfs)

    def _kernel_rates(self) -> dict[int, int]:
        """Return the rates (bit/s) to which the kernel limits bmv2's ports."""
        if not self.params.get("pushes_back"):
            return {}
        rates = {port: self._link_parameters(port).get("rate_bps") for port in self._wires}
        return {port: rate_bps for port, rate_bps in rates.items() if rate_bps}

    def _link_parameters(self, port: int) -> dict[str, Any]:
        """Return the parameters of the link at a port."""
        given: dict[str, Any] = self.intfs[port].params
        return given

    def _size_queues(self) -> None:
        """Set the queue depths.

        Without Thrift, a queue depth other than bmv2's default is an error.
        """
        if self.thrift.missing is None:
            self.thrift.set_all_queues(QUEUE_DEPTH)
        for port in self._kernel_rates():
            depth = self._link_parameters(port).get("queue_packets") or USUAL_DEPTH
            if self.thrift.missing is None or depth != USUAL_DEPTH:
                self.set_queue(port, depth=depth)

    def _program_options(self) -> list[str]:
        towards_bmv2 = [
            word
            for port, (end, _) in self._wires.items()
            for word in ("-i", f"{PANEL_PORTS + port}@{end}")
        ]
        return [str(self._panel.blob_path), "--grpc-server-addr", "127.0.0.1:0", *towards_bmv2]

    def _check_bmv2(self) -> None:
        assert self._bmv2 is not None
        if (status := self._bmv2.poll()) is not None:
            lines = self._bmv2_log.read_text().strip().splitlines() or ["no output"]
            raise TestbedError(f"switch {self.name}: bmv2 {describe_status(status)}: {lines[-1]}")

    def _end_bmv2(self) -> None:
        if self._bmv2 is not None:
            self._bmv2.kill()
            self._bmv2.wait()
            self._bmv2 = None


def panel_interface(switch: str, port: int) -> str:
    """Return the name of the panel's interface that leads to bmv2's port."""
    return f"{switch}-panel{port}"


def limit_rate(interface: str, rate_bps: int) -> None:
    """Limit the rate of an interface with a token bucket (tc-tbf(8)).

    The queue limit is so large that the sender's socket blocks before tc drops packets.
    """
    burst_bytes = SWITCH_MTU + ETHERNET_BYTES  # tbf never sends longer frames
    _run(f"tc qdisc add dev {interface} root tbf rate {rate_bps}bit burst {burst_bytes} "
         f"limit {KERNEL_QUEUE_BYTES}")  # fmt: skip


def _run(command: str) -> None:
    done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise TestbedError(f"{command}: {done.stderr.strip()}")
