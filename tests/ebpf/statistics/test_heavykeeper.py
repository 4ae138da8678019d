"""HeavyKeeper in the kernel: its buckets and its top flows equal those of the paper's algorithm."""

import os

import numpy as np
import pytest
from streams import stream_of, thrown_after

from ebpf.statistics import exact, heavykeeper
from ebpf.statistics.hashes import draw_factors, hash_keys
from ebpf.statistics.offer import load_stream, make_keys
from ebpf.statistics.program import Kept, Setting, load_statistics

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="BPF needs root")

COLUMNS, SEED = 16, 4


def kept(numbers: list[int], rng: int) -> dict[tuple[int, int], tuple[int, int]]:
    """Return hash and count of each bucket (row, column) after these hashes arrived in order."""
    buckets: dict[tuple[int, int], tuple[int, int]] = {}
    table = heavykeeper.decay_table().tolist()
    throws = iter(thrown_after(rng, len(numbers)).tolist())
    for number in numbers:
        thrown = next(throws)
        for row in range(heavykeeper.ROWS):
            place = row, (number >> 32 * row & 0xFFFFFFFF) * COLUMNS >> 32
            owner, count = buckets.get(place, (number, 0))
            if owner == number:
                buckets[place] = number, count + 1
            elif count < heavykeeper.DECAYS and thrown >> 32 * row & 0xFFFFFFFF < table[count]:
                buckets[place] = (owner, count - 1) if count > 1 else (number, 1)
    return buckets


def test_buckets_are_those_of_the_paper_s_algorithm() -> None:
    stream = stream_of(3000, 200, 8)
    setting = Setting(Kept.HEAVY_KEEPER, columns=COLUMNS, seed=SEED)
    with load_stream(stream.rows) as offer, load_statistics(setting) as statistics:
        state = statistics.buffers.states.copy()
        offer.through(statistics.at_xdp, len(stream.rows))
        changed = np.flatnonzero(statistics.buffers.states != state)
        raw = statistics.buffers.maps["buckets"][changed[0], 0].copy()
    found = {
        divmod(place, COLUMNS): (int(each["hash"]), int(each["count"]))
        for place, each in enumerate(raw) if each["count"]
    }  # fmt: skip
    numbers = hash_keys(make_keys(stream.rows), draw_factors(SEED)).tolist()
    assert found == kept(numbers, int(state[changed[0]]))
    assert len(found) > COLUMNS
    keys = heavykeeper.words_of(raw["key"][raw["count"] > 0])
    assert (hash_keys(keys, draw_factors(SEED)) == raw["hash"][raw["count"] > 0]).all()


def test_it_finds_the_top_flows_of_zipf() -> None:
    stream = stream_of(100_000, 20_000, 3)
    with (
        load_stream(stream.rows) as offer,
        load_statistics(Setting(Kept.HEAVY_KEEPER)) as statistics,
    ):
        offer.through(statistics.at_xdp, len(stream.rows))
        found = statistics.flip().heavy.top(20)
    true = [count for _, count in exact.top(stream.flows, 20)]
    assert all(have <= want for have, want in zip(found.counts, true, strict=True))
    assert sum(found.counts) > 0.99 * sum(true)


def test_a_flow_has_the_greatest_count_of_its_rows_on_each_processor() -> None:
    buckets = np.zeros((2, 4), [("count", "u4"), ("key", "u8", 5)])
    buckets["count"] = [[3, 7, 0, 5], [2, 0, 9, 1]]
    buckets["key"][..., 0] = [[1, 1, 1, 2], [1, 0, 3, 2]]
    flows = heavykeeper.heavy_flows(buckets)
    assert dict(zip(flows.keys[:, 0].tolist(), flows.counts, strict=True)) == {1: 9, 2: 6, 3: 9}


def test_memory_holds_so_many_columns() -> None:
    assert heavykeeper.columns_in(65536) * heavykeeper.ROWS * 56 <= 65536
    assert heavykeeper.columns_in(65536) == 585
