"""Runs programs on given packets, by BPF_PROG_TEST_RUN. No sender is needed.

With live frames, the verdicts of the program take effect.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ebpf.loader import chain
from ebpf.loader.errors import LoadError, explain_errno
from ebpf.loader.hooks import MODES, XDP_HOOK
from ebpf.loader.kernel import create_link
from ebpf.loader.libbpf import TestRun, library
from ebpf.loader.objects import XDP, Program, load

TABLE = Path(__file__).parent / "table.bpf.c"
WORD_BYTES, MOST_WORDS = 8, 16  # as in table.bpf.c
LIVE_FRAMES = 2  # BPF_F_TEST_XDP_LIVE_FRAMES: the verdicts take effect
LARGEST_BATCH = 256
LONGEST_FRAME = 3520  # number of bytes of a page that a frame may use


@dataclass(frozen=True)
class Tried:
    """Verdict and frame after a program ran on a packet, or on the last of several packets."""

    verdict: int
    frame: bytes
    ns_per_packet: int  # mean over the packets, as measured by the kernel


@dataclass(frozen=True)
class Sent:
    """Result of running a program on live frames."""

    packets: int
    wall_ns: int
    cpu_ns: int  # CPU time of this thread, including time in the kernel

    @property
    def ns_per_packet(self) -> float:
        """Return the wall time per packet.

        Wall time is meaningful only if no other process uses the core.
        """
        return self.wall_ns / self.packets


def run(
    program: Program,
    frames: bytes | Sequence[bytes],
    repeat: int = 1,
    *,
    ingress: str | None = None,
) -> Tried:
    """Run a program `repeat` times.

    With one frame, all runs process this frame. With several frames, each run processes the next
    one (see live).

    The verdict is returned, but has no effect. An XDP program gets packets from the device
    `ingress`; by default, from the loopback device. Raises LoadError.
    """
    one, many = _split(frames)
    with _with_table(program, many) as ready:
        room = ctypes.create_string_buffer(len(one) + 512)
        options = TestRun(data_in=_address(one), data_size_in=len(one), repeat=repeat,
                          data_out=ctypes.addressof(room), data_size_out=len(room))  # fmt: skip
        if ingress is not None:
            context = _context(one, ingress)
            options.context_in, options.context_size_in = _address(context), len(context)
        _test_run(ready, options)
    return Tried(options.verdict, room.raw[: options.data_size_out], options.duration)


def run_live(
    program: Program, frames: bytes | Sequence[bytes], count: int, *, ingress: str,
    batch: int = 64, restored: int = 0,
) -> Sent:  # fmt: skip
    """Inject `count` packets; see live()."""
    with live(program, frames, ingress=ingress, batch=batch, restored=restored) as arrive:
        return arrive(count)


@contextmanager
def live(
    program: Program, frames: bytes | Sequence[bytes], *, ingress: str, batch: int = 64,
    restored: int = 0, queue: int = 0, held_at: str | None = None,
) -> Iterator[Callable[[int], Sent]]:  # fmt: skip
    """Return a function that injects packets at the device `ingress`, for an XDP program.

    The given program runs instead of the device's own program, and its verdict takes effect.
    Packets that it passes go to the kernel's stack, as packets of this device and of its receive
    queue. The device needs an XDP program, or GRO.

    If there are several frames, they must have equal lengths, and each packet is the next frame.
    Another program runs before the given one. It writes the bytes in which the frames differ. It
    also writes at least the first `restored` bytes, because the given program may modify them.

    If the program is not attached, the kernel must register it in each run, which takes about 20
    ms. To avoid this time, the program is attached to `held_at`, which is a device without a
    program. Raises LoadError.
    """
    one, many = _split(frames)
    if not 0 < batch <= LARGEST_BATCH:
        raise LoadError(f"batch of {batch} frames; expected 1 to {LARGEST_BATCH}")
    context = _context(one, ingress, queue)
    with (
        _with_table(program, many or ([one] if restored else []), restored) as ready,
        _held(ready, held_at) if held_at else nullcontext(),
    ):

        def arrive(count: int) -> Sent:
            options = TestRun(data_in=_address(one), data_size_in=len(one), repeat=count,
                              context_in=_address(context), context_size_in=len(context),
                              flags=LIVE_FRAMES, batch_size=batch)  # fmt: skip
            wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
            _test_run(ready, options)
            cpu_ns, wall_ns = time.thread_time_ns() - cpu, time.perf_counter_ns() - wall
            return Sent(count, wall_ns, cpu_ns)

        yield arrive


@contextmanager
def _held(program: Program, device: str) -> Iterator[None]:
    """Keep a program in the list of programs that the kernel calls directly (see live())."""
    index = _index(device)
    try:
        link = create_link(program.fd, index, XDP_HOOK, MODES["native"])
    except OSError as error:
        raise LoadError(f"interface {device}: {explain_errno(error.errno or 0)}") from None
    try:
        yield
    finally:
        os.close(link)


def _context(frame: bytes, ingress: str, queue: int = 0) -> bytes:
    """Return the `struct xdp_md` for a frame that arrives at a device."""
    return struct.pack("=6I", 0, len(frame), 0, _index(ingress), queue, 0)


def _index(device: str) -> int:
    try:
        return socket.if_nametoindex(device)
    except OSError:
        raise LoadError(f"no interface {device} in this network namespace") from None


def _test_run(program: Program, options: TestRun) -> None:
    if library().bpf_prog_test_run_opts(program.fd, ctypes.byref(options)) < 0:
        why = explain_errno(ctypes.get_errno())
        raise LoadError(f"program {program.name} cannot be run with a packet: {why}")


def _split(frames: bytes | Sequence[bytes]) -> tuple[bytes, Sequence[bytes]]:
    """Return the first frame, and the list of all frames. The list of a single frame is empty."""
    many = [] if isinstance(frames, bytes) else frames
    one = frames if isinstance(frames, bytes) else next(iter(frames), b"")
    lengths = {len(one), *map(len, many)}
    if len(lengths) > 1 or not 14 <= len(one) <= LONGEST_FRAME:
        raise LoadError(
            f"frames of {min(lengths)} to {max(lengths)} bytes: expected one length for all, from "
            f"14 to {LONGEST_FRAME}"
        )
    return one, many if len(many) > 1 else []


@contextmanager
def _with_table(program: Program, frames: Sequence[bytes], restored: int = 0) -> Iterator[Program]:
    """Yield the program that runs.

    If there are several frames, a program that writes them runs first.
    """
    if not frames:
        yield program
        return
    if program.kind != XDP:
        raise LoadError(f"program {program.name}: only XDP programs can have many frames")
    first, words = _part(frames, restored)
    rows = np.frombuffer(b"".join(frames), np.uint8).reshape(len(frames), -1)
    with load(TABLE, {"count": len(frames), "first_byte": first, "words": words},
              {"parts": len(frames)}) as whole:  # fmt: skip
        part = rows[:, first : first + words * WORD_BYTES]
        whole.maps["parts"].mapped()["words"][:, :words] = np.ascontiguousarray(part).view("u8")
        table = whole.programs["table"]
        chain.enter(table, program)
        try:
            yield table
        finally:
            chain.leave(table)


def _part(frames: Sequence[bytes], restored: int) -> tuple[int, int]:
    """Return which bytes to write: the index of the first byte, and the number of words."""
    rows = np.frombuffer(b"".join(frames), np.uint8).reshape(len(frames), -1)
    differing = np.flatnonzero((rows != rows[0]).any(axis=0))
    first = 0 if restored or not len(differing) else int(differing[0])
    end = max(restored, int(differing[-1]) + 1 if len(differing) else 0)
    words = -(-(end - first) // WORD_BYTES)
    length = rows.shape[1]
    if words > MOST_WORDS or words * WORD_BYTES > length:
        raise LoadError(
            f"frames differ in bytes {first} to {end}: expected at most {MOST_WORDS * WORD_BYTES} "
            f"bytes"
        )
    return min(first, length - words * WORD_BYTES), words


def _address(data: bytes) -> int:
    """Return the address of bytes. The caller must keep the bytes alive."""
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
