"""The real-time driver: C threads move frames between interfaces and engines."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Protocol

from minip4.errors import Minip4Error
from minip4.native import build
from minip4.native.library import Signatures, declare
from minip4.ports import WORKER
from minip4.ports.shared import NO_CPU_PORT, NicCounters, PortsCounters
from minip4.wire.shared import FRAME_ROOM, SNAPLEN

ERROR_ROOM = 1024
# Kernel memory for received frames. A ring of 4 MiB has room for 16,384 frames: 160 ms of traffic
# at 100,000 frames/s. More than 64 interfaces share 256 MiB, but each ring has the minimum size of
# 1,024 frames. Interfaces with memory links do not count; their rings have the minimum size.
MAX_RING_BYTES, ALL_RINGS_BYTES, MIN_RING_BYTES = 1 << 22, 1 << 28, 1 << 18


class DriverError(Minip4Error):
    """An error for an interface or a capture file that cannot be used."""


class EngineHandle(Protocol):
    """The parts of an engine that the driver needs: its shared object and its C engine."""

    library: ctypes.CDLL
    handle: ctypes.c_void_p


class Workers:
    """Threads that drive the engines of this process (worker.h), at most one per CPU.

    `interfaces` of all drivers receive frames from the kernel, and share the memory for them. The
    other interfaces have memory links. All drivers must be stopped before close().
    """

    def __init__(self, count: int = 1, *, interfaces: int = 1) -> None:
        share = ALL_RINGS_BYTES // max(interfaces, 1)
        self.ring_bytes = min(max(share, MIN_RING_BYTES), MAX_RING_BYTES)
        # not part of an engine's shared object, because that is unmapped with its program
        with build.shared_object([WORKER]) as path:
            self._object = ctypes.CDLL(str(path), ctypes.RTLD_LOCAL)
        self._library = SimpleNamespace()
        declare(self._library, self._object, _WORKER_SIGNATURES, errno=True)
        if not (handle := self._library.workers_create(count)):
            raise DriverError(f"cannot start {count} threads: {_reason()}")
        self.handle = ctypes.c_void_p(handle)
        self._links: dict[str, ctypes.c_void_p] = {}
        self._lock = threading.Lock()

    def report_crashes(self) -> None:
        """If the process crashes in the code of a switch, write its device ID to stderr."""
        self._library.workers_report_crashes(self.handle)

    def memory_link(self, name: str) -> ctypes.c_void_p:
        """Return the memory link with this name; it is created if necessary."""
        with self._lock:
            if name not in self._links:
                if not (link := self._library.memory_link_create()):
                    raise DriverError(f"memory link {name}: {_reason()}")
                self._links[name] = ctypes.c_void_p(link)
            return self._links[name]

    def close(self) -> None:
        """End the threads."""
        self._library.workers_destroy(self.handle)
        for link in self._links.values():
            self._library.memory_link_destroy(link)


class Driver:
    """Drives an engine from start() to stop(), with `ports` as {port number: interface}.

    The driver uses `workers`; without them, it has its own thread. `memory_links` maps a port to a
    memory link (memory_link.h): the name of the link, and the end (0 or 1) that is at this port.
    The other end must be at a switch of the same workers. Frames between the two switches then
    bypass the interface.

    cpu_receive() returns the frames that the engine sends to `cpu_port`; cpu_send() sends frames
    there. Captures are written to `capture_folder`/<interface>_{in,out}.pcap and
    `loss_folder`/<interface>_lost.pcap, with at most `snaplen` bytes per frame. Captures of
    processing times (ports.h) have at most 128 bytes per frame, in
    `stamp_folder`/<interface>_{taken,sending,sent}.pcap. Messages are written to the descriptor
    `log_fd`, or to stderr if it is -1. Raises DriverError if an interface or a capture file cannot
    be opened.
    """

    def __init__(
        self,
        engine: EngineHandle,
        ports: Mapping[int, str],
        *,
        workers: Workers | None = None,
        memory_links: Mapping[int, tuple[str, int]] | None = None,
        cpu_port: int | None = None,
        capture_folder: Path | None = None,
        loss_folder: Path | None = None,
        stamp_folder: Path | None = None,
        snaplen: int = SNAPLEN,
        device_id: int = 0,
        log_fd: int = -1,
    ) -> None:
        self.interfaces = dict(ports)
        self.capture_error: str | None = None
        self._cpu_port = cpu_port
        self._device_id = device_id
        self._log_fd = log_fd
        self._final: dict[str, object] | None = None
        self._room = ctypes.create_string_buffer(FRAME_ROOM)
        self._is_running = False
        self._lock = threading.Lock()  # stop() must not free the driver while counters() reads it
        # not unloaded, because the thread that writes captures runs code of this library
        self._first_library = engine.library
        self._has_own_workers = workers is None
        self._workers = workers or Workers(interfaces=len(ports))
        self._library: SimpleNamespace
        self._engine: tuple[EngineHandle, ctypes.CDLL]
        self._handle: ctypes.c_void_p | None = self._create(engine)
        try:
            for number, interface in ports.items():
                link, end, ring_bytes = None, 0, self._workers.ring_bytes
                if memory_links and number in memory_links:
                    name, end = memory_links[number]
                    link, ring_bytes = self._workers.memory_link(name), MIN_RING_BYTES
                if self._library.ports_add(
                    self._handle, number, interface.encode(), ring_bytes, link, end
                ):
                    raise DriverError(f"port {number}@{interface}: {_reason()}")
            for folder, capture, limit in (
                (capture_folder, self._library.ports_capture, (snaplen,)),
                (loss_folder, self._library.ports_capture_lost, (snaplen,)),
                (stamp_folder, self._library.ports_capture_handling, ()),
            ):
                if folder is not None and capture(self._handle, os.fsencode(folder), *limit):
                    raise DriverError(f"cannot create a capture in {folder}: {_reason()}")
        except DriverError:
            self._destroy()
            raise

    def start(self) -> None:
        """Start to move frames."""
        self._library.ports_start(self._handle, self._workers.handle)
        self._is_running = True

    def stop(self, drain_s: float = 1.0) -> None:
        """Stop when rings, queues and links are empty, but at the latest after `drain_s` seconds.

        Closes sockets and captures. Afterwards, the engine has no driver. If captures lack frames,
        `capture_error` says why. To close a socket, the kernel may need a tenth of a second.
        Therefore another thread may call this method.
        """
        if self._is_running:
            self._is_running = False
            self._library.ports_stop(self._handle, int(drain_s * 1e9))
        with self._lock:
            self._final = self._read_counters()
        self._destroy()

    def swap(self, engine: EngineHandle) -> None:
        """Drive another engine.

        Frames that arrive during the swap wait in the rings and are not lost. Frames in the queues
        and links of the old engine are lost. Raises DriverError; the old engine then continues.
        """
        old_library, old, old_engine = self._library, self._handle, self._engine
        try:
            self._handle = self._create(engine)
        except DriverError:
            self._library, self._engine = old_library, old_engine
            raise
        old_library.ports_stop(old, 0)
        self._library.ports_adopt(self._handle, old)
        old_library.ports_destroy(old, None, 0)
        del old_engine  # no thread runs its code any more
        self.start()

    def wake(self) -> None:
        """Make the thread check immediately which work is due, after a change of settings."""
        if self._is_running:
            self._library.ports_wake(self._handle)

    def reopen(self, port: int) -> None:
        """Open a new interface with the name of the port's deleted interface."""
        if self._is_running:
            self._library.ports_reopen(self._handle, port)

    def set_train_mtu(self, port: int, mtu_bytes: int) -> None:
        """Set the MTU of an interface that has changed, or 0 if it has checksum offload.

        Frames of a train (train.h) are not longer than the MTU.
        """
        if self._is_running:
            self._library.ports_set_train_mtu(self._handle, port, mtu_bytes)

    def counters(self) -> dict[str, object]:
        """Return the counters since the start for JSON; after stop() they are final.

        {"cpu_ns", "to_cpu_drops", "from_cpu_drops", "unread", "ports": {number: {"interface", and
        the fields of struct nic_counters}}}
        """
        with self._lock:
            return self._final or self._read_counters()

    def _read_counters(self) -> dict[str, object]:
        counters = PortsCounters()
        self._library.ports_counters(self._handle, ctypes.byref(counters))
        ports = {}
        for number, interface in self.interfaces.items():
            nic = NicCounters()
            self._library.ports_port_counters(self._handle, number, ctypes.byref(nic))
            ports[number] = {"interface": interface, **_fields(nic)}
        return {**_fields(counters), "ports": ports}

    @property
    def cpu_fd(self) -> int:
        """Return a descriptor that is readable if frames for the controller are queued."""
        return int(self._library.ports_cpu_fd(self._handle))

    def cpu_receive(self) -> list[bytes]:
        """Return the queued frames for the controller."""
        self._library.ports_cpu_acknowledge(self._handle)
        frames = []
        while length := self._library.ports_cpu_read(self._handle, self._room):
            frames.append(self._room.raw[:length])
        return frames

    def cpu_send(self, frame: bytes) -> bool:
        """Send a frame to the CPU port.

        Returns False if it is too long or the queue is full.
        """
        return self._is_running and (
            self._library.ports_cpu_write(self._handle, frame, len(frame)) == 0
        )

    def _create(self, engine: EngineHandle) -> ctypes.c_void_p:
        self._library = _declared(engine.library)
        # prevents garbage collection while the driver uses them
        self._engine = engine, engine.library
        cpu_port = NO_CPU_PORT if self._cpu_port is None else self._cpu_port
        handle = self._library.ports_create(engine.handle, cpu_port, self._device_id, self._log_fd)
        if not handle:
            raise DriverError(f"cannot create the driver: {_reason()}")
        return ctypes.c_void_p(handle)

    def _destroy(self) -> None:
        error = ctypes.create_string_buffer(ERROR_ROOM)
        if self._library.ports_destroy(self._handle, error, ERROR_ROOM):
            self.capture_error = os.fsdecode(error.value)
        self._handle = None
        if self._has_own_workers:
            self._workers.close()


