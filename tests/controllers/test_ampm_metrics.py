"""Sums of blocks of alternate marking: which blocks and segments count."""

from collections.abc import Collection
from typing import Any

import pytest

from controllers.ampm.metrics import BlockMetrics
from controllers.ampm.records import Point, PointRecord, Record
from controllers.ampm.watch import Method, Multipoint, WatchedFlow

POINTS = [Point(switch, name) for switch in ("s1", "s2") for name in ("arrivals", "departures")]
EXACT = [PointRecord(8, packets=n, sum_us=100 * n) for n in (5, 5, 5, 5)]


class Switch:
    """A measuring point."""

    def __init__(self, name: str) -> None:
        self.name = name


S1, S2 = Switch("s1"), Switch("s2")


def sums(
    records: list[PointRecord | None], methods: Method = Method.STEP, path: Any = (S1, S2),
    read: Collection[Record] = frozenset(Record),
) -> dict[str, float]:  # fmt: skip
    """Return the samples of one block that are not 0, by name and last label."""
    flow = WatchedFlow(3, "10.0.0.1", "10.0.0.2", methods=methods)
    block = BlockMetrics({flow: path}, read)
    block.add({3: dict(zip(POINTS, records, strict=True))})
    return {
        f"{sample.name} {[*sample.labels.values()][-1]}": sample.value
        for metric in block.metrics() for sample in metric.samples if sample.value
    }  # fmt: skip


def test_a_block_with_an_unknown_record_counts_only_as_incomplete() -> None:
    assert sums([*EXACT[:3], None]) == {"ampm_blocks_total incomplete": 1}


def test_a_block_that_gains_packets_counts_only_as_inexact() -> None:
    assert sums([*EXACT[:3], PointRecord(8, packets=6)]) == {"ampm_blocks_total inexact": 1}


def test_pulse_marking_has_no_loss_of_blocks() -> None:
    found = sums([*EXACT[:2], PointRecord(8, packets=6), PointRecord(8)], Method.PULSE)
    assert found["ampm_blocks_total complete"] == 1
    assert not any(name.startswith("ampm_lost") for name in found)


def test_a_flow_with_several_paths_has_no_segments() -> None:
    found = sums(EXACT[:], path=Multipoint([S1], [S2]))
    assert {name.split()[0] for name in found} == {"ampm_blocks_total", "ampm_packets_total"}


def test_the_mean_delay_of_a_block_with_loss_does_not_count() -> None:
    found = sums([*EXACT[:2], PointRecord(8, 4, 900), PointRecord(8, 4, 1000)])
    assert found["ampm_lost_packets_total s1-s2"] == 1
    assert found["ampm_delay_seconds_sum s2"] == pytest.approx(25e-6)
    assert "ampm_delay_seconds_count s1-s2" not in found


def test_without_the_registers_of_blocks_there_is_no_delay() -> None:
    assert not any("delay" in name for name in sums(EXACT, read=()))
