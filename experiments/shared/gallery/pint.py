"""Model and decoder of PINT (p4src/gallery/pint.p4), and methods with which it is compared.

A path is an array of switch numbers.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import finsy as fy
import numpy as np
from numpy.typing import NDArray

DIGEST_AT, HEADER_BYTES = 16, 4  # offset of the digest in a frame; size of the PINT header
LAYER, SWITCH, LATENCIES = 0x100, 0x200, 7
HASH_BITS = 32
MARKED_RUNS = 100
MARKS = 8  # number of fragments of PPM, or of hash functions of AMS2


@dataclass(frozen=True)
class Query:
    """Configuration of a digest that contains hashes of the switches on the path."""

    bits: int
    instances: int = 1
    baseline: float = 0.5  # probability of the baseline layer
    xor: float = 0.1  # probability that a hop changes a digest of the XOR layer


class Hash:
    """Hash functions of all switches. The `seed` determines them."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self._a, self._b = (rng.getrandbits(64) | 1 for _ in range(2))

    def entry(self, number: int, query: Query) -> fy.P4TableEntry:
        """Return the entry that configures a switch with this number."""
        baseline, xor = (round(each * 2**HASH_BITS) for each in (query.baseline, query.xor))
        action = fy.Action("configure", number=number, baseline=baseline, xor_layer=xor,
                           a=self._a, b=self._b)  # fmt: skip
        return fy.P4TableEntry("node", action=action, is_default_action=True)

    def random(self, packets: NDArray[np.int64], instance: int, number: int) -> NDArray[np.uint64]:
        """Return one random value per packet, which depends on the instance and the number."""
        key = packets.astype(np.uint64) << np.uint64(32) | np.uint64((instance << 16) + number)
        with np.errstate(over="ignore"):
            mixed = key * np.uint64(self._a)
            mixed = (mixed ^ mixed >> np.uint64(32)) * np.uint64(self._b)
            return (mixed ^ mixed >> np.uint64(32)) * np.uint64(self._a) >> np.uint64(32)

    def last_writers(
        self, packets: NDArray[np.int64], instance: int, hops: int
    ) -> NDArray[np.int64]:  # fmt: skip
        """Return for each packet the hop (from 1) that writes last in a baseline layer."""
        last = np.ones(len(packets), np.int64)
        for hop in range(2, hops + 1):
            last[self.random(packets, instance, hop) * np.uint64(hop) < 2**HASH_BITS] = hop
        return last


@dataclass(frozen=True)
class Digests:
    """What the receiver computes for the packets of one instance."""

    is_xor: NDArray[np.bool_]
    writers: NDArray[np.bool_]  # shape: (packets, hops); True for hops that changed the digest
    # shape: (packets, switches); hash of each switch that may be on the path
    hashes: NDArray[np.int64]


def receiver(
    hash_: Hash, query: Query, packets: NDArray[np.int64], hops: int, switches: Sequence[int]
) -> list[Digests]:
    """Return what the receiver knows about packets, per instance."""
    found = []
    for instance in range(1, query.instances + 1):
        is_xor = hash_.random(packets, instance, LAYER) >= query.baseline * 2**HASH_BITS
        last = hash_.last_writers(packets, instance, hops)
        sampled = [hash_.random(packets, instance, hop) < query.xor * 2**HASH_BITS
                   for hop in range(1, hops + 1)]  # fmt: skip
        baseline = last[:, None] == np.arange(1, hops + 1)
        hashes = [hash_.random(packets, instance, SWITCH + number) >> np.uint64(32 - query.bits)
                  for number in switches]  # fmt: skip
        writers = np.where(is_xor[:, None], np.transpose(sampled), baseline)
        found.append(Digests(is_xor, writers, np.transpose(hashes).astype(np.int64)))
    return found


