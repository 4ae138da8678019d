"""Statistics that user space computes from records of the kernel, compared with exact values."""

import itertools
import math

import numpy as np
import pytest
from statistics_models import find_classes, find_minima, find_registers, make_key, make_sketch

from ebpf.statistics import exact, quantiles, samples
from ebpf.statistics.distinct import Registers, at_most
from ebpf.statistics.flows import Flows, format_address, unpack_keys
from ebpf.statistics.minwise import BUCKETS, Minima
from ebpf.statistics.norms import COLUMNS
from ebpf.statistics.samples import Sample


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def hashes(number: int, seed: int = 1) -> np.ndarray:
    return rng(seed).integers(1 << 64, size=number, dtype=np.uint64)


def test_classes_are_no_wider_than_their_share_of_the_values() -> None:
    values = np.arange(1 << quantiles.LENGTH_BITS)
    classes = find_classes(values)
    assert ((quantiles.LEAST[classes] <= values) & (values <= quantiles.GREATEST[classes])).all()
    middles = (quantiles.LEAST[classes] + quantiles.GREATEST[classes]) / 2
    assert (np.abs(middles - values) <= quantiles.RELATIVE_ERROR * values).all()
    assert classes.max() == quantiles.CLASSES - 1


def test_quantiles_are_within_their_bound() -> None:
    lengths = rng().integers(60, 1515, size=997)
    histogram = quantiles.Histogram(np.bincount(find_classes(lengths), minlength=quantiles.CLASSES))
    for part in (0, 0.001, 0.25, 0.5, 0.9, 0.999, 1):
        true = exact.quantile(lengths, part)
        assert abs(histogram.quantile(part) - true) <= quantiles.RELATIVE_ERROR * true
    with pytest.raises(ValueError, match="no packets"):
        quantiles.Histogram(histogram.counts * 0).quantile(0.5)


@pytest.mark.parametrize("flows", [0, 1, 10, 1000, 10_000, 1_000_000])
def test_distinct_flows_are_estimated_within_five_standard_errors(flows: int) -> None:
    estimate = find_registers(hashes(flows)).estimate
    assert abs(estimate - flows) <= 5 * 1.04 / 64 * flows


def test_a_register_is_as_high_as_its_law_has_it() -> None:
    flows = 10_000
    ranks = np.concatenate([find_registers(hashes(flows, seed)).ranks for seed in range(20)])
    for rank in range(6):
        share = at_most(rank, flows)
        error = math.sqrt(share * (1 - share) / len(ranks))
        assert abs((ranks <= rank).mean() - share) <= 4 * error
    assert at_most(53, flows) == 1


def test_registers_of_all_ranks_and_of_none() -> None:
    numbers = np.array([0, (1 << 64) - 1, 1 << 12, 5], np.uint64)
    assert find_registers(numbers).ranks[[0, 4095, 5]].tolist() == [53, 1, 53]
    assert find_registers(np.array([1 << 12], np.uint64)).ranks[0] == 52
    assert Registers(np.full(4096, 53, np.uint8)).estimate == math.inf


def test_rarity_and_similarity_of_few_flows_are_exact() -> None:
    """For few flows, rarity and similarity are exact: the sample of a record contains all flows.

    This needs a bucket per flow, which the hashes of this test provide.
    """
    numbers = np.arange(100, dtype=np.uint64)
    one = find_minima(numbers[:80], np.repeat([1, 2, 3, 4], 20))
    other = find_minima(numbers[40:], np.repeat([5], 60))
    assert [one.rarity(times) for times in (0, 1, 3, 9)] == [0, 0.25, 0.25, 0]
    assert one.similarity(other) == 40 / 100
    assert (one + other).used == 100
    assert np.bincount((one + other).counts)[1:].tolist() == [20, 20, 0, 0, 20, 0, 0, 20, 20]
    nothing = Minima(np.zeros(BUCKETS, np.uint64), np.zeros(BUCKETS, np.int64))
    assert (nothing.rarity(1), nothing.similarity(nothing)) == (0, 0)


def test_minima_of_parts_are_those_of_the_whole() -> None:
    numbers, counts = hashes(5000), rng().integers(1, 9, size=5000)
    whole = find_minima(numbers, 2 * counts)
    parts = find_minima(numbers[:3000], counts[:3000]) + find_minima(numbers[3000:], counts[3000:])
    again = parts + find_minima(numbers, counts)
    assert (again.hashes == whole.hashes).all()
    assert (again.counts == whole.counts).all()


def test_a_norm_of_flows_that_do_not_meet_is_exact() -> None:
    numbers = np.arange(COLUMNS, dtype=np.uint64)  # in the first row, each flow has its own column
    counts = rng().integers(1, 100, size=COLUMNS)
    sketch = make_sketch(numbers, counts)
    assert sketch.of_rows[0] == (counts**2).sum()
    assert (sketch + sketch).of_rows[0] == 4 * (counts**2).sum()


@pytest.mark.parametrize("seed", range(10))
def test_medians_are_the_best_there_are(seed: int) -> None:
    values = rng(seed).integers(0, 30, size=12)
    for clusters in (1, 2, 3):
        found = samples.mean_distance(values, samples.medians(values, clusters))
        best = min(
            samples.mean_distance(values, centres)
            for centres in itertools.combinations(range(30), clusters)
        )
        assert found == pytest.approx(best)


def test_there_are_no_more_medians_than_values() -> None:
    assert samples.medians([5, 5, 9], 4).tolist() == [5, 9]


def test_the_distance_of_distributions_by_hand() -> None:
    assert samples.wasserstein([0, 0, 4, 4], [0, 4]) == 0
    assert samples.wasserstein([0, 0], [3, 3]) == 3
    assert samples.wasserstein([0, 10], [0, 0, 10, 10, 10, 10]) == pytest.approx(10 / 6)


def test_a_sample_of_two_windows_has_its_share_of_each() -> None:
    drawn = [
        (Sample(9000, np.zeros(512, int), each) + Sample(1000, np.ones(512, int), each)).lengths
        for each in map(rng, range(200))
    ]
    assert {len(each) for each in drawn} == {512}
    assert np.mean(drawn) == pytest.approx(0.1, abs=0.004)  # 4 standard errors
    few = Sample(2, np.array([5, 6]), rng()) + Sample(1, np.array([7]), rng())
    assert (few.seen, sorted(few.lengths)) == (3, [5, 6, 7])


def test_flows_are_summed_and_ordered() -> None:
    keys = np.array([make_key("10.0.0.1", "10.0.0.2", 80), make_key("2001:db8::1")]).reshape(-1, 5)
    flows = Flows.summed(keys[[0, 1, 0]], [1, 5, 9])
    assert (flows + flows).top(1).counts.tolist() == [20]
    (first,) = unpack_keys(flows.top(1).keys)
    assert format_address(bytes(first["source"])) == "10.0.0.1"
    assert (first["source_port"], first["destination_port"]) == (80, 0)
    (second,) = unpack_keys(flows.top(2).keys)[1:]
    assert format_address(bytes(second["source"])) == "2001:db8::1"
    assert len(Flows.summed(keys[:0], [])) == 0