def _fields(structure: ctypes.Structure) -> dict[str, int]:
    return {field[0]: getattr(structure, field[0]) for field in structure._fields_}


def _reason() -> str:
    return os.strerror(ctypes.get_errno())


def _declared(engine_library: ctypes.CDLL) -> SimpleNamespace:
    """Return the functions of ports.h in the engine's shared object. These functions set errno."""
    library = SimpleNamespace()
    declare(library, engine_library, _SIGNATURES, errno=True)
    return library


_handle, _number, _text = ctypes.c_void_p, ctypes.c_uint16, ctypes.c_char_p
_SIGNATURES: Signatures = {
    "ports_create": (_handle, [_handle, _number, ctypes.c_uint64, ctypes.c_int]),
    "ports_add": (
        ctypes.c_int,
        [_handle, _number, _text, ctypes.c_uint, _handle, ctypes.c_uint],
    ),
    "ports_capture": (ctypes.c_int, [_handle, _text, ctypes.c_uint32]),
    "ports_capture_lost": (ctypes.c_int, [_handle, _text, ctypes.c_uint32]),
    "ports_capture_handling": (ctypes.c_int, [_handle, _text]),
    "ports_start": (None, [_handle, _handle]),
    "ports_stop": (None, [_handle, ctypes.c_uint64]),
    "ports_wake": (None, [_handle]),
    "ports_reopen": (ctypes.c_int, [_handle, _number]),
    "ports_set_train_mtu": (ctypes.c_int, [_handle, _number, ctypes.c_uint]),
    "ports_destroy": (ctypes.c_int, [_handle, _text, ctypes.c_size_t]),
    "ports_adopt": (None, [_handle, _handle]),
    "ports_counters": (None, [_handle, ctypes.POINTER(PortsCounters)]),
    "ports_port_counters": (ctypes.c_int, [_handle, _number, ctypes.POINTER(NicCounters)]),
    "ports_cpu_fd": (ctypes.c_int, [_handle]),
    "ports_cpu_acknowledge": (None, [_handle]),
    "ports_cpu_read": (ctypes.c_uint32, [_handle, _text]),
    "ports_cpu_write": (ctypes.c_int, [_handle, _text, ctypes.c_uint32]),
}
_WORKER_SIGNATURES: Signatures = {
    "workers_create": (_handle, [ctypes.c_uint]),
    "workers_destroy": (None, [_handle]),
    "workers_report_crashes": (None, [_handle]),
    "memory_link_create": (_handle, []),
    "memory_link_destroy": (None, [_handle]),
}
