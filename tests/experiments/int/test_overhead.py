"""The check of link rates detects every frame that departs or arrives at a wrong time."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scripts import module

from telemark.traffic.flows import RECEIVED, Flow, FlowRecord

overhead = module("experiments.shared.int.overhead")
COUNT = 5
CASE = overhead.Case(2, 16, Flow(1, "h1", "x3", 1000, COUNT, 128))
WIRE_NS = (128 + 16 + 2 * 16) * 800  # at 10 Mbit/s
LEFT_NS = 1000 + WIRE_NS * np.arange(COUNT)
FREE_NS = LEFT_NS + WIRE_NS + 100_000
WAITED = np.zeros(COUNT, np.int64)  # packets that have waited since time 0


def sent(
    left_ns: NDArray[np.int64], received_ns: NDArray[np.int64], *,
    taken_ns: NDArray[np.int64] = WAITED, handed_ns: NDArray[np.int64] = FREE_NS,
) -> object:  # fmt: skip
    """Return a flow with these times; each packet was delivered within 100 ns."""
    received = np.zeros(len(received_ns), RECEIVED)
    received["received_ns"] = received_ns
    record = FlowRecord(CASE.flow, np.zeros(0), received, 0, 0, 0, 0)
    return overhead.sent_by(CASE, record, (taken_ns, left_ns), (handed_ns, handed_ns + 100), 0)


def errors(found: object) -> tuple[float, ...]:
    return tuple(getattr(found, name) for name in ("link_error_ns", "host_error_ns", "early"))


def test_frames_at_the_computed_rate_have_no_error() -> None:
    found = sent(LEFT_NS, FREE_NS + 50)
    assert errors(found) == (0, 0, 0)
    assert found.goodput_bps == pytest.approx(1e7 * 86 / 176)  # type: ignore[attr-defined]
    assert found.goodput_bps == pytest.approx(CASE.goodput_bps)  # type: ignore[attr-defined]


def test_a_packet_that_left_at_another_time_is_reported() -> None:
    left_ns = LEFT_NS.copy()
    left_ns[3:] += 7
    assert errors(sent(left_ns, FREE_NS + 50))[0] == 7


def test_a_link_that_had_nothing_to_send_is_not_blamed() -> None:
    late_ns = np.where(np.arange(COUNT) >= 3, 5000, 0)
    taken_ns = np.where(late_ns, LEFT_NS + late_ns, 0)
    found = sent(LEFT_NS + late_ns, FREE_NS + late_ns, taken_ns=taken_ns,
                 handed_ns=FREE_NS + late_ns)  # fmt: skip
    assert errors(found) == (0, 0, 0)
    assert found.idle_ns == 5000  # type: ignore[attr-defined]
    assert found.goodput_bps == pytest.approx(CASE.goodput_bps)  # type: ignore[attr-defined]


def test_a_host_that_took_longer_than_its_packets_were_late_is_reported() -> None:
    received_ns = FREE_NS.copy()
    received_ns[-1] += 1100
    assert errors(sent(LEFT_NS, received_ns))[1] == 1000
    handed_ns = FREE_NS.copy()
    handed_ns[-1] += 1100  # the last packet was received late
    assert errors(sent(LEFT_NS, received_ns, handed_ns=handed_ns))[1] == 0


def test_a_packet_that_came_too_early_is_counted() -> None:
    assert errors(sent(LEFT_NS, FREE_NS - np.eye(COUNT, dtype=np.int64)[2]))[2] == 1


def test_with_lost_packets_no_time_is_judged() -> None:
    assert np.isnan(errors(sent(LEFT_NS, FREE_NS[:-1]))).all()
