"""Double buffers of eBPF programs (include/windows.h). They are read and cleared without loss."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebpf.loader import ProgramObject

POSSIBLE = Path("/sys/devices/system/cpu/possible")


class Buffers:
    """All maps that have two buffers per CPU.

    `maps` is a map from name to an array of shape (CPUs, 2, entries). `states[i]` is the state of
    the random generator of CPU i.
    """

    def __init__(self, loaded: ProgramObject, names: Mapping[str, int], seed: int) -> None:
        """Map the buffers.

        `names` contains the maps with buffers, and "rng_states". `seed` initializes the latter.
        """
        processors = possible_processors()
        self.maps: dict[str, NDArray[Any]] = {
            name: loaded.maps[name].mapped().reshape(processors, 2, -1)
            for name in names if name != "rng_states"
        }  # fmt: skip
        self.states: NDArray[np.uint64] = loaded.maps["rng_states"].mapped()
        self.states[:] = np.random.default_rng([seed, processors]).integers(
            1 << 63, size=processors
        )
        self._active = loaded.maps["active"]
        self._grace = loaded.maps["grace"]

    def flip(self) -> dict[str, NDArray[Any]]:
        """Return the data since the last call, and clear the buffers.

        The data are arrays of shape (CPUs, entries), by name of the map.

        The data include each packet since the last call exactly once. A call takes one grace period
        of the kernel, which is a few milliseconds.
        """
        number = self._active.mapped()
        old = int(number[0])
        number[0] = 1 - old
        # the assignment returns when no running program uses the old number any more
        self._grace[0] = self._active.fd
        kept = {name: each[:, old].copy() for name, each in self.maps.items()}
        for each in self.maps.values():
            each[:, old] = np.zeros((), each.dtype)
        return kept


def possible_processors() -> int:
    """Return the largest number that a CPU of this machine can have, plus one."""
    return int(POSSIBLE.read_text().replace("-", ",").split(",")[-1]) + 1
