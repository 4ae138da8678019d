"""A translator checks the sequence numbers of reporters, and requests each missing report once."""

import random

import pytest
from dta_path import REPORTER_ADDR, TRANSLATOR_ADDR, Translator, ours, tracked
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from collectors.dta.key_increment import COUNTER
from collectors.dta.key_write import slot
from collectors.dta.packets import (
    DTA,
    KeyIncrement,
    KeyWrite,
    Nack,
    Op,
    ShortKeyIncrement,
    ShortKeyWrite,
)

WINDOW = 1024
ONE = KeyIncrement(redundancy=1, key=1, addend=1)


class Tracked(Translator):
    """A translator that tracks reporter 7, with a single counter to which each report adds 1."""

    def __init__(self) -> None:
        super().__init__()
        self.region = self.session(1, COUNTER, 1, fetch_add=True)
        self.counters(1)
        self.track(1, 7)

    def take(self, *sequences: int, retransmittable: int = 1, time_us: int = 0) -> None:
        """Process reports of reporter 7 with these sequence numbers."""
        for sequence in sequences:
            frame = ours(ONE, reporter=7, sequence=sequence % (1 << 32),
                         retransmittable=retransmittable)  # fmt: skip
            self.report(frame, time_us)

    @property
    def count(self) -> int:
        """Return the value of the counter, which is the number of executed reports."""
        return int(self.region.records[0])

    def asked(self) -> list[tuple[int, int]]:
        """Return the first sequence number and the number of reports that each NACK requests."""
        return [(nack[DTA].sequence, nack[Nack].count) for nack in self.nacks]

    @property
    def missing(self) -> int:
        """Return how many reports are missing, as the translator counts them."""
        return self.engine.register_read("dta_missing", 1)


def test_nothing_is_asked_for_while_all_come() -> None:
    made = Tracked()
    made.take(*range(20))
    assert (made.count, made.nacks, made.missing) == (20, [], 0)
    assert made.events(1) == {"translated": 20}


def test_the_nack_byte_by_byte() -> None:
    made = Tracked()
    made.take(0, 4)
    (nack,) = made.nacks
    ip = IP(src=TRANSLATOR_ADDR, dst=REPORTER_ADDR, id=0, flags="DF")
    base = DTA(opcode=Op.NACK, reporter=7, sequence=1)
    expected = (Ether(src="02:00:00:00:00:fe", dst="02:00:00:00:00:01") / ip
                / UDP(sport=40042, dport=40044, chksum=0) / base / Nack(count=3))  # fmt: skip
    assert bytes(nack).hex() == bytes(expected).hex()


def test_a_missing_report_is_requested_once_and_accepted_later() -> None:
    made = Tracked()
    made.take(0, 3, 4)
    assert (made.asked(), made.count, made.missing) == ([(1, 2)], 3, 2)
    made.take(2, 1, 5)
    assert (made.asked(), made.count, made.missing) == ([(1, 2)], 6, 0)
    assert made.events(1) == {"translated": 6, "nacked": 1, "recovered": 2}


def test_duplicates_are_dropped() -> None:
    made = Tracked()
    made.take(0, 0, 1, 3, 1, 2, 2, 3)
    assert made.count == 4
    assert made.events(1) == {"translated": 4, "nacked": 1, "recovered": 1, "duplicate": 4}


@pytest.mark.parametrize("seed", range(3))
def test_any_order_within_the_window_counts_each_once(seed: int) -> None:
    """300 reports are executed once each, although they are reordered, and some are duplicated.

    The sequence numbers wrap.
    """
    rng = random.Random(seed)
    made, first = Tracked(), (1 << 32) - 150
    made.engine.register_write("dta_expected", 1, first)
    sent = [first + n for n in range(300) for _ in range(rng.randrange(1, 3))]
    late = sorted(range(len(sent)), key=lambda n: n + rng.uniform(0, 40))
    made.take(*(sent[n] for n in late))
    assert (made.count, made.missing) == (300, 0)


def test_the_window_is_known_to_its_end() -> None:
    made = Tracked()
    # the next expected number is WINDOW + 1, so that 1 is just inside the window
    made.take(0, *range(2, WINDOW + 1))
    made.take(1, 1, WINDOW + 1)
    assert (made.count, made.asked()) == (WINDOW + 2, [(1, 1)])
    assert made.events(1)["duplicate"] == 1


def test_the_longest_gap_that_is_asked_for_comes_whole() -> None:
    made = Tracked()
    made.take(WINDOW - 1, *range(WINDOW - 1))
    assert (made.count, made.missing, made.asked()) == (WINDOW, 0, [(0, WINDOW - 1)])


@pytest.mark.parametrize("away", [WINDOW, 1 << 31, (1 << 32) - WINDOW - 1])
def test_distant_numbers_are_a_restart(away: int) -> None:
    """A sequence number outside of the window counts as a restart of the reporter.

    The translator requests no reports before this number, because no reporter stores so many.
    """
    made = Tracked()
    made.take(0, away + 1, away + 2, away + 4)
    assert (made.count, made.asked()) == (4, [(away + 3, 1)])
    assert made.events(1)["restarted"] == 1


def test_reports_in_flight_at_the_start_are_not_missing() -> None:
    made = Tracked()
    made.engine.register_write("dta_expected", 1, 50)
    made.take(49, 50)
    assert (made.count, made.missing) == (2, 0)


def test_a_gap_is_asked_for_whoever_shows_it() -> None:
    """A gap is requested even if the report that shows it cannot be retransmitted.

    The reporter may be able to retransmit the missing reports.
    """
    made = Tracked()
    made.take(2, retransmittable=0)
    assert (made.asked(), made.count) == ([(0, 2)], 1)


