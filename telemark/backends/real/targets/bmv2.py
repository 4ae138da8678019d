"""The bmv2 target: simple_switch_grpc as a Mininet switch, behind a panel that is a minip4 switch.

The panel (panel.p4) passes every frame on, between the switch's interfaces and bmv2's: so links,
captures and counters are the same as on minip4. bmv2 counts nothing that it drops, but the panel
counts what goes into it and what comes out.

A link's rate is the panel's, too, and so bmv2's program sees empty queues. A switch that a topology
gives `pushes_back=True` is held back by the kernel as well, as with Mininet's TCLink: bmv2 then
waits for its interface, and packets for bmv2.
"""

import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from telemark.backends.real.bmv2_thrift.bindings import PROGRAM
from telemark.backends.real.bmv2_thrift.client import Thrift, ThriftCalls
from telemark.backends.real.scheduling import raise_priority
from telemark.backends.real.targets.minip4 import Minip4Switch, SwitchSettings, how_it_ended
from telemark.errors import TestbedError
from telemark.programs import Program
from telemark.topology.checks import PORTS
from telemark.topology.links import ETHERNET_BYTES, SWITCH_MTU

PANEL = Path(__file__).with_name("panel.p4")
PANEL_PORTS = PORTS["bmv2"]  # the panel's ports towards bmv2 begin there
THRIFT_BASE_PORT = 9090  # as GRPC_BASE_PORT
START_S = 20.0
# Packets in each queue until it is given a rate. Links' rates and queues are the panel's, so what
# waits here is what came while others had the core: 5 ms are enough for the usual 64.
QUEUE_DEPTH, USUAL_DEPTH = 4096, 64
KNOWN_OPTIONS = {"--cpu-port"}
# Bytes that may wait in the kernel at an interface with a rate: it drops none, since bmv2's socket
# (net.core.wmem_default) is full long before, and bmv2 waits.
KERNEL_QUEUE_BYTES = 1 << 24


