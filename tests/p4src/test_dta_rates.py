"""Rate limits of sessions, and what happens to reports that exceed them."""

from dta_path import ours
from test_dta_sequence import ONE, Prototype, Tracked

from collectors.dta.packets import KeyIncrement

INTERVAL_US = 10


def test_so_many_requests_in_a_time() -> None:
    """A session may send a burst of 4 requests, and then one per interval.

    After a long pause, it may send another burst of 4 requests, but no more.
    """
    made = Tracked()
    made.limit(1, INTERVAL_US * 1000, burst_ns=3 * INTERVAL_US * 1000)
    made.take(*range(8), retransmittable=0)
    assert made.count == 4
    made.take(8, 9, 10, retransmittable=0, time_us=2 * INTERVAL_US)
    assert made.count == 6
    made.take(11, retransmittable=0, time_us=3 * INTERVAL_US - 1)
    assert made.count == 6
    made.take(*range(12, 20), retransmittable=0, time_us=1000 * INTERVAL_US)
    assert made.count == 10
    assert made.events(1) == {"translated": 10, "too fast": 10}
    assert made.nacks == []


def test_each_copy_takes_its_part_of_the_rate() -> None:
    made = Tracked()
    made.limit(1, INTERVAL_US * 1000)
    four = KeyIncrement(redundancy=4, key=1, addend=1)
    taken = [made.report(ours(four), time_us) for time_us in (0, 39, 40, 41, 80)]
    assert taken == [1, 0, 1, 0, 1]  # of four rows, only one is in the region
    assert made.session_events()["out of region"] == 9


def test_reports_over_the_rate_are_requested_again() -> None:
    made = Tracked()
    made.limit(1, INTERVAL_US * 1000)
    made.take(0, 1, 2)
    assert (made.count, made.asked(), made.missing) == (1, [(1, 1), (2, 1)], 2)
    made.take(1, time_us=INTERVAL_US)
    made.take(2, time_us=INTERVAL_US + 1)  # this retransmission is too early again
    assert made.missing == 1
    made.take(2, time_us=2 * INTERVAL_US)
    made.take(3, time_us=3 * INTERVAL_US)
    assert (made.count, made.missing) == (4, 0)
    assert made.asked() == [(1, 1), (2, 1), (2, 1)]
    assert made.events(1) == {"translated": 4, "too fast": 3, "nacked": 3, "recovered": 2}


def test_a_report_over_the_rate_after_a_gap_is_requested_with_the_gap() -> None:
    made = Tracked()
    made.limit(1, INTERVAL_US * 1000)
    made.take(0, 3)
    assert (made.asked(), made.missing) == ([(1, 3)], 3)


def test_a_report_that_comes_twice_takes_nothing_of_the_rate() -> None:
    made = Tracked()
    made.limit(1, INTERVAL_US * 1000)
    made.take(0)
    made.take(0, 0, 1, time_us=INTERVAL_US)
    assert made.count == 2


def test_the_prototype_s_refused_report_is_asked_for_again() -> None:
    made = Prototype()
    made.limit(1, INTERVAL_US * 1000)
    made.take(1, 2)
    assert (made.count, made.asked()) == (1, [(1, 40044)])
    made.take(2, time_us=INTERVAL_US)
    assert made.count == 2


def test_other_sessions_have_their_own_rate() -> None:
    made = Tracked()
    made.limit(2, INTERVAL_US * 1000)
    for sequence in range(5):
        made.report(ours(ONE, sequence=sequence))
    assert made.count == 5
