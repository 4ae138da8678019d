"""Load on the machine makes a run inconclusive, but never hides other errors."""

from types import SimpleNamespace

import numpy as np
import pytest
from scripts import module

from controllers.ampm.records import Point
from telemark.errors import TestbedError
from telemark.results.report import Check

ampm = module("experiments.shared.ampm.measurement")
truth_module = module("experiments.shared.ampm.truth")
UNREAD, WRONG = "at 1 %: unread blocks", "at 1 %: packets in a wrong block"
END = Point("s1", "departures")


@pytest.mark.parametrize(
    ("unread", "wrong", "virtual", "is_invalid"),
    [(0, 0, False, False), (9, 0, False, True), (9, 1, False, False), (0, 1, False, False),
     (9, 0, True, False)],
)  # fmt: skip
def test_a_run_is_invalid_where_the_machine_alone_failed_a_check(
    unread: int, wrong: int, virtual: bool, is_invalid: bool
) -> None:
    checks = [Check(UNREAD, unread, 0, 3), Check(WRONG, wrong, 0)]

    def judge() -> list[Check]:
        judged: list[Check] = ampm.reject_if_disturbed(
            checks, ["unread blocks"], "stood still for 7 ms", virtual=virtual
        )
        return judged

    if is_invalid:
        with pytest.raises(TestbedError) as raised:
            judge()
        assert str(raised.value) == (
            "run invalid: at 1 %: unread blocks: 9, expected 0 +- 3; "
            "stood still for 7 ms; reduce the load on the machine"
        )
    else:
        assert judge() == checks


def truth_of(delays_us: list[int]) -> object:
    """Return the ground truth of packets: one is sent per ms, and leaves s1 after its delay."""
    sent_ns = 1_000_000 * np.arange(1, len(delays_us) + 1)
    left_ns = sent_ns + 1000 * np.array(delays_us)
    points = {Point("s1", "arrivals"): sent_ns + 50_000, END: left_ns}
    block = np.zeros(len(delays_us), np.int64)
    return truth_module.Truth(("s1",), block, block > 0, points, sent_ns, sent_ns, left_ns)


@pytest.mark.parametrize(("longest_us", "is_invalid"), [(900, False), (1000, True), (5000, True)])
def test_packets_that_came_later_than_is_supposed_make_a_run_invalid(
    longest_us: int, is_invalid: bool
) -> None:
    truth = truth_of([100, longest_us, 200])
    why = ampm.noise([truth], [])
    assert f"spent up to {(longest_us - 50) / 1000:.1f} ms in a switch" in why
    if is_invalid:
        with pytest.raises(TestbedError, match=f"packets took up to {longest_us} us to s1"):
            ampm.reject_late_packets("a run", truth, END, (0, 1000), why)
    else:
        ampm.reject_late_packets("a run", truth, END, (0, 1000), why)


BLOCK_US = 1000


@pytest.mark.parametrize(
    ("before_us", "after_us", "colour", "block"),
    [
        (2100, 2150, 0, 2),
        (2100, 2150, 1, 2),  # a wrong colour is always an error
        (2990, 3010, 0, 2),  # may be in either block: its colour decides
        (2990, 3010, 1, 3),
        (2990, 2999, 1, 2),
        (3000, 3010, 0, 3),
    ],
)
def test_a_packet_is_of_the_block_in_which_its_sender_handed_it_over(
    before_us: int, after_us: int, colour: int, block: int
) -> None:
    """A packet belongs to the block in which its send call took place.

    The timestamp in the capture has no influence on this.
    """
    stamped = tuple(np.array([1000 * us]) for us in (before_us, after_us))
    for captured_us in (before_us, after_us, 9000):
        found = truth_module._blocks(
            stamped, np.array([1000 * captured_us]), np.array([colour]), np.array([True]), BLOCK_US
        )
        assert found.tolist() == [block]


def test_a_call_that_lasted_for_more_than_a_block_makes_a_run_invalid() -> None:
    stamped = np.array([2_990_000]), np.array([4_010_000])
    with pytest.raises(TestbedError, match="sending a packet took longer than a block"):
        truth_module._blocks(stamped, stamped[0], np.array([0]), np.array([True]), BLOCK_US)


def test_packets_are_counted_by_the_block_and_lost_where_they_did_not_come() -> None:
    arrivals, left = Point("s1", "arrivals"), Point("s1", "departures")
    never = truth_module.NEVER
    block = np.array([never, 3, 4, 4, 5, 6])
    times = {
        arrivals: np.array([never, 10, 20, 30, 40, 50]),
        left: np.array([never, 12, never, 35, never, 51]),
    }
    truth = truth_module.Truth(("s1",), block, block > 9, times, block, block, block)
    assert truth.packets(arrivals, range(3, 6)).tolist() == [1, 2, 1]
    assert truth.lost(arrivals, left, range(3, 6)).tolist() == [0, 1, 1]
    assert truth.lost(left, arrivals, range(3, 6)).tolist() == [0, 0, 0]
    assert truth.delays_ns(arrivals, left, 4).tolist() == [5]


@pytest.mark.parametrize(
    ("error_us", "departed_us", "expected_us"),
    [(0, 190, (100, 150)), (3, 190, (97, 193)), (3, 120, (97, 153))],
)
def test_a_stamp_of_another_clock_is_taken_later_and_known_less_well(
    error_us: int, departed_us: int, expected_us: tuple[int, int]
) -> None:
    net = SimpleNamespace(switch=lambda _: SimpleNamespace(clock_error_us=error_us))
    sender = np.array([100_000]), np.array([150_000])
    departed_ns = np.array([1000 * departed_us])
    found = truth_module.stamped_between(net, "s1", sender, departed_ns)
    assert [times.tolist() for times in found] == [[1000 * us] for us in expected_us]


def test_worst_check_of_each_name_is_reported() -> None:
    checks = [
        Check("a", 1, 0),
        Check("b", 5, 5),
        Check("a", -3, 0),
        Check("b", 4, 5),
        Check("a", 2, 0),
    ]
    assert ampm.worst(checks) == [Check("a", -3, 0), Check("b", 4, 5)]


def test_packets_that_came_sooner_than_is_supposed_make_a_run_invalid() -> None:
    with pytest.raises(TestbedError, match="run invalid: a run: packets took up to 200 us"):
        ampm.reject_late_packets("a run", truth_of([100, 99, 200]), END, (99, 1000), "why")


@pytest.mark.parametrize(("measured_us", "outside_us"), [(12.0, 0), (15.0, 2), (5.0, 2)])
def test_a_delay_may_lie_anywhere_within_the_true_one_s_bounds(
    measured_us: float, outside_us: float
) -> None:
    sample = module("experiments.shared.ampm.delays").DelaySample(
        "pulse", 8, measured_us, 10.0, 3.0
    )
    assert sample.outside_us == outside_us


def test_on_bmv2_a_packet_is_as_late_as_when_it_has_left() -> None:
    """On bmv2, a packet counts as late if it left s1 late.

    bmv2 timestamps a packet after the panel has captured its arrival. In between, the packet may
    wait.
    """
    came = Point("s1", "arrivals")
    assert ampm.stamped_by(came, "minip4") == came
    for target, is_late in (("minip4", False), ("bmv2", True)):
        point = ampm.stamped_by(came, target)
        arguments = "x", truth_of([1000, 70_000]), point, (0, 60_000), "stood still"
        if is_late:
            with pytest.raises(TestbedError, match="packets took up to 70000 us to s1"):
                ampm.reject_late_packets(*arguments)
        else:
            ampm.reject_late_packets(*arguments)
