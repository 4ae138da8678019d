"""A switch: engine, driver and P4Runtime server, from start to final counters."""

import asyncio
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # minip4 reports errors in its own format

import grpc
from finsy.proto import p4i
from google.protobuf import text_format  # type: ignore[import-untyped]

from minip4.engine.engine import Engine
from minip4.errors import Minip4Error, ToolchainError
from minip4.ports.driver import Driver, Workers
from minip4.runtime.dataplane import Dataplane
from minip4.runtime.service.device import Device
from minip4.runtime.service.server import Service, serve
from minip4.runtime.service.stream import Messages
from minip4.runtime.service.tls import server_credentials
from minip4.runtime.status import StatusError
from minip4.runtime.switch.control import ControlServer
from minip4.runtime.switch.counters import control_plane, counters, total
from minip4.runtime.switch.interfaces import Interfaces
from minip4.runtime.switch.options import SwitchOptions
from minip4.runtime.switch.port_settings import PortSettings
from minip4.runtime.switch.tracing import TraceWriter

SERVER_GRACE_S = 0.2  # grace period for pending calls when the switch terminates
DRAIN_S = 1.0  # maximum time for draining queues and links
KILLED_STATUS = -signal.SIGKILL  # exit status of a killed process, as in subprocess


def run_switch(options: SwitchOptions) -> int:
    """Run a switch until SIGTERM or SIGINT; return the exit status. Raises Minip4Error."""
    if options.sanitize:
        preload_sanitizer()
    allow_open_files()
    return asyncio.run(_run_until_signal(options))


def allow_open_files() -> None:
    """Set the limit of open files to the maximum, because each port needs about four."""
    hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))


async def _run_until_signal(options: SwitchOptions) -> int:
    switch = Switch(options)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, switch.request_end)
    return await switch.run()


