"""One-sided limits on values that were measured in several rounds."""

import statistics
from collections.abc import Sequence

from telemark.errors import BusyMachineError, note_invalid
from telemark.results.report import Check, Table, table

MIN_ROUNDS = 3  # with fewer rounds, other load on the machine may disturb all of them


class Claim(Check):
    """Limit, and the measured value that is compared with this limit."""

    @classmethod
    def of_rounds(cls, name: str, found: Sequence[float], limit: float) -> "Claim":
        """Compare the median of the rounds with the limit.

        If the median violates the limit, but some rounds do not, the run is inconclusive: other
        load on the machine may have disturbed the other rounds. This applies if there are at least
        MIN_ROUNDS rounds.
        """
        claim = cls(name, statistics.median(found), limit)
        broken = sum(not cls(name, value, limit).passed for value in found)
        if not claim.passed and broken < max(MIN_ROUNDS, len(found)):
            problem = (
                f"{name} {limit:g}: measured {min(found):.3g} to {max(found):.3g} in {len(found)} "
                f"rounds; a failure needs {max(MIN_ROUNDS, len(found))} rounds that agree"
            )
            note_invalid(BusyMachineError(problem))
        return claim


class AtLeast(Claim):
    """Claim with a lower limit."""

    @property
    def passed(self) -> bool:
        """Return whether the measured value reaches the limit."""
        return self.measured >= self.expected


class AtMost(Claim):
    """Claim with an upper limit."""

    @property
    def passed(self) -> bool:
        """Return whether the measured value is within the limit."""
        return self.measured <= self.expected


def ratios(these: Sequence[float], those: Sequence[float]) -> list[float]:
    """Return the ratio in each round; a disturbance of a round affects both values."""
    return [this / that for this, that in zip(these, those, strict=True)]


def claims_table(claims: Sequence[Check]) -> Table:
    """Return a table of the claims, the measured values and the results."""
    rows = [
        (c.name, c.measured, c.expected, "holds" if c.passed else "does not hold") for c in claims
    ]
    return table("Claims", ("claim", "measured", "limit", ""), rows)
