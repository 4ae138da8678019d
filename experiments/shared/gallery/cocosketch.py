"""Model of CocoSketch, the partial keys of flows, and sketches that count one partial key each."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from controllers.hash_functions import HashFunctions
from experiments.shared.gallery import traces
from experiments.shared.xdp.streams import Stream

SOURCE, DESTINATION, PROTOCOL = 0xFFFFFFFF << 72, 0xFFFFFFFF << 40, 0xFF << 32
SOURCE_PORT, DESTINATION_PORT = 0xFFFF << 16, 0xFFFF
# Partial keys as masks of the 104-bit key. The six keys are those of the authors' program.
PARTIAL_KEYS = (SOURCE | DESTINATION | PROTOCOL | SOURCE_PORT | DESTINATION_PORT,
                SOURCE | DESTINATION, SOURCE | SOURCE_PORT, DESTINATION | DESTINATION_PORT,
                SOURCE, DESTINATION)  # fmt: skip
FLOWS_PER_ADDRESS = 8
SERVICES = (22, 53, 80, 443)  # destination ports that many flows share
ROWS, COUNTER_BYTES = 3, 4  # rows, and bytes per counter, of single-key sketches
THRESHOLD = 1e-4  # size of a heavy hitter, as a fraction of the packets


def share_addresses(stream: Stream, seed: int) -> Stream:
    """Return a trace in which flows share addresses and destination ports.

    The popularity of source addresses has a Zipf distribution with exponent 1, and so has that of
    destination addresses.
    """
    rng, flows = np.random.default_rng([seed, 2]), stream.flows.copy()
    number = max(1, len(flows) // FLOWS_PER_ADDRESS)
    popularity = np.cumsum(1 / np.arange(1, number + 1))
    for name in ("source", "destination"):
        addresses = rng.integers(1 << 32, size=number)
        drawn = rng.random(len(flows)) * popularity[-1]
        flows[name] = addresses[np.searchsorted(popularity, drawn)]
    services = rng.choice(SERVICES, len(flows))
    flows["destination_port"] = np.where(
        rng.random(len(flows)) < 0.7, services, flows["destination_port"]
    )
    return replace(stream, flows=flows)


def full_keys(stream: Stream) -> list[int]:
    """Return the 104-bit key of each flow."""
    return [
        int(f["source"]) << 72 | int(f["destination"]) << 40 | int(f["protocol"]) << 32
        | int(f["source_port"]) << 16 | int(f["destination_port"]) for f in stream.flows
    ]  # fmt: skip


def group(sizes: Iterable[tuple[int, int]], mask: int) -> Counter[int]:
    """Return the size of each partial key: the sum of the sizes of its full keys."""
    found: Counter[int] = Counter()
    for key, size in sizes:
        found[key & mask] += size
    return found


def model(
    stream: Stream, randoms: NDArray[np.uint32], functions: HashFunctions, arrays: int, buckets: int
) -> NDArray[np.uint64]:
    """Run CocoSketch with these random numbers of packets; return all buckets.

    The shape is (arrays, buckets, 3): two words of the key, and the count.
    """
    places = functions.positions(traces.flow_hashes(stream), buckets).tolist()
    keys, stored = full_keys(stream), [[0] * buckets for _ in range(arrays)]
    counts = [[0] * buckets for _ in range(arrays)]
    for flow, random in zip(stream.numbers.tolist(), randoms.tolist(), strict=True):
        key, at = keys[flow], [each[flow] for each in places]
        holders = [n for n in range(arrays) if counts[n][at[n]] and stored[n][at[n]] == key]
        n = holders[0] if holders else min(range(arrays), key=lambda n: counts[n][at[n]])
        counts[n][at[n]] += 1
        if random / 2**32 < 1 / counts[n][at[n]]:
            stored[n][at[n]] = key
    words = np.array([[(key & 2**64 - 1, key >> 64) for key in each] for each in stored], np.uint64)
    return np.dstack([words, np.array(counts, np.uint64)])


def single_key_estimates(
    sizes: NDArray[np.int64], cells: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the estimates of a Count-Min sketch and of a Count sketch with `cells` counters."""
    columns = rng.integers(cells // ROWS, size=(ROWS, len(sizes)))
    signs = rng.choice([-1, 1], columns.shape)
    added, signed = (
        [np.bincount(columns[row], weights[row])[columns[row]] for row in range(ROWS)]
        for weights in (np.tile(sizes, (ROWS, 1)), signs * sizes)
    )
    return np.min(added, axis=0), np.median(signs * signed, axis=0)


def compare_keys(
    sizes: Mapping[int, int], estimates: Sequence[tuple[int, int]], memory: int, seed: int
) -> list[list[float]]:
    """Compare CocoSketch's `estimates` of full keys with one sketch per key, in the same memory.

    Row n is for the first n partial keys: recall, precision and heavy_hitter_error of CocoSketch,
    and the errors of Count-Min and Count sketches. All values are means over these keys.
    """
    rng, threshold = np.random.default_rng([seed, 3]), THRESHOLD * sum(sizes.values())
    scores, exact = [], []
    for mask in PARTIAL_KEYS:
        true, own = group(sizes.items(), mask), group(estimates, mask)
        size, estimate = np.array([*true.values()]), np.array([own[key] for key in true])
        exact.append(size)
        is_heavy, is_reported = size > threshold, estimate > threshold
        hits = np.sum(is_heavy & is_reported)
        scores.append(
            [hits / np.sum(is_heavy), hits / np.sum(is_reported),
             heavy_hitter_error(estimate, size, threshold)]
        )  # fmt: skip
    rows = []
    for keys in range(1, len(PARTIAL_KEYS) + 1):
        single = [
            [heavy_hitter_error(each, size, threshold)
             for each in single_key_estimates(size, memory // keys // COUNTER_BYTES, rng)]
            for size in exact[:keys]
        ]  # fmt: skip
        rows.append(np.mean(np.hstack([scores[:keys], single]), axis=0).tolist())
    return rows


def heavy_hitter_error(
    estimates: NDArray[np.float64], sizes: NDArray[np.int64], threshold: float
) -> float:  # fmt: skip
    """Return the mean relative error of the heavy hitters that were found."""
    found = (sizes > threshold) & (estimates > threshold)
    return float(np.mean(np.abs(estimates[found] / sizes[found] - 1)))


def largest_flow_deviation(
    stream: Stream, read: NDArray[np.uint64], functions: HashFunctions
) -> float:
    """Return how many more buckets than expected store their largest flow, in standard errors."""
    buckets = len(read)
    places = functions.positions(traces.flow_hashes(stream), buckets)[0].tolist()
    total, largest, sizes = [0] * buckets, [(0, 0)] * buckets, Counter[tuple[int, int]]()
    for key, at, size in zip(full_keys(stream), places, stream.counts.tolist(), strict=True):
        total[at] += size
        sizes[key, at] += size
    for (key, at), size in sizes.items():
        largest[at] = max(largest[at], (size, key))
    shares = np.array([size for size, _ in largest]) / np.maximum(total, 1)
    held = sum(
        high << 64 | low == key and count > 0
        for (low, high, count), (_, key) in zip(read.tolist(), largest, strict=True)
    )
    variance = np.sum(shares * (1 - shares))
    return float((held - shares.sum()) / np.sqrt(max(variance, 1)))
