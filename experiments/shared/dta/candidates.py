"""Candidates for the CPU time per report: a DTA collector, and CPU collectors.

A report has a key of 128 bits and 32 bits of data. CPU collectors receive the Key-Write reports
directly. The DTA collector receives the RDMA writes of the translator for each primitive. The DTA
collector uses the RoCE responder instead of a NIC. So its CPU time is for work that a NIC would do
without the CPU.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from collectors.dta.append import batch, tail
from collectors.dta.hashes import HOPS, Words, hop_checksums, slots, value_codes
from collectors.dta.key_write import Store, slot
from collectors.dta.packets import PORT, KeyWrite
from collectors.dta.postcarding import CHUNK
from experiments.shared.dta.reports import filled
from experiments.shared.roce.interleaved_rounds import NAP_US, Kind
from experiments.shared.roce.offered import UNUSED_MAC, Datagrams, Writes

SLOTS, BATCH = 1 << 16, 16
COUNT = 1 << 14  # number of different reports; they are sent repeatedly
SEED = 20_241_123
PAYLOAD_AT = 42  # offset of a report after Ethernet, IPv4 and UDP


def keys_and_data(count: int) -> tuple[Words, NDArray[np.uint32]]:
    """Return random keys (n, 4), each with its own slot, and data (n,)."""
    rng = np.random.default_rng(SEED)
    keys = rng.integers(1 << 32, size=(2 * count, 4), dtype=np.uint32)
    _, first = np.unique(slots(keys, 1, SLOTS)[0], return_index=True)
    chosen = np.sort(first)[:count]
    return keys[chosen], rng.integers(1 << 32, size=count, dtype=np.uint32)


def key_writes(keys: Words, data: NDArray[np.uint32]) -> Writes:
    """Return the writes of Key-Write with one copy."""
    records = np.zeros(SLOTS, slot(1))
    Store(records).write(keys, data[:, np.newaxis], 1)
    return Writes("key_write", records, slots(keys, 1, SLOTS)[0])


def batches(data: NDArray[np.uint32]) -> Writes:
    """Return the writes of Append for batches of one list."""
    records = np.zeros(len(data) // BATCH, batch(BATCH))
    records["entries"] = data.reshape(-1, BATCH)
    records["tail"] = [tail(BATCH, 1 + number) for number in range(len(records))]
    return Writes("append", records, np.arange(len(records)), BATCH)


def paths(keys: Words, data: NDArray[np.uint32]) -> Writes:
    """Return the writes of Postcarding. Five reports form one path, with the key of the first."""
    count = len(data) // HOPS
    own = keys[:count]
    codes = value_codes(data[: count * HOPS]).reshape(count, HOPS)
    records, places = np.zeros(SLOTS, CHUNK), slots(own, 1, SLOTS)[0]
    records["hops"][places] = codes ^ hop_checksums(own).T
    return Writes("postcarding", records, places, HOPS)


def datagrams(keys: Words, data: NDArray[np.uint32]) -> Datagrams:
    """Return the Key-Write reports."""
    frames = filled(KeyWrite(data=[0]), [*keys.T, data])
    return Datagrams("reports", [each[PAYLOAD_AT:] for each in frames], PORT)


def kinds() -> tuple[Kind, Sequence[Kind], Sequence[Kind]]:
    """Return the baseline that receives no frames, the DTA collectors, and the CPU collectors."""
    keys, data = keys_and_data(COUNT)
    own = key_writes(keys, data)
    by_dta = [
        Kind("DTA: Key-Write", own, python="roce"),
        Kind(f"DTA: Append, {BATCH} in a batch", batches(data), python="roce"),
        Kind(f"DTA: Postcarding, {HOPS} hops", paths(keys, data), python="roce"),
    ]
    sent = datagrams(keys, data)
    by_cpu = [
        Kind(f"{what}, {where}", sent, mode, keeps, NAP_US)
        for mode, where in (("udp", "UDP"), ("packet", "packet socket"))
        for keeps, what in (("values", "hash insert"), ("log", "log and index"))
    ]
    return Kind("baseline", own, mac=UNUSED_MAC), by_dta, by_cpu
