"""An engine: one compiled P4 program from BMv2 JSON, with its control plane in Python."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from minip4.engine.codegen.generator import Generator
from minip4.engine.control.ports import PortControl
from minip4.engine.control.profiles import ProfileControl
from minip4.engine.control.state import StateControl
from minip4.engine.control.tables import TableControl
from minip4.engine.errors import EngineError, InvalidArgument
from minip4.engine.library import load
from minip4.engine.reader.program import only_good_json, read_program
from minip4.engine.shared import MAX_PORTS
from minip4.engine.tna.generator import RECIRCULATION_PORTS, TnaGenerator
from minip4.wire.shared import FRAME_ROOM

GENERATORS: dict[str, type[Generator]] = {"v1model": Generator, "tna": TnaGenerator}
MAX_INSTANTS = 10_000
"""Limit of time steps after which process() stops waiting for packets to leave."""
MAX_TRACED_INSTANTS = 200  # limit with trace, since each step takes longer


class Engine(TableControl, ProfileControl, StateControl, PortControl):
    """A switch as a state machine: it has no clock and does no I/O (see engine.h).

    `bmv2_json` is the parsed JSON; `seed` is the seed of random(). With `sanitize`, the C code is
    compiled with AddressSanitizer and UBSan. With `trace`, it records each packet (see Trace).
    Raises NotSupported (missing feature), TooLarge (see limits.py), InvalidArgument (invalid BMv2
    JSON) and ToolchainError.
    """

    def __init__(
        self, bmv2_json: dict[str, Any], *, seed: int = 0, sanitize: bool = False,
        trace: bool = False,
    ) -> None:  # fmt: skip
        program = read_program(bmv2_json)
        with only_good_json():
            generator = GENERATORS[program.architecture](program, trace=trace)
        library = load(
            generator.text, architecture=program.architecture, is_large=generator.is_large,
            sanitize=sanitize, trace=trace,
        )  # fmt: skip
        self._create(generator, library, seed, sanitize)

    def another(self, seed: int = 0) -> Engine:
        """Return another engine of the same program, with its own tables and state."""
        made = Engine.__new__(Engine)
        made._create(self.generator, self.library, seed, self.sanitize)
        return made

    def _create(
        self, generator: Generator, library: ctypes.CDLL, seed: int, sanitize: bool
    ) -> None:
        super().__init__()
        self.sanitize = sanitize
        self.program = generator.program
        self.generator = generator
        self.library = library
        created = self.library.engine_create(None, seed % 2**64)
        if not created:
            raise EngineError("out of memory for the tables and registers of the program")
        self.handle = ctypes.c_void_p(created)
        self._is_open = False
        self._frame = (ctypes.c_uint8 * FRAME_ROOM)()
        self._initialize()

    def _initialize(self) -> None:
        """Add the state that the program declares."""
        if self.program.architecture == "tna":
            for port in RECIRCULATION_PORTS:  # they need no interface
                self.library.engine_set_port(self.handle, port, True)
        self._add_const_entries()
        for register in self.program.registers.values():
            if register.initial and register.table is None:
                self.register_write(register.name, 0, register.initial, count=register.size)

    def close(self) -> None:
        """Free the C engine; its driver must be stopped before."""
        if self.handle:
            self.library.engine_destroy(self.handle)
            self.handle = ctypes.c_void_p()
            del self.library  # its memory is freed when the last reference is deleted

    def process(self, port: int, frame: bytes, time_ns: int) -> list[tuple[int, bytes]]:
        """Receive one frame. Return the (port, frame) pairs that leave until no work is due.

        This method is for tests without a driver. All ports are up, and time advances from
        `time_ns` as queues and links require.
        """
        self._open()
        data = (ctypes.c_uint8 * len(frame)).from_buffer_copy(frame) if frame else self._frame
        with self.locked():
            if not self.library.engine_inject(self.handle, port, data, len(frame), time_ns):
                raise InvalidArgument(f"a frame of {len(frame)} bytes is too long")
            due = time_ns
            for _ in range(MAX_TRACED_INSTANTS if self.generator.trace else MAX_INSTANTS):
                due = self.library.engine_advance(self.handle, due)
                if due == 2**64 - 1:
                    return self._taken()
        raise EngineError(f"packets circulate in the switch without end (start: {time_ns} ns)")

    def _taken(self) -> list[tuple[int, bytes]]:
        taken: list[tuple[int, bytes]] = []
        port = ctypes.c_uint16()
        while True:
            length = self.library.engine_take(
                self.handle, ctypes.byref(port), self._frame, FRAME_ROOM
            )
            if length < 0:
                return taken
            taken.append((port.value, bytes(self._frame[:length])))

    def repeat(self, port: int, frames: Sequence[bytes], rounds: int, time_ns: int) -> None:
        """For benchmarks: process frames of equal length `rounds` times in the pipeline."""
        self._open()
        if not frames or any(len(f) != len(frames[0]) for f in frames):
            raise InvalidArgument("repeat() needs at least one frame, all of the same length")
        joined = b"".join(frames)
        data = (ctypes.c_uint8 * len(joined)).from_buffer_copy(joined)
        with self.locked():
            self.library.engine_repeat(
                self.handle, port, data, len(frames[0]), len(frames), rounds, time_ns
            )
            self._is_open = False  # a driver may still have a handle of this engine

    def _open(self) -> None:
        if self._is_open:
            return
        self._is_open = True
        with self.locked():
            self.library.engine_collect(self.handle, MAX_PORTS - 1)
