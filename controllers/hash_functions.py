"""Random hash functions of p4src/include/hash_function.p4."""

import random
import struct
import zlib
from collections.abc import Sequence
from ipaddress import IPv4Address

import finsy as fy
import numpy as np
from numpy.typing import NDArray


class HashFunctions:
    """Pairwise independent hash functions. The `seed` determines them."""

    def __init__(self, count: int, seed: int) -> None:
        rng = random.Random(seed)
        self._parameters = [(rng.getrandbits(64), rng.getrandbits(64)) for _ in range(count)]

    def entries(self, instances: Sequence[str]) -> list[fy.P4TableEntry]:
        """Return the table entries that set the parameters of the functions.

        `instances` are the names of the instances of HashFunction in the P4 program, in the order
        of the functions, for example `row_0.hash_function`.
        """
        return [
            fy.P4TableEntry(
                f"{instance}.function",
                action=fy.Action(f"{instance}.choose", a=a, b=b),
                is_default_action=True,
            )
            for instance, (a, b) in zip(instances, self._parameters, strict=True)
        ]

    def positions(self, keys: NDArray[np.uint32], width: int) -> NDArray[np.int64]:
        """Return the position of each key in a table of `width` cells, for each function.

        The shape is (functions, keys).
        """
        wide, half = keys.astype(np.uint64), np.uint64(32)
        with np.errstate(over="ignore"):
            hashed = [np.uint64(a) * wide + np.uint64(b) for a, b in self._parameters]
        return np.array([(each >> half) * np.uint64(width) >> half for each in hashed], np.int64)


def flow_hash(
    src_addr: str, dst_addr: str, protocol: int, src_port: int, dst_port: int
) -> int:  # fmt: skip
    """Return the 32-bit key that FlowHash (hash_function.p4) computes for a flow."""
    addresses = (int(IPv4Address(address)) for address in (src_addr, dst_addr))
    return zlib.crc32(struct.pack("!IIBHH", *addresses, protocol, src_port, dst_port))
