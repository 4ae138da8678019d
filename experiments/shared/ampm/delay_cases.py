"""The settings of ampm_delay.py's link, and what was found in each of them."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Bounds
from experiments.shared.ampm.delays import METHODS, DelaySample
from experiments.shared.ampm.measurement import Outcome, Summary, fitting
from experiments.shared.ampm.stamps import widths


@dataclass(frozen=True)
class Case:
    """One setting of the link."""

    name: str
    delay_us: float
    bounds: Bounds  # which blocks are chosen by
    load: float = 0.0  # share of RATE_BPS; 0: a link without a rate
    loss: float = 0.0  # 0..1

    @property
    def schedule(self) -> Schedule:
        """The shortest blocks that do for all methods."""
        return fitting(METHODS, self.bounds)


@dataclass(frozen=True)
class Row:
    """One delay that was measured, or not."""

    case: Case
    seed: int
    sample: DelaySample
    loaded: bool  # there was background traffic

    def as_dict(self) -> dict[str, object]:
        """A line of samples.csv."""
        sample = dataclasses.asdict(self.sample)
        case = {"case": self.case.name, "seed": self.seed, "loaded": int(self.loaded)}
        return {**case, **sample, "error_us": self.sample.error_us}


@dataclass
class Results:
    """Of runs of one case."""

    case: Case
    rows: list[Row]
    summaries: list[Summary]
    stamped: list[Outcome]  # of those whose switches logged when they handled packets
    true_us: NDArray[np.float64]  # of every packet of the loaded blocks

    @classmethod
    def of(cls, runs: Sequence["Results"]) -> "Results":
        """All of several."""
        return cls(
            runs[0].case,
            [row for run in runs for row in run.rows],
            [summary for run in runs for summary in run.summaries],
            [outcome for run in runs for outcome in run.stamped],
            np.concatenate([run.true_us for run in runs]),
        )

    def known(self, estimator: str) -> list[DelaySample]:
        """All delays that are known, and what they should be.

        Where the link loses nothing, without means of which a problem says that packets were lost.
        """
        return [
            row.sample for row in self.rows
            if row.sample.estimator == estimator and row.sample.error_us is not None
            and (self.case.loss or not row.sample.problem)
        ]  # fmt: skip

    def errors_us(self, estimator: str) -> NDArray[np.float64]:
        """Measured minus true."""
        return np.array([sample.error_us for sample in self.known(estimator)])

    def outside_us(self, estimator: str) -> NDArray[np.float64]:
        """How far delays lie outside of what the true ones can be."""
        return np.array([sample.outside_us for sample in self.known(estimator)])

    @property
    def widths_us(self) -> dict[str, NDArray[np.float64]]:
        """How wide the enclosures of all packets' stamps are; nothing in virtual time."""
        found: dict[str, list[NDArray[np.float64]]] = {}
        for outcome in self.stamped:
            for flow, handling in outcome.handling.items():
                for name, width in widths(outcome.truths[flow], handling).items():
                    found.setdefault(name, []).append(width)
        return {name: np.concatenate(parts) for name, parts in found.items()}


def kinds_of(found: Sequence[Results]) -> tuple[list[Results], list[Results], list[Results]]:
    """The cases that differ by delay, that with a load, and those with loss."""
    by_delay = [r for r in found if not r.case.load and not r.case.loss]
    return by_delay, [r for r in found if r.case.load], [r for r in found if r.case.loss]
