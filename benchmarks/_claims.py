"""What benchmarks promise: limits from one side, on what several rounds found."""

import statistics
from collections.abc import Sequence

from telemark.errors import TestbedError
from telemark.results.report import Check, Table, table

ENOUGH = 3  # rounds: what fewer say may be what their machine did in a moment


class Claim(Check):
    """One that was held against what was measured."""

    @classmethod
    def of_rounds(cls, name: str, found: Sequence[float], limit: float) -> "Claim":
        """It, on the median of rounds.

        Raises TestbedError where that breaks it, and not all of at least ENOUGH rounds do: what
        the machine does beside can break it in some, what is too slow is so in each.
        """
        claim = cls(name, statistics.median(found), limit)
        broken = sum(not cls(name, value, limit).passed for value in found)
        if not claim.passed and broken < max(ENOUGH, len(found)):
            raise TestbedError(
                f"run invalid: {name} {limit:g}: found {min(found):.3g} to {max(found):.3g} in "
                f"{len(found)} rounds, and {max(ENOUGH, len(found))} that agree decide; reduce "
                "the load on the machine"
            )
        return claim


class AtLeast(Claim):
    """A claim that something is as much."""

    @property
    def passed(self) -> bool:
        """Whether it is reached."""
        return self.measured >= self.expected


class AtMost(Claim):
    """A claim that something is no more."""

    @property
    def passed(self) -> bool:
        """Whether it is kept."""
        return self.measured <= self.expected


def ratios(these: Sequence[float], those: Sequence[float]) -> list[float]:
    """Of each round: what disturbs a whole round disturbs both."""
    return [this / that for this, that in zip(these, those, strict=True)]


def claims_table(claims: Sequence[Check]) -> Table:
    """Each claim, what was measured, and whether it holds."""
    rows = [
        (c.name, c.measured, c.expected, "holds" if c.passed else "does not hold") for c in claims
    ]
    return table("Claims", ("claim", "measured", "limit", ""), rows)
