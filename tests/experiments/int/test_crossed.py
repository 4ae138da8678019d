"""Clock offsets from traffic in both directions: the checks detect errors above the bound."""

from argparse import Namespace
from itertools import pairwise
from pathlib import Path

import pytest
from scripts import module
from virtual_networks import virtually

from collectors.int.clocks import ClockOffset

crossed = module("experiments.shared.int.clock_offset")


@pytest.mark.parametrize(("off_ns", "is_right"), [(0, True), (8_000, True), (-8_001, False)])
def test_as_wrong_as_the_method_says(off_ns: int, is_right: bool) -> None:
    """A measured clock offset is right if its error is at most the sum of three terms.

    The terms are the method's own bound, the error of the true offset, and a microsecond of
    resolution.
    """
    each = crossed.Crossed(ClockOffset(1, 2, 3e6 + off_ns, 5000.0), 3_000_000, 2000.0)
    assert each.is_right == is_right
    checks = crossed.check_clocks([each] * 4)
    assert [check.passed for check in checks] == [True, is_right]


def test_all_neighbours_are_to_be_found() -> None:
    each = crossed.Crossed(ClockOffset(1, 2, 0.0, 0.0), 0, 0.0)
    for found in (3, 5):
        checks = crossed.check_clocks([each] * found)
        assert [check.passed for check in checks] == [False, True]


def test_clocks_are_found_where_both_ways_take_as_long(tmp_path: Path) -> None:
    options = Namespace(program="p4src/int/int.p4")
    found = virtually(tmp_path, lambda run: crossed.measure_crossed(options, run, delay_us=500))
    ahead_us = [*crossed.AHEAD_US.values()]
    assert [each.found.ahead_ns for each in found] == pytest.approx(
        [1000 * (after - before) for before, after in pairwise(ahead_us)],
        abs=1000,
    )
