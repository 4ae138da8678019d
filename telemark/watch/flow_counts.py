"""Current counts of flows in real time, in a file that the processes of a run map to memory.

Each flow id has a pair of unsigned 64-bit numbers: what the flow has sent, and what it has
received. The programs of telemark/backends/real/c write them. The server process of the page reads
them, so the process of the run has no additional work.
"""

import mmap
import struct
import tempfile
from typing import IO

PAIR = struct.Struct("=QQ")
SENT, RECEIVED = 0, 1  # indices in the pair
BYTES = PAIR.size << 16  # one pair per flow id; the kernel allocates only pages that are written


def create() -> IO[bytes]:
    """Return a new file without a name."""
    file = tempfile.TemporaryFile()  # noqa: SIM115  the caller closes it
    file.truncate(BYTES)
    return file


class FlowCountReader:
    """Reads the counts in the file of a descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, BYTES, prot=mmap.PROT_READ)

    def read(self, flow: int) -> tuple[int, int]:
        """Return how much a flow has sent and received: packets of UDP, or bytes of TCP."""
        sent, received = PAIR.unpack_from(self._memory, PAIR.size * flow)
        return sent, received