def test_each_reporter_has_its_own_numbers() -> None:
    made = Tracked()
    made.track(2, 8)
    made.track(3, 7, "10.0.0.77")
    for sequence in range(4):
        made.take(sequence)
        made.report(ours(ONE, reporter=8, sequence=sequence))
        made.report(ours(ONE, reporter=7, sequence=sequence, src="10.0.0.77"))
    assert (made.count, made.nacks) == (12, [])


def test_of_others_numbers_are_not_minded() -> None:
    made = Tracked()
    for sequence in (5, 5, 900, 3):
        made.report(ours(ONE, reporter=9, sequence=sequence, retransmittable=1))
    assert (made.count, made.nacks) == (4, [])
    assert made.events(0) == {"translated": 4}


def test_a_report_without_a_place_has_come_all_the_same() -> None:
    """A report that is rejected because it has no store is not requested again.

    A resent report would be rejected again.
    """
    made = Tracked()
    made.take(0)
    made.report(ours(KeyWrite(redundancy=1, key=1, data=[1]), reporter=7, sequence=1))
    made.take(2)
    assert (made.count, made.nacks) == (2, [])
    assert made.events(1) == {"translated": 2, "not configured": 1}


SHORT = ShortKeyIncrement(redundancy=1, key=1, addend=1)


class Prototype(Tracked):
    """A translator that also tracks a reporter of the prototype.

    Reports of the prototype have no reporter number.
    """

    def __init__(self) -> None:
        super().__init__()
        self.track(2, 0)

    def take(self, *sequences: int, retransmittable: int = 1, time_us: int = 0) -> None:
        """Process reports of the prototype with these sequence numbers."""
        for sequence in sequences:
            frame = tracked(SHORT, seqnum=sequence % 256, retransmittable=retransmittable)
            self.report(frame, time_us)

    def asked(self) -> list[tuple[int, int]]:
        """Return the last accepted sequence number in each NACK, and the UDP port of each NACK."""
        return [(int(bytes(nack[UDP].payload)[0]), nack[UDP].dport) for nack in self.nacks]


def test_the_prototype_s_nack_byte_by_byte() -> None:
    made = Prototype()
    made.take(1, 3)
    (nack,) = made.nacks
    ip = IP(src=TRANSLATOR_ADDR, dst=REPORTER_ADDR, id=0, flags="DF")
    expected = (Ether(src="02:00:00:00:00:fe", dst="02:00:00:00:00:01") / ip
                / UDP(sport=40040, dport=40044, chksum=0) / b"\x01\x80")  # fmt: skip
    assert bytes(nack).hex() == bytes(expected).hex()


def test_the_prototype_accepts_no_report_after_a_gap_until_the_gap_is_filled() -> None:
    """Reports of the prototype after a gap are not written. Each of them causes a NACK.

    After the gap is filled, they are accepted.
    """
    made = Prototype()
    made.take(1, 2, 4, 5)
    assert (made.count, len(made.sent), made.asked()) == (2, 2, [(2, 40044)] * 2)
    made.take(3, 4, 5)
    assert (made.count, len(made.nacks)) == (5, 2)
    assert made.events(2) == {"translated": 5, "nacked": 2, "out of order": 2}


def test_a_prototype_report_with_several_copies_has_one_nack() -> None:
    """A prototype report with four copies that shows a gap causes one NACK, and no write."""
    made = Prototype()
    made.session(2, slot(1), 64)
    made.key_write(1, 64, first=2)
    made.take(1)
    report = ShortKeyWrite(redundancy=4, key=1, data=[9])
    made.report(tracked(report, seqnum=3, retransmittable=1))
    assert (len(made.sent), made.asked()) == (1, [(1, 40044)])
    made.report(tracked(report, seqnum=2, retransmittable=1))
    assert (len(made.sent), len(made.nacks)) == (5, 1)


def test_the_prototype_s_numbers_wrap_and_come_twice() -> None:
    made = Prototype()
    made.take(*(n for n in range(250, 520) for _ in range(2)))
    assert (made.count, made.nacks) == (270, [])
    assert made.events(2) == {"translated": 270, "duplicate": 270}


def test_duplicates_of_the_prototype_cause_no_nack() -> None:
    """Seven duplicates of prototype reports cause no NACK.

    Otherwise, each duplicate would cause retransmission of all later reports, and these would be
    duplicates, too.
    """
    made = Prototype()
    made.take(*range(250, 260), *range(253, 260), 260)
    assert (made.count, made.nacks) == (11, [])
    assert made.events(2) == {"translated": 11, "duplicate": 7}


@pytest.mark.parametrize(("behind", "nacks"), [(1, 0), (64, 0), (65, 1), (254, 1)])
def test_the_prototype_s_numbers_that_are_far_behind_are_ahead(behind: int, nacks: int) -> None:
    made = Prototype()
    made.take(30, 30 - behind)
    assert (made.count, len(made.nacks)) == (1, nacks)


@pytest.mark.parametrize("first", [0, 1, 77])
def test_the_prototype_s_first_report_may_have_any_number(first: int) -> None:
    made = Prototype()
    made.take(first, first + 1)
    assert (made.count, made.nacks) == (2, [])


def test_the_prototype_s_other_reports_have_no_numbers() -> None:
    made = Prototype()
    made.take(5)
    made.take(1, 77, 9, 5, retransmittable=0)
    made.take(6, 7)
    assert (made.count, made.nacks) == (7, [])