class Switch:
    """A switch that run() runs until request_end().

    For `workers` and `memory_links`, see Driver. Messages are written to `log` (default: stderr). A
    line is written to `output` (default: stdout) when the switch is ready. Without --counters, the
    counters are written there, too. A trace without FILE is written to stdout.
    """

    def __init__(
        self,
        options: SwitchOptions,
        workers: Workers | None = None,
        *,
        memory_links: Mapping[int, tuple[str, int]] | None = None,
        output: TextIO | None = None,
        log: TextIO | None = None,
    ) -> None:
        self._options = options
        self._workers = workers
        self._memory_links = memory_links or {}
        self._output = output or sys.stdout
        self._log = log or sys.stderr
        self._log_fd = -1 if log is None else log.fileno()
        self._began_ns = time.monotonic_ns()  # start of timestamps, independent of the wall clock
        ports = [interface.port for interface in options.interfaces]
        self._settings = PortSettings(options, ports)
        self._trace: TraceWriter | None = None
        self._engine: Engine
        self._driver: Driver
        self._retired: list[dict[str, Any]] = []  # counters of the engines of earlier pipelines
        self._credentials = _credentials(options)
        self._stopping = asyncio.Event()
        self._is_killed = False

    def request_end(self, *, is_killed: bool = False) -> None:
        """Make run() return, after queues and links are drained and the counters are written.

        With `is_killed`, it returns immediately and writes no counters.
        """
        self._is_killed |= is_killed
        self._stopping.set()

    async def run(self) -> int:
        """Run the switch; return the exit status. Raises Minip4Error."""
        options = self._options
        blob = _read(options.program)
        program = _parse(options.program, blob)
        p4info = None if options.p4info is None else _read_p4info(options.p4info)
        _check_address(options.grpc_server_addr)
        if options.counters is not None and not options.counters.parent.is_dir():
            raise Minip4Error(
                f"--counters {options.counters}: {options.counters.parent} is not a directory"
            )
        self._engine = self._make_engine(program)
        try:
            await self._forward(p4info, blob)
            if self._is_killed:
                return KILLED_STATUS
            errors = [
                self._driver.capture_error,
                self._trace.error if self._trace else None,
                self._write_counters(),
            ]
        finally:
            self._engine.close()
        for text in filter(None, errors):
            print(f"minip4 switch: error: {text}", file=self._log)
        return 1 if any(errors) else 0

    async def _forward(self, p4info: p4i.P4Info | None, blob: bytes) -> None:
        """Forward frames and serve controllers until request_end(). Raises Minip4Error."""
        options = self._options
        controller_port = self._controller_port()
        self._settings.apply(self._engine)
        if options.trace is not None:
            self._trace = TraceWriter(self._engine, options.trace, sys.stdout)
        device = Device(options.device_id, self._make_engine, self._install)
        if p4info is not None:
            try:
                device.adopt(p4info, blob, self._engine)
            except StatusError as error:
                raise Minip4Error(f"{options.p4info}: {error.message}") from error
        # in a thread, because the kernel needs some milliseconds per interface
        self._driver = await asyncio.to_thread(
            Driver,
            self._engine,
            {interface.port: interface.name for interface in options.interfaces},
            workers=self._workers,
            memory_links=self._memory_links,
            cpu_port=controller_port,
            capture_folder=options.pcap,
            loss_folder=options.drop_log,
            stamp_folder=options.stamp_log,
            snaplen=options.snaplen,
            device_id=options.device_id,
            log_fd=self._log_fd,
        )
        self._messages = Messages(device, self._driver, cpu_port=controller_port is not None)
        messages = self._messages
        self._device = device
        self._interfaces = Interfaces(
            self._driver.interfaces,
            self._port_changed,
            self._driver.reopen,
            self._driver.set_train_mtu,
        )
        control = ControlServer(self, self._settings)
        server: grpc.aio.Server | None = None
        is_drained = False
        try:
            if options.control is not None:
                await control.start(options.control)
            self._driver.start()  # starts before a controller can replace the engine
            self._interfaces.start()
            messages.start(None if controller_port is None else self._driver.cpu_fd)
            server, port = await self._serve(Service(device, messages))
            if self._trace is not None:
                self._trace.start()
            print(
                f"minip4 switch: ready ({self._description(port)})", file=self._output, flush=True
            )
            await self._stopping.wait()
            is_drained = not self._is_killed
        finally:  # also after an error, because other switches of this process continue
            control.stop()
            self._interfaces.stop()
            messages.stop()
            if server is not None:
                await server.stop(SERVER_GRACE_S if is_drained else 0)
            await asyncio.to_thread(self._driver.stop, DRAIN_S if is_drained else 0)
        if self._trace is not None:
            await asyncio.to_thread(self._trace.stop)

    async def _serve(self, service: Service) -> tuple[grpc.aio.Server, int]:
        address = self._options.grpc_server_addr
        try:
            return await serve(service, address, self._credentials)
        except OSError as error:
            raise Minip4Error(f"--grpc-server-addr {address}: {error}") from error

    @property
    def dataplane(self) -> Dataplane:
        """The running engine."""
        return self._engine

    def wake(self) -> None:
        """Tell the driver that work may be due earlier than the driver expects."""
        self._driver.wake()

    def _controller_port(self) -> int | None:
        """Return the port of packet-in and packet-out, or None.

        In TNA, the CPU port may have an interface. Then frames to this port leave through it.
        """
        port = self._options.cpu_port
        if port is None or port not in [each.port for each in self._options.interfaces]:
            return port
        if self._engine.program.architecture != "tna":
            raise Minip4Error(f"port {port} cannot be both the CPU port and bound to an interface")
        return None

    def _make_engine(self, program: dict[str, Any]) -> Engine:
        options = self._options
        engine = Engine(
            program, seed=options.seed, sanitize=options.sanitize, trace=options.trace is not None
        )
        engine.set_clock(options.clock_offset_us, options.clock_drift_ppb, self._began_ns)
        return engine

    def _port_changed(self, port: int, is_up: bool) -> None:
        self._engine.set_port(port, is_up)
        self._device.set_port(port, is_up)

    def _install(self, engine: Engine) -> None:
        old = self._engine
        self._settings.reapply(engine, old)
        self._driver.swap(engine)  # all ports of a new engine are up
        self._engine = engine
        for port in self._interfaces.down:
            engine.set_port(port, False)
        if self._trace is not None:
            self._trace.swap(engine)
        self._retired.append(self._engine_part(old))
        old.close()

    def _engine_part(self, engine: Engine) -> dict[str, Any]:
        ports = [interface.port for interface in self._options.interfaces]
        return counters(engine, ports, self._settings.priority_queues)

    def _write_counters(self) -> str | None:
        """Write the counters; return the error, or None."""
        text, path = json.dumps(self.counters()), self._options.counters
        if path is None:
            print(text, file=self._output, flush=True)
            return None
        try:
            path.write_text(text + "\n")
        except OSError as error:
            return f"--counters {path}: {error.strerror}"
        return None

    def counters(self) -> dict[str, Any]:
        """Return the counters since the start, over all pipelines of the process."""
        part = self._engine_part(self._engine)
        for earlier in self._retired:
            part = total(part, earlier)
        driver: dict[str, Any] = dict(self._driver.counters())
        nics = driver.pop("ports")
        ports = {}
        for interface in self._options.interfaces:
            nic = dict(nics[interface.port])
            port = str(interface.port)
            count = part["ports"][port]
            drops = {
                **count["drops"],
                "link": count["link"]["lost_packets"],
                "too_long": nic["receive_too_long"],
                "receive_memory": nic["receive_memory_drops"],
                "kernel_receive": nic["receive_kernel_drops"],
                "kernel_send": nic["transmit_kernel_drops"] + nic["transmit_errors"],
            }
            ports[port] = {
                "interface": nic.pop("interface"),
                **count,
                "drops": drops,
                "kernel": {
                    "receive_drops": nic["receive_kernel_drops"],
                    "send_errors": nic["transmit_kernel_drops"] + nic["transmit_errors"],
                },
                "socket": nic,
            }
        return {
            "device_id": self._options.device_id,
            "engine": part["engine"],
            "ports": ports,
            "other_ports": part["other_ports"],
            "driver": driver,
            "control_plane": control_plane(self._engine),
            "capture_error": self._driver.capture_error,  # why the captures are incomplete, or None
            "cpu": self._messages.counters(),
        }

    def _description(self, port: int) -> str:
        options = self._options
        ports = " ".join(f"{i.port}@{i.name}" for i in options.interfaces) or "none"
        host = options.grpc_server_addr.rpartition(":")[0]
        return f"device {options.device_id}, {host}:{port}, ports {ports}"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Minip4Error(f"{path}: {error.strerror}") from error