def model(known: Sequence[Digests], query: Query, path: Sequence[int]) -> NDArray[np.int64]:
    """Return the digest of each packet. `path` has indices of switches."""
    digests = np.zeros(len(known[0].is_xor), np.int64)
    for number, each in enumerate(known):
        own = np.where(each.writers, each.hashes[:, path], 0)
        digests |= np.bitwise_xor.reduce(own, axis=1) << (number * query.bits)
    return digests


def packets_to_decode(
    known: Sequence[Digests], query: Query, digests: NDArray[np.int64], hops: int
) -> Iterator[tuple[int, list[int]]]:
    """Decode the path repeatedly, each time from the packets that follow.

    Yield how many packets were needed, and the path: indices of switches. If digests contradict
    each other, unknown hops are -1.
    """
    decoder, first = Decoder(hops, known[0].hashes.shape[1]), 0
    for packet, digest in enumerate(digests.tolist()):
        for number, each in enumerate(known):
            decoder.add(
                set(np.flatnonzero(each.writers[packet]).tolist()),
                digest >> (number * query.bits) & ((1 << query.bits) - 1), each.hashes[packet],
            )  # fmt: skip
        if decoder.is_contradictory or len(decoder.path) == hops:
            yield packet + 1 - first, [decoder.path.get(hop, -1) for hop in range(hops)]
            decoder, first = Decoder(hops, known[0].hashes.shape[1]), packet + 1


class Decoder:
    """Infers a path from digests."""

    def __init__(self, hops: int, switches: int) -> None:
        self.path: dict[int, int] = {}  # hop -> index of the switch; only known hops
        self.is_contradictory = False  # whether a hop has digests that fit no switch
        self._candidates = [np.ones(switches, bool) for _ in range(hops)]
        self._waiting: list[tuple[set[int], int, NDArray[np.int64]]] = []

    def add(self, writers: set[int], digest: int, hashes: NDArray[np.int64]) -> None:
        """Add a digest that is the XOR of the hashes of hops."""
        self._waiting.append((writers, digest, hashes))
        known = -1
        while known != len(self.path):
            known, waiting = len(self.path), self._waiting
            self._waiting = []
            for each in waiting:
                self._use(*each)

    def _use(self, writers: set[int], digest: int, hashes: NDArray[np.int64]) -> None:
        """Remove known hops from a digest. If one hop is left, exclude switches for this hop."""
        for hop in writers & self.path.keys():
            digest ^= int(hashes[self.path[hop]])
        unknown = writers - self.path.keys()
        if len(unknown) > 1:
            self._waiting.append((unknown, digest, hashes))
        elif unknown:
            [hop] = unknown
            self._candidates[hop] &= hashes == digest
            left = np.flatnonzero(self._candidates[hop])
            if len(left) == 1:
                self.path[hop] = int(left[0])
            self.is_contradictory |= len(left) == 0


def packets_for_marks(hops: int, needed: int, rng: np.random.Generator) -> int:
    """Return how many packets a traceback method needs.

    Each packet carries a random one of the MARKS marks of a random hop. The receiver needs `needed`
    different marks of each hop.
    """
    marks = rng.integers(hops * MARKS, size=100 * hops * MARKS)
    values, first = np.unique(marks, return_index=True)
    assert len(values) == hops * MARKS
    return int(np.sort(first.reshape(hops, MARKS))[:, needed - 1].max()) + 1


def mean_marked(hops: int, needed: int, seed: int) -> float:
    """Return the mean number of packets that a traceback method needs."""
    rng = np.random.default_rng([seed, hops, needed])
    return float(np.mean([packets_for_marks(hops, needed, rng) for _ in range(MARKED_RUNS)]))


def field(frames: NDArray[np.uint8], at: int, kind: str) -> NDArray[np.int64]:
    """Return a big-endian field of all frames. `kind` is >u2 or >u4."""
    return frames[:, at : at + int(kind[-1])].copy().view(kind).ravel().astype(np.int64)
