"""Region: memory to which peers write. The memory may be that of a file.

`record` is the dtype of a peer's write. `records` is a numpy view of the memory. A record may be
half written until its write is acknowledged, or until a completion reports the write.
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
"""Record (44 bytes) of a TCP packet in network byte order; IPv4 addresses are ::ffff:a.b.c.d.

From Beltman, Knossen, "Collecting telemetry data using P4 and RDMA" (2020).
"""

HOP = np.dtype([
    ("node", ">u4"), ("ingress_port", ">u2"), ("egress_port", ">u2"), ("latency_us", ">u4"),
    ("queue", "u1"), ("waiting", ">u1", 3), ("ingress_us", ">u8"), ("egress_us", ">u8"),
])  # fmt: skip
"""Record (32 bytes) of a packet at a switch, hop_record_t of p4src/roce/records.p4."""

ABSENT = 0xFFFFFFFF
"""Node id of an absent hop; all other bits of the hop are ones, too."""

PATH = np.dtype([
    ("flow", TCP), ("sink", HOP), ("hops", "u1"), ("flags", "u1"), ("reserved", "V2"),
    ("stack", HOP, 5),
])  # fmt: skip
"""Record (240 bytes) of a packet's path: the sink, and the newest entries of the INT-MD stack,
newest first.

`hops` is the number of hops on the stack, including hops for which `stack` has no room. Bits of
`flags`: 0x01 M and 0x02 E of INT's header (hops are missing), 0x04 the sink's queue reached the
congestion threshold. path_record_t of p4src/roce/paths.p4.
"""


# regions of this process that have claimed a file
_claimed: "weakref.WeakSet[Region]" = weakref.WeakSet()


class Region:
    """Memory region of `count` records. They are initially zero.

    If a file of this length exists, its content is kept.
    """

    def __init__(self, record: np.dtype[Any], count: int, path: Path | None = None) -> None:
        """Raises TestbedError if there is not enough space, or if the file has another length."""
        self.record, self.count, self.path = record, count, path
        self.length = record.itemsize * count  # bytes
        if self.length <= 0:
            raise TestbedError(
                f"a region of {count} records of {record.itemsize} bytes: expected "
                f"at least one record"
            )
        try:
            self._memory = mmap.mmap(-1, self.length) if path is None else self._map_file(path)
        except OSError as error:
            raise TestbedError(
                f"region {path or 'in memory'} of {self.length} bytes: {error.strerror}"
            ) from error
        self._claim: weakref.finalize[..., Any] | None = None
        self.bytes: NDArray[np.uint8] = np.frombuffer(self._memory, np.uint8)
        self.records: NDArray[Any] = self.bytes.view(record)  # (count,)

    @property
    def address(self) -> int:
        """Address of the memory in this process. C uses it."""
        return int(self.bytes.ctypes.data)

    def claim(self) -> None:
        """Claim the file, so that no other collector uses it.

        Other processes may still read the file.

        The claim ends when this process ends. Forked workers do not inherit it. Raises TestbedError
        if another collector has claimed the file.
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
                "another collector uses it; stop that collector or use another file"
                if isinstance(error, BlockingIOError)
                else error.strerror
            )
            raise TestbedError(f"region {self.path}: {why}") from None

    def release(self) -> None:
        """Give up the claim of the file."""
        if self._claim is not None:
            self._claim()

    def sync(self) -> None:
        """Wait until the content of the file is on disk.

        Without this call, the content survives the end of this process, but not a crash of the
        machine. The kernel writes the content to disk after up to half a minute
        (vm.dirty_expire_centisecs).
        """
        self._memory.flush()

    def _map_file(self, path: Path) -> mmap.mmap:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            length = os.fstat(descriptor).st_size
            if length == 0:
                # reserve space now: if the disk became full later, the kernel would kill the
                # process
                os.posix_fallocate(descriptor, 0, self.length)
            elif length != self.length:
                raise TestbedError(
                    f"{path}: has {length} bytes, but the region has {self.length}; use that "
                    f"length or another file"
                )
            return mmap.mmap(descriptor, self.length)
        finally:
            os.close(descriptor)


def _drop_claims_after_fork() -> None:
    for region in [*_claimed]:
        region.release()


os.register_at_fork(after_in_child=_drop_claims_after_fork)
