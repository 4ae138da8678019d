"""Cases of ampm_delay.py and results of the cases."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Bounds
from experiments.shared.ampm.delays import METHODS, DelaySample
from experiments.shared.ampm.measurement import Outcome, Summary, shortest_schedule
from experiments.shared.ampm.stamps import widths


@dataclass(frozen=True)
class Case:
    """One configuration of the link."""

    name: str
    delay_us: float
    bounds: Bounds  # bounds of clock error and delay, which determine the block length
    load: float = 0.0  # load as a fraction of RATE_BPS; 0 means a link without a rate limit
    loss: float = 0.0  # loss ratio of the link

    @property
    def schedule(self) -> Schedule:
        """Schedule with the shortest blocks that suit all methods."""
        return shortest_schedule(METHODS, self.bounds)


@dataclass(frozen=True)
class Row:
    """One delay sample of a case. The delay may be unknown."""

    case: Case
    seed: int
    sample: DelaySample
    loaded: bool  # True if there was background traffic

    def as_dict(self) -> dict[str, object]:
        """Return a row of samples.csv."""
        sample = dataclasses.asdict(self.sample)
        case = {"case": self.case.name, "seed": self.seed, "loaded": int(self.loaded)}
        return {**case, **sample, "error_us": self.sample.error_us}


@dataclass
class Results:
    """Results of all runs of one case."""

    case: Case
    rows: list[Row]
    summaries: list[Summary]
    stamped: list[Outcome]  # runs with a stamp log of the switches
    true_us: NDArray[np.float64]  # delays of all packets of the loaded blocks

    @classmethod
    def of(cls, runs: Sequence["Results"]) -> "Results":
        """Merge the results of several runs."""
        return cls(
            runs[0].case,
            [row for run in runs for row in run.rows],
            [summary for run in runs for summary in run.summaries],
            [outcome for run in runs for outcome in run.stamped],
            np.concatenate([run.true_us for run in runs]),
        )

    def known(self, estimator: str) -> list[DelaySample]:
        """Return all delays of an estimator whose measured and true values are known.

        If the link loses no packets, means of blocks with reported loss are left out.
        """
        return [
            row.sample for row in self.rows
            if row.sample.estimator == estimator and row.sample.error_us is not None
            and (self.case.loss or not row.sample.problem)
        ]  # fmt: skip

    def errors_us(self, estimator: str) -> NDArray[np.float64]:
        """Return the measured minus the true delays, in microseconds."""
        return np.array([sample.error_us for sample in self.known(estimator)])

    def outside_us(self, estimator: str) -> NDArray[np.float64]:
        """Return by how much measured delays are outside of the ranges of the true delays."""
        return np.array([sample.outside_us for sample in self.known(estimator)])

    @property
    def widths_us(self) -> dict[str, NDArray[np.float64]]:
        """Return timestamp uncertainties of all packets, in us. There are none in virtual time."""
        found: dict[str, list[NDArray[np.float64]]] = {}
        for outcome in self.stamped:
            for flow, handling in outcome.handling.items():
                for name, width in widths(outcome.truths[flow], handling).items():
                    found.setdefault(name, []).append(width)
        return {name: np.concatenate(parts) for name, parts in found.items()}


def split_by_kind(found: Sequence[Results]) -> tuple[list[Results], list[Results], list[Results]]:
    """Split results into cases with different delays, cases with load and cases with loss."""
    by_delay = [r for r in found if not r.case.load and not r.case.loss]
    return by_delay, [r for r in found if r.case.load], [r for r in found if r.case.loss]
