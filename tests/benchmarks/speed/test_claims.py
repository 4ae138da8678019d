"""Limits and verdicts of benchmarks/speed/shared/claims.py, for different numbers of rounds."""

import pytest

from benchmarks.speed.shared import claims
from telemark.errors import IDLE_MACHINE, TestbedError


@pytest.mark.parametrize(
    ("kind", "measured", "passed"),
    [("AtLeast", 10, True), ("AtLeast", 9.99, False), ("AtLeast", float("nan"), False),
     ("AtMost", 10, True), ("AtMost", 10.01, False), ("AtMost", float("nan"), False)],
)  # fmt: skip
def test_limits(kind: str, measured: float, passed: bool) -> None:
    assert getattr(claims, kind)("name", measured, 10).passed is passed


@pytest.mark.parametrize(
    ("kind", "found", "passed"),
    [("AtLeast", [10], True), ("AtLeast", [1, 10, 11], True), ("AtLeast", [9, 8, 7], False),
     ("AtMost", [10], True), ("AtMost", [99, 10, 9], True), ("AtMost", [11, 12, 13, 14], False)],
)  # fmt: skip
def test_the_median_of_rounds_decides(kind: str, found: list[float], passed: bool) -> None:
    assert getattr(claims, kind).of_rounds("name", found, 10).passed is passed


@pytest.mark.parametrize("found", [[0.3], [0.3, 0.2], [0.3, 0.2, 0.5], [0.1, 0.5, 0.1, 0.1, 0.1]])
def test_too_few_rounds_that_break_a_claim_decide_nothing(found: list[float]) -> None:
    words = rf"^run invalid: of its rate, at least 0.4: measured .* {IDLE_MACHINE}$"
    with pytest.raises(TestbedError, match=words):
        claims.AtLeast.of_rounds("of its rate, at least", found, 0.4)
