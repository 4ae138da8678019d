"""FREQUENT: the guarantee of its paper holds for each flow of any stream.

Another test checks an example that was computed by hand.
"""

from collections import Counter, deque

import numpy as np
import pytest
from statistics_models import make_key

from ebpf.statistics.flows import Flows
from ebpf.statistics.frequent import Frequent


def keyed(counts: dict[int, int]) -> Flows:
    keys = [make_key(source_port=flow) for flow in counts]
    return Flows.summed(np.array(keys).reshape(-1, 5), list(counts.values()))


def named(flow: int) -> bytes:
    return make_key(source_port=flow).tobytes()


def test_an_example_by_hand() -> None:
    frequent = Frequent(listed=2, windows=2)
    frequent.add(keyed({1: 50, 2: 3, 3: 2, 4: 1}))
    assert (frequent.delta, frequent.reported()) == (3, {named(1): 50})
    frequent.add(keyed({2: 9, 3: 8, 1: 7}))
    assert frequent.delta == 3 + 8
    assert frequent.reported() == {named(1): 50, named(2): 12}
    assert [frequent.at_most(named(flow)) for flow in (1, 2, 3, 4, 5)] == [58, 12, 11, 11, 11]
    assert frequent.pairs == 2 + 2 + 3
    frequent.add(keyed({5: 1}))  # a third window: the first one no longer counts
    assert frequent.delta == 8
    assert frequent.reported() == {named(2): 9}


@pytest.mark.parametrize("seed", range(20))
def test_every_flow_above_twice_delta_is_reported_and_none_below_delta(seed: int) -> None:
    rng = np.random.default_rng(seed)
    listed, windows = int(rng.integers(1, 12)), int(rng.integers(1, 8))
    frequent = Frequent(listed, windows)
    kept: deque[Counter[int]] = deque(maxlen=windows)
    for _ in range(30):
        counts = Counter((rng.zipf(1.3, 400) % 97 + rng.integers(3)).tolist())
        kept.append(counts)
        missed = int(rng.integers(3)) and 5 * counts.total() // 100
        seen = Counter(counts)
        # some flows get no counter, as if the table were full
        for flow in rng.permutation(list(counts)):
            if missed >= seen[int(flow)] > 0:
                missed -= seen.pop(int(flow))
        frequent.add(keyed(dict(seen)), counts.total() - seen.total())
        true = sum(kept, Counter())
        reported = frequent.reported()
        for flow, number in true.items():
            assert reported.get(named(flow), 0) <= number <= frequent.at_most(named(flow))
            assert number <= 2 * frequent.delta or named(flow) in reported
        assert all(number > frequent.delta for number in reported.values())
