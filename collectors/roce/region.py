"""A region: memory that peers write to, which is a file where it has a path.

What lies in it is said in one place: `record`, the dtype of what a peer writes at a time. numpy
sees the same memory while peers write to it: what it reads may be half written, until the peer was
sent an acknowledgment, or a completion has told of it.
"""

import fcntl
import mmap
import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from telemark.errors import TestbedError

TCP = np.dtype([
    ("source", "V16"), ("destination", "V16"), ("source_port", ">u2"), ("destination_port", ">u2"),
    ("sequence", ">u4"), ("acknowledgment", ">u4"),
])  # fmt: skip
"""44 bytes of a TCP packet, in network byte order; IPv4 addresses as ::ffff:a.b.c.d.

From Beltman, Knossen, "Collecting telemetry data using P4 and RDMA" (2020).
"""

HOP = np.dtype([
    ("node", ">u4"), ("ingress_port", ">u2"), ("egress_port", ">u2"), ("latency_us", ">u4"),
    ("queue", "u1"), ("waiting", ">u1", 3), ("ingress_us", ">u8"), ("egress_us", ">u8"),
])  # fmt: skip
"""32 bytes of what a switch knows of a packet: hop_record_t of p4src/roce/records.p4."""

ABSENT = 0xFFFFFFFF
"""The node of a hop that was not there; all its other bits are ones, too."""

PATH = np.dtype([
    ("flow", TCP), ("sink", HOP), ("hops", "u1"), ("flags", "u1"), ("reserved", "V2"),
    ("stack", HOP, 5),
])  # fmt: skip
"""240 bytes of a packet's path: of its sink, and of the newest of the `hops` on its INT-MD stack,
the newest first.

Bits of `flags`: 0x01 M and 0x02 E of INT's header (hops are missing), 0x04 the sink's queue was as
full as is reported. path_record_t of p4src/roce/paths.p4.
"""


_claimed: "weakref.WeakSet[Region]" = weakref.WeakSet()  # by this process


class Region:
    """`count` records, zeros at first; those that a file of this length holds stay there."""

    def __init__(self, record: np.dtype[Any], count: int, path: Path | None = None) -> None:
        """Raises TestbedError where there is no room, or the file is another region's."""
        self.record, self.count, self.path = record, count, path
        self.length = record.itemsize * count  # bytes
        if self.length <= 0:
            raise TestbedError(f"a region of {count} records of {record.itemsize} bytes: none fits")
        try:
            self._memory = mmap.mmap(-1, self.length) if path is None else self._mapped(path)
        except OSError as error:
            raise TestbedError(
                f"region {path or 'in memory'} of {self.length} bytes: {error.strerror}"
            ) from error
        self._claim: weakref.finalize[..., Any] | None = None
        self.bytes: NDArray[np.uint8] = np.frombuffer(self._memory, np.uint8)
        self.records: NDArray[Any] = self.bytes.view(record)  # (count,)

    @property
    def address(self) -> int:
        """Where it lies in this process: for C."""
        return int(self.bytes.ctypes.data)

    def claim(self) -> None:
        """Have no other collector let peers write to the file; anybody may go on to read it.

        As long as this process has the region: workers that it forks do not keep it. Raises
        TestbedError where another one has it.
        """
        if self.path is None or (self._claim is not None and self._claim.alive):
            return
        descriptor = os.open(self.path, os.O_RDWR)
        self._claim = weakref.finalize(self, os.close, descriptor)
        _claimed.add(self)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.release()
            why = (
                "another collector lets peers write to it: end that one, or take another file"
                if isinstance(error, BlockingIOError)
                else error.strerror
            )
            raise TestbedError(f"region {self.path}: {why}") from None

    def release(self) -> None:
        """Let another collector claim it."""
        if self._claim is not None:
            self._claim()

    def sync(self) -> None:
        """Wait until the file is on its disk.

        Without it, what is there survives the end of this process, however it ends, but not that of
        the machine: the kernel writes it out within half a minute (vm.dirty_expire_centisecs).
        """
        self._memory.flush()

    def _mapped(self, path: Path) -> mmap.mmap:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            length = os.fstat(descriptor).st_size
            if length == 0:
                os.posix_fallocate(descriptor, 0, self.length)  # or a full disk ends the process
            elif length != self.length:
                raise TestbedError(
                    f"{path}: {length} bytes, and the region has {self.length}: "
                    "take the length that it was made with, or another file"
                )
            return mmap.mmap(descriptor, self.length)
        finally:
            os.close(descriptor)


def _leave_to_parent() -> None:
    for region in [*_claimed]:
        region.release()


os.register_at_fork(after_in_child=_leave_to_parent)
