"""What multipoint alternate marking observes: losses and delays of clusters, and reroutes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from controllers.ampm.collector import BlockReport
from controllers.ampm.records import Point, PointRecord
from controllers.ampm.schedule import Schedule
from experiments.shared.oam.observations import DELAY, LOSS, PATH, Observed, observe
from experiments.shared.oam.run import ALL_FLOWS, MULTIPOINT, SWITCHES, Outcome
from experiments.shared.oam.truth import ARRIVAL, DEPARTURE, PointTimes, Truth

SCHEDULE = Schedule(2**18)
LATE_NS = 500_000
TO_SPINES = (("s1", "s3"), ("s1", "s4"))
Counts = dict[Point, int]


def counts(*, by_s3: int = 60, by_s4: int = 40) -> Counts:
    """Return the packets of a block at each point."""
    packets = {"s1": by_s3 + by_s4, "s3": by_s3, "s4": by_s4, "s2": by_s3 + by_s4}
    return {Point(name, what): packets[name]
            for name in SWITCHES for what in (ARRIVAL, DEPARTURE)}  # fmt: skip


def observed(
    blocks: Sequence[Counts], delays_us: Mapping[Point, int] | None = None,
    samples: Mapping[Point, Mapping[int, int]] | None = None,
) -> Observed:  # fmt: skip
    """Return what the method observes in blocks 10, 11, ...

    In the last block, the delays of a point's packets add up to `delays_us`, and the switches have
    these samples.
    """
    reports = []
    for block, packets in enumerate(blocks, start=10):
        is_last = block == 9 + len(blocks)
        late, sampled = (delays_us or {}, samples or {}) if is_last else ({}, {})
        records: dict[Point, PointRecord | None] = {
            point: PointRecord(block, count, sum_us=late.get(point, 0),
                               samples=dict(sampled.get(point, {})))
            for point, count in packets.items()
        }  # fmt: skip
        reports.append(BlockReport(block, {ALL_FLOWS: records}, []))
    unused: Any = None
    none = np.zeros(0, np.int64)
    outcome = Outcome(
        method=MULTIPOINT, truth=Truth(none, none), point_times=PointTimes(none, {}), spans={},
        clock_errors_us={}, spines={}, ports={}, nodes={}, egress={}, added_bytes=0,
        accounting=unused, schedule=SCHEDULE, blocks=reports, margins_ns=(0, 0),
    )  # fmt: skip
    return observe(outcome, LATE_NS)


def test_a_loss_is_located_in_its_cluster() -> None:
    lossy = counts()
    for point, lost in {Point("s3", ARRIVAL): 3, Point("s3", DEPARTURE): 3, Point("s2", ARRIVAL): 3,
                        Point("s2", DEPARTURE): 4}.items():  # fmt: skip
        lossy[point] -= lost
    found = observed([counts(), lossy]).events
    assert [(each.kind, each.where, each.packets) for each in found] == [
        (LOSS, TO_SPINES, 3), (LOSS, (("s2", "s2"),), 1),
    ]  # fmt: skip
    start_ns = 1000 * SCHEDULE.start_us(11)
    assert {(each.first_ns, each.last_ns) for each in found} == {
        (start_ns, start_ns + 1000 * SCHEDULE.block_us)
    }


def test_the_mean_delay_of_a_cluster_is_that_of_all_its_packets() -> None:
    late_at = [Point("s3", ARRIVAL), Point("s3", DEPARTURE)]
    both = [Point("s2", ARRIVAL), Point("s2", DEPARTURE)]
    delays_us = dict.fromkeys([*late_at, *both], 100 * 600)
    found = observed([counts(), counts()], delays_us)
    assert [(each.kind, each.where) for each in found.events] == [(DELAY, TO_SPINES)]
    [event] = found.events
    assert event.measured is not None
    assert event.measured.delay_ns == pytest.approx(600_000)
    assert [each.delay_ns for each in found.samples] == pytest.approx([0, 600_000])


def test_a_sampled_packet_locates_its_link() -> None:
    start_us = SCHEDULE.start_us(11)
    quick = {1: start_us + 50, 2: start_us + 60}
    samples = {
        Point("s3", DEPARTURE): {1: start_us}, Point("s4", DEPARTURE): {2: start_us},
        Point("s2", ARRIVAL): {**quick, 1: start_us + 900, 9: start_us},
    }  # fmt: skip
    before = {Point("s3", DEPARTURE): 0}
    found = observed([counts(), counts()], before, samples).events
    assert not found, "one sample per link is its minimum"
    samples[Point("s3", DEPARTURE)] = {1: start_us, 3: start_us}
    samples[Point("s2", ARRIVAL)] = {**quick, 1: start_us + 900, 3: start_us + 50}
    [event] = observed([counts(), counts()], before, samples).events
    assert (event.kind, event.where) == (DELAY, (("s3", "s2"),))
    assert event.first_ns == event.last_ns == 1000 * start_us


def test_a_hash_at_two_inputs_of_a_cluster_is_left_out() -> None:
    start_us = SCHEDULE.start_us(10)
    samples = {
        Point("s3", DEPARTURE): {1: start_us, 3: start_us}, Point("s4", DEPARTURE): {1: start_us},
        Point("s2", ARRIVAL): {1: start_us + 900, 3: start_us},
    }  # fmt: skip
    assert not observed([counts()], None, samples).events


@pytest.mark.parametrize(
    ("blocks", "changed"),
    [
        ([counts(), counts(by_s3=80, by_s4=20)], []),
        ([counts(), counts(by_s3=100, by_s4=0)], [11]),
        ([counts(), counts(by_s3=100, by_s4=0), counts()], [11, 12]),
        ([counts(), counts(by_s3=10, by_s4=0)], []),
    ],
    ids=["other shares", "unused spine", "and back", "end of the traffic"],
)
def test_a_reroute_changes_the_set_of_used_spines(blocks: list[Counts], changed: list[int]) -> None:
    found = observed(blocks).events
    assert {each.kind for each in found} <= {PATH}
    assert [each.first_ns for each in found] == [1000 * SCHEDULE.start_us(b) for b in changed]