def _parse(path: Path, blob: bytes) -> dict[str, Any]:
    try:
        program = json.loads(blob)
    except (ValueError, RecursionError) as error:
        raise Minip4Error(f"{path}: expected BMv2 JSON: {error}") from error
    if not isinstance(program, dict):
        raise Minip4Error(f"{path}: expected BMv2 JSON, whose root is an object")
    return program


def _read_p4info(path: Path) -> p4i.P4Info:
    try:
        text = _read(path).decode()
        p4info: p4i.P4Info = text_format.Parse(text, p4i.P4Info())
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise Minip4Error(f"{path}: expected P4Info in protobuf's text format: {error}") from error
    return p4info


def _check_address(address: str) -> None:
    """Check that the server can bind to an address.

    gRPC's own error message has neither the address nor the reason.
    """
    host, _, port = address.rpartition(":")
    try:
        family, kind, _, _, target = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM
        )[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(target)
    except OSError as error:
        raise Minip4Error(f"--grpc-server-addr {address}: {error.strerror}") from error


def _credentials(options: SwitchOptions) -> grpc.ServerCredentials | None:
    if options.grpc_server_cert is None or options.grpc_server_key is None:
        return None
    return server_credentials(
        options.grpc_server_cert, options.grpc_server_key, options.grpc_server_cacert
    )


def preload_sanitizer() -> None:
    """Restart this process with libasan loaded first, because libasan replaces the allocator."""
    if "libasan" in os.environ.get("LD_PRELOAD", ""):
        return
    compiler = os.environ.get("CC", "cc")
    try:
        library = subprocess.run(
            [compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise ToolchainError(f"--sanitize: cannot run {compiler} to find libasan") from error
    if not Path(library).is_absolute():
        raise ToolchainError(f"--sanitize: {compiler} has no libasan")
    # LeakSanitizer would report only memory that Python never frees
    environment = {**os.environ, "LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0"}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