class Bmv2Switch(Minip4Switch):
    """A simple_switch_grpc process, which compiles nothing: it gets the same JSON as minip4."""

    clock_offset_us = None  # its clock begins with the process
    thrift: Thrift
    clock_error_us = 2000  # half of a readout's round trip, on a machine that has other work too

    def __init__(
        self, name: str, settings: SwitchSettings, panel: Program, calls: ThriftCalls, **params: Any
    ) -> None:
        super().__init__(name, settings, **params)
        self._panel = panel
        self.thrift = Thrift(name, THRIFT_BASE_PORT + self.device_id, calls)
        if calls.missing is not None:
            self.without_thrift = (
                f"bmv2 without Thrift: queues hold {USUAL_DEPTH} packets; no queue can be changed, "
                f"and no register accessed by P4Runtime's calls ({calls.missing})"
            )
        # All switches share the run's loopback interface: none may take Thrift's default port.
        self._thrift_ports = (self.thrift.port,) if calls.has_port else ()
        self._bmv2: subprocess.Popen[bytes] | None = None
        self._wires: dict[int, tuple[str, str]] = {}  # port -> ends: the panel's and bmv2's
        self._sized_queues: set[int] = set()  # ports whose queues were given a depth
        self._bmv2_log = settings.folder / f"{name}-bmv2.log"
        options = settings.options.get(name, ())
        if unknown := {*options[::2]} - KNOWN_OPTIONS:
            raise TestbedError(
                f"switch {name}: bmv2 has no {', '.join(sorted(unknown))}: expected no option but "
                f"{', '.join(KNOWN_OPTIONS)}, or --target minip4"
            )

    def start(self, controllers: object) -> None:
        """Launch the panel and bmv2."""
        ports = [port for interface, port in self.ports.items() if interface.name != "lo"]
        for port in ports:
            panel_end, bmv2_end = self._wires[port] = (
                panel_interface(self.name, port), f"{self.name}-bmv2p{port}",
            )  # fmt: skip
            _run(f"ip link add name {panel_end} mtu {SWITCH_MTU} type veth "
                 f"peer name {bmv2_end} mtu {SWITCH_MTU}")  # fmt: skip
            for end in (panel_end, bmv2_end):
                # With offloads, bmv2's libpcap has room for 64 KB a frame, and so for 32 frames.
                _run(f"ethtool -K {end} tx off rx off sg off tso off gso off gro off")
                _run(f"ip link set dev {end} up")
        for port, rate_bps in self._held_back().items():
            hold_back(self._wires[port][1], rate_bps)
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
        raise_priority(self._bmv2.pid)

    def wait_ready(self) -> None:
        """Return when the panel forwards and bmv2 answers, and has its queues' depths."""
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
        raise TestbedError(f"switch {self.name}: bmv2 did not answer within {START_S:g} s")

    def read_counters(self) -> dict[str, Any]:
        """The panel's, with what bmv2 took and gave."""
        return with_inner_counts(super().read_counters())

    def finish(self) -> None:
        """Take the panel's counters in, and end bmv2. Raises TestbedError when it had died."""
        is_up = self._process is not None
        super().finish()
        if is_up:
            self.counters = with_inner_counts(self.counters)
        if self._bmv2 is not None:
            self._check_bmv2()
            self._end_bmv2()

    def check_alive(self) -> None:
        """Raise TestbedError when one of the two processes has ended by itself."""
        super().check_alive()
        self._check_bmv2()

    def set_queue(self, port: int, **changes: Any) -> None:
        """Change depth (packets) and rate_pps of a port's queue: bmv2's own, not the panel's."""
        if port not in self._wires:
            raise TestbedError(f"switch {self.name} has no port {port}")
        if "depth" in changes:
            self._sized_queues.add(port)
        elif port not in self._sized_queues:  # with a rate, it is the network's queue
            changes = {"depth": USUAL_DEPTH, **changes}
        self.thrift.set_queue(port, **changes)

    def stop(self, deleteIntfs: bool = True) -> None:
        """End both processes whatever state they are in, and remove the interfaces."""
        self._end_bmv2()
        for panel_end, _ in self._wires.values():
            subprocess.run(["ip", "link", "del", "dev", panel_end], check=False,
                           capture_output=True)  # fmt: skip
        super().stop(deleteIntfs)

    def _held_back(self) -> dict[int, int]:
        """The rates, bit/s, at which ports push back into bmv2."""
        if not self.params.get("pushes_back"):
            return {}
        rates = {port: self._properties(port).get("rate_bps") for port in self._wires}
        return {port: rate_bps for port, rate_bps in rates.items() if rate_bps}

    def _properties(self, port: int) -> dict[str, Any]:
        """Those of the link behind a port."""
        given: dict[str, Any] = self.intfs[port].params
        return given

    def _size_queues(self) -> None:
        """Set the depths; without Thrift all stay as they are, and none may be asked for."""
        if self.thrift.missing is None:
            self.thrift.set_all_queues(QUEUE_DEPTH)
        for port in self._held_back():
            depth = self._properties(port).get("queue_packets") or USUAL_DEPTH
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
            lines = self._bmv2_log.read_text().strip().splitlines() or ["it said nothing"]
            raise TestbedError(f"switch {self.name}: bmv2 {how_it_ended(status)}: {lines[-1]}")

    def _end_bmv2(self) -> None:
        if self._bmv2 is not None:
            self._bmv2.kill()
            self._bmv2.wait()
            self._bmv2 = None


def panel_interface(switch: str, port: int) -> str:
    """The panel's interface towards bmv2's port."""
    return f"{switch}-panel{port}"


def hold_back(interface: str, rate_bps: int) -> None:
    """Let the kernel send no more out of an interface: who sends by a packet socket must wait.

    Not by tc's queues, of which it drops what has no room.
    """
    burst_bytes = SWITCH_MTU + ETHERNET_BYTES  # a longer frame would never get through (tc-tbf(8))
    _run(f"tc qdisc add dev {interface} root tbf rate {rate_bps}bit burst {burst_bytes} "
         f"limit {KERNEL_QUEUE_BYTES}")  # fmt: skip


def with_inner_counts(counters: dict[str, Any]) -> dict[str, Any]:
    """The panel's counters, with `inner`: how many frames went into bmv2, and came out.

    What did not come out is among the drops, at a port called bmv2.
    """
    inner = [port for number, port in counters["ports"].items() if int(number) >= PANEL_PORTS]
    into, out = (sum(port[what] for port in inner)
                 for what in ("transmitted_packets", "received_packets"))  # fmt: skip
    swallowed = {"bmv2": {"drops": {"bmv2": max(into - out, 0)}}}
    return {
        **counters,
        "inner": {"into": into, "out": out},
        "other_ports": {**counters["other_ports"], **swallowed},
    }


def _run(command: str) -> None:
    done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise TestbedError(f"{command}: {done.stderr.strip()}")
