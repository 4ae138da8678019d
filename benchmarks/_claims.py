"""What benchmarks promise: limits from one side."""

from collections.abc import Sequence

from testbed.results.report import Check, Table, table


class AtLeast(Check):
    """A claim that was held against what was measured."""

    @property
    def passed(self) -> bool:
        """Whether it is reached."""
        return self.measured >= self.expected


class AtMost(Check):
    """A claim that was held against what was measured."""

    @property
    def passed(self) -> bool:
        """Whether it is kept."""
        return self.measured <= self.expected


def claims_table(claims: Sequence[Check]) -> Table:
    """Each claim, what was measured, and whether it holds."""
    rows = [
        (c.name, c.measured, c.expected, "holds" if c.passed else "does not hold") for c in claims
    ]
    return table("Claims", ("claim", "measured", "limit", ""), rows)
