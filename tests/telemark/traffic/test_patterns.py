"""Traffic patterns: rates and shapes are as requested, and flows are independent."""

import numpy as np
import pytest

from telemark.errors import TestbedError
from telemark.traffic.flows import Flow, Schedule
from telemark.traffic.patterns import OnOff, Poisson, heavy_tailed


def due_ns(flow: Flow, seed: int = 1) -> np.ndarray:
    due = Schedule.from_flow(flow, seed).due_ns
    assert due is not None
    return due


def test_poisson_gaps_are_exponential() -> None:
    gaps = np.diff(due_ns(Flow(1, "a", "b", 1000, 100_000, pattern=Poisson())))
    assert gaps.mean() == pytest.approx(1e6, rel=0.02)
    assert gaps.std() == pytest.approx(1e6, rel=0.02)
    assert np.corrcoef(gaps[1:], gaps[:-1])[0, 1] == pytest.approx(0, abs=0.02)


def test_bursts_have_the_rate_and_the_silences_asked_for() -> None:
    flow = Flow(1, "a", "b", 1000, 200_000, pattern=OnOff(on_s=0.1, off_s=0.3))
    gaps = np.diff(due_ns(flow))
    silent = gaps > 1_000_001
    assert gaps[~silent].mean() == pytest.approx(1e6, rel=1e-6)
    assert silent.sum() == pytest.approx(200_000 / 100, rel=0.1)
    mean_rate = flow.count / (due_ns(flow)[-1] / 1e9)
    assert mean_rate == pytest.approx(1000 * 0.1 / 0.4, rel=0.1)


def test_schedules_depend_on_seed_and_flow_alone() -> None:
    flow = Flow(1, "a", "b", 1000, 100, pattern=Poisson())
    other = Flow(2, "a", "b", 1000, 100, pattern=Poisson())
    assert np.array_equal(due_ns(flow), due_ns(flow))
    assert not np.array_equal(due_ns(flow), due_ns(other))
    assert not np.array_equal(due_ns(flow, 1), due_ns(flow, 2))


def test_a_flow_may_begin_later() -> None:
    schedule = Schedule.from_flow(Flow(1, "a", "b", 1000, 11, after_s=0.5), 1)
    assert (schedule.after_ns, schedule.duration_ns) == (500_000_000, 10_000_000)
    assert schedule.due_ns is None


def test_few_flows_carry_most_of_a_heavy_tailed_load() -> None:
    pairs = [("a", "b")] * 20_000
    flows = heavy_tailed(pairs, flows_per_s=100, mean_count=50, rate_pps=1000, seed=1, shape=1.5)
    counts = np.sort([flow.count for flow in flows])
    assert counts.min() >= 1
    assert counts.mean() == pytest.approx(50, rel=0.15)
    assert counts[-2000:].sum() > 0.4 * counts.sum()  # the largest tenth of the flows
    assert flows[-1].after_s == pytest.approx(200, rel=0.05)
    assert [flow.id for flow in flows[:3]] == [0, 1, 2]


def test_one_more_flow_leaves_those_before_it_alone() -> None:
    few, more = (
        heavy_tailed([("a", "b")] * count, flows_per_s=9, mean_count=20, rate_pps=100, seed=1)
        for count in (50, 51)
    )
    assert few == more[:50]


def test_whole_numbers_may_come_as_floats() -> None:
    flow = Flow(1, "a", "b", 1000, count=1e2)  # type: ignore[arg-type]
    assert repr(flow.count) == "100"


@pytest.mark.parametrize(
    "make",
    [
        lambda: heavy_tailed([], flows_per_s=0, mean_count=5, rate_pps=1, seed=1),
        lambda: OnOff(on_s=0, off_s=1),
        lambda: OnOff(on_s=1, off_s=-1),
        lambda: Flow(1, "a", "b", 1, 1, after_s=-1),
        lambda: Flow(1, "a", "b", 1, 1.5),  # type: ignore[arg-type]
        lambda: heavy_tailed([], flows_per_s=1, mean_count=5, rate_pps=1, seed=1, shape=1),
    ],
)
def test_what_cannot_be_is_refused(make: object) -> None:
    with pytest.raises(TestbedError):
        make()  # type: ignore[operator]
