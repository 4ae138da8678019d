"""Distribution of records to worker processes: each record to exactly one worker."""

import os

import numpy as np

from collectors.roce.region import Region
from collectors.roce.work_partition import WorkPartition

COUNT, RECORDS = 64, np.dtype("<u8")


def test_workers_take_each_record_once() -> None:
    """Each record is taken by exactly one worker, and only once.

    Each record contains its number. A worker counts this number in shared memory.
    """
    ring, sums = Region(RECORDS, COUNT), Region(RECORDS, 3 * 1000)
    partition = WorkPartition(COUNT, most=5)
    workers = []
    for worker in range(3):
        child = os.fork()
        if not child:
            for part in partition.ranges():
                sums.records[1000 * worker + ring.records[part]] += 1
            os._exit(0)
        workers.append(child)
    # Distribution does not wait for workers, so each round writes as many records as workers have
    # taken.
    written = 0
    for step in (1, 7, 50, 64, 3, 60):
        while sums.records.sum() < written:
            os.sched_yield()
        new = np.arange(written, written + step)
        ring.records[new % COUNT] = new
        written += step
        partition.distribute(written)
    partition.end()
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in workers] == [0] * 3
    taken = sums.records.reshape(3, 1000).sum(0)
    assert (taken[:written] == 1).all()
    assert not taken[written:].any()
    assert partition.overrun == 0


def handed_out(partition: WorkPartition) -> list[tuple[int, int]]:
    """Return all waiting ranges."""
    partition.end()
    found = []
    while message := os.read(partition._reading, 16):
        at, length = np.frombuffer(message, "<u8").tolist()
        found.append((at, at + length))
    return found


def test_what_was_overwritten_is_counted_and_not_handed_out() -> None:
    partition = WorkPartition(COUNT, most=1000)
    partition.distribute(COUNT + 10)
    partition.distribute(COUNT + 10)  # more than a lap
    assert handed_out(partition) == [(10, COUNT), (0, 10)]
    assert partition.overrun == 10


def test_a_switch_reports_slots() -> None:
    partition = WorkPartition(COUNT, most=1000)
    for slot in (31, 63, 15, 15):  # the last element is a whole lap
        partition.distribute_to_slot(slot)
    assert handed_out(partition) == [(0, 32), (32, 64), (0, 16), (16, 64), (0, 16)]
    assert partition.overrun == 0


def test_immediates_wrap_after_32_bits() -> None:
    partition = WorkPartition(COUNT, most=1000)
    partition._given = (1 << 32) - 2
    partition.distribute(3)
    assert handed_out(partition) == [(62, 64), (0, 3)]
