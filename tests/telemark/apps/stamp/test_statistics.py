"""Loss and delay computed from records of STAMP sessions."""

import dataclasses
import struct
from collections.abc import Sequence

import numpy as np
import pytest

from telemark.apps.stamp.sender import REPLY, SessionRecord
from telemark.apps.stamp.statistics import measure_direct_loss, measure_path, summarize
from telemark.apps.stamp.tlvs import Tlv, TlvType
from telemark.errors import TestbedError


def record(
    sent: int, replies: Sequence[tuple[int, int]], *, stateful: bool = True
) -> SessionRecord:
    """Return a session; `replies` are pairs of a test packet and the number of its reply.

    Test packet N leaves at 1000 N, and needs 10 + N ns. The reflector waits for 5 ns, and replies
    need 20 ns.
    """
    rows = np.zeros(len(replies), REPLY)
    for place, (sequence, number) in enumerate(replies):
        t1 = 1000 * sequence
        t2 = t1 + 10 + sequence
        rows[place] = (sequence, number, t1, t2, t2 + 5, t2 + 25, 255, 255, 0)
    return SessionRecord(1000 * np.arange(sent), rows, [], 44, stateful, 2.0, {})


def test_delays_do_not_contain_the_time_in_the_reflector() -> None:
    path = measure_path(record(3, [(0, 0), (1, 1), (2, 2)]))
    assert path.forward_ns.tolist() == [10, 11, 12]
    assert path.backward_ns.tolist() == [20, 20, 20]
    assert path.round_trip_ns.tolist() == [30, 31, 32]
    assert (path.sent, path.answered, path.lost, path.loss_ratio) == (3, 3, 0, 0.0)


@pytest.mark.parametrize(
    ("sent", "replies", "forward", "backward", "unlocated"),
    [
        (5, [(0, 0), (2, 1), (4, 2)], 2, 0, 0),  # 1 and 3 did not arrive
        (5, [(0, 0), (2, 2), (4, 4)], 0, 2, 0),  # the replies to 1 and 3 did not arrive
        (5, [(0, 0), (3, 2)], 1, 1, 1),  # 4: after the last reply
        (4, [], 0, 0, 4),
        (3, [(0, 0), (2, 1), (1, 2)], 0, 0, 0),  # 2 overtook 1
        (4, [(0, 0), (2, 2)], 0, 1, 1),
        (3, [(0, 0), (0, 1), (2, 2)], 1, 0, 0),  # 0 arrived twice, and 1 did not arrive
        (3, [(0, 0), (2, 2), (2, 2)], 0, 1, 0),  # the last reply arrived twice
        (3, [(1, 2)], 0, 2, 0),  # 2 overtook 1, and the replies to 0 and 2 were lost
    ],
)
def test_losses_are_located(
    sent: int, replies: list[tuple[int, int]], forward: int, backward: int, unlocated: int
) -> None:
    path = measure_path(record(sent, replies))
    assert (path.lost_forward, path.lost_backward, path.lost_unlocated) == (
        forward, backward, unlocated
    )  # fmt: skip
    assert path.lost == forward + backward + unlocated


def test_a_stateless_reflector_locates_nothing() -> None:
    path = measure_path(record(5, [(0, 0), (2, 2)], stateful=False))
    assert (path.lost_forward, path.lost_backward, path.lost_unlocated) == (0, 0, 3)


def test_duplicates_and_reordering_are_counted() -> None:
    path = measure_path(record(4, [(0, 0), (2, 1), (1, 2), (1, 2), (3, 3), (0, 0)]))
    assert (path.duplicates, path.reordered, path.lost) == (2, 1, 0)
    assert path.sequence.tolist() == [0, 1, 2, 3]


def test_the_loss_of_no_packets_is_unknown() -> None:
    assert np.isnan(measure_path(record(0, [])).loss_ratio)


def test_statistics_of_delays() -> None:
    found = summarize(np.array([10, 30, 20, 40]))
    assert found is not None
    assert (found.count, found.minimum_ns, found.maximum_ns) == (4, 10, 40)
    assert (found.mean_ns, found.median_ns) == (25, 25)
    assert found.deviation_ns == pytest.approx(11.18, abs=0.01)
    assert found.p99_ns == pytest.approx(39.7)
    assert found.jitter_ns == pytest.approx(50 / 3)
    assert summarize(np.array([], np.int64)) is None


def test_one_delay_has_no_jitter() -> None:
    found = summarize(np.array([10]))
    assert found is not None
    assert found.jitter_ns == 0


def test_direct_loss_needs_counters() -> None:
    with pytest.raises(TestbedError, match="direct loss: no reply with counters"):
        measure_direct_loss(record(1, [(0, 0)]))


@pytest.mark.parametrize(
    ("replies", "forward", "backward"),
    [
        ([(0, 0), (1, 1), (2, 2)], 0, 0),
        ([(0, 0), (3, 1)], 2, 0),
        ([(0, 0), (3, 3)], 0, 2),
        ([(0, 0), (2, 2), (1, 1)], 0, 0),  # a reply overtook another one
        ([(0, 0), (2, 1), (1, 2)], 0, 0),  # a test packet overtook another one
        ([(0, 0), (1, 1), (1, 1)], 0, 0),  # a reply arrived twice
    ],
)
def test_direct_loss_is_that_of_the_counters(
    replies: list[tuple[int, int]], forward: int, backward: int
) -> None:
    counters = [(sequence + 1, number + 1, number + 1) for sequence, number in replies]
    tlvs = [[Tlv(TlvType.DIRECT_MEASUREMENT, struct.pack("!III", *c), 0)] for c in counters]
    session = dataclasses.replace(record(4, replies), tlvs=tlvs)
    assert measure_direct_loss(session) == (forward, backward)
