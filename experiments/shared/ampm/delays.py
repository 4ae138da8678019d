"""Delays that each method measures, and true delays of the same packets."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controllers.ampm.records import (
    Delay,
    Point,
    PointRecord,
    first_packet_delay,
    mean_delay,
    pulse_delay,
    sample_delays,
)
from controllers.ampm.watch import Method
from experiments.shared.ampm.measurement import Outcome
from experiments.shared.ampm.stamps import between_us, passages
from telemark.errors import TestbedError
from telemark.results import statistics
from telemark.results.report import Check
from telemark.traffic.flows import Flow

# Marking method of each estimator; step marking has two estimators.
ESTIMATORS = {
    "first packet": Method.STEP,
    "mean": Method.STEP,
    "pulse": Method.PULSE,
    "double": Method.DOUBLE,
    "multiplexed": Method.MULTIPLEXED,
    "hashed": Method.STEP | Method.HASHED,
}
METHODS = [*dict.fromkeys(ESTIMATORS.values())]


@dataclass(frozen=True)
class DelaySample:
    """One delay in microseconds; None if not measured, for the reason in `problem`."""

    estimator: str
    block: int
    measured_us: float | None
    # true delay of the measured packet; for the mean estimator, of all delivered packets
    true_us: float | None
    within_us: float  # uncertainty of true_us (see stamps.py); 0 in virtual time
    problem: str = ""

    @property
    def outside_us(self) -> float | None:
        """By how much the measured delay is outside of the range of the true delay."""
        error_us = self.error_us
        return None if error_us is None else max(abs(error_us) - self.within_us, 0.0)

    @property
    def error_us(self) -> float | None:
        """Measured delay minus true delay."""
        if self.measured_us is None or self.true_us is None:
            return None
        return self.measured_us - self.true_us


def check_options(options: argparse.Namespace) -> None:
    """Raise TestbedError if the options leave nothing to measure."""
    if options.load and options.blocks < 2:
        raise TestbedError(
            "--blocks 1: the case with load needs at least 2 blocks; use more blocks or --load 0"
        )
    if 100 in options.loss:
        raise TestbedError(
            "--loss 100: no packet arrives, so there is no delay; use a lower loss ratio"
        )


def check_samples_are_fair(
    name: str, samples: Sequence[DelaySample], all_us: NDArray[np.float64]
) -> list[Check]:
    """Check that the delays of hashed samples have the same distribution as all delays.

    There is no check for one to three samples, because chance alone could cause any distance.
    """
    hashed = [s for s in samples if s.estimator == "hashed"]
    sampled = np.array([s.true_us for s in hashed if s.true_us is not None])
    likely = statistics.expected_ks_distance(len(sampled))
    if len(sampled) and likely >= 1:
        return []
    distance = statistics.ks_distance(sampled, all_us) if len(sampled) else float("nan")
    what = "hashed: Kolmogorov-Smirnov distance to all packets"
    return [Check(f"{name}, {what}", distance, 0, likely)]


def true_delays_us(
    outcome: Outcome, flow: Flow, first: Point, second: Point
) -> tuple[NDArray[np.float64], ...]:
    """Return the min and max true delay of each packet; NaN for packets that missed a point."""
    found = passages(
        outcome.truths[flow.id], outcome.handling.get(flow.id, {}), outcome.inside.get(flow.id, {})
    )
    return between_us(found[first], found[second])


def measure_delays(
    outcome: Outcome, flow: Flow, methods: Method, segment: tuple[Point, Point]
) -> list[DelaySample]:
    """Return all delays of a flow between two points, in all complete blocks."""
    bounds_us = true_delays_us(outcome, flow, *segment)
    truth = outcome.truths[flow.id]
    inside = outcome.inside.get(flow.id, {}).get(segment[0].switch)
    # `inside` is only known on bmv2; captures of minip4 have the timestamps that minip4 itself uses
    came_ns = inside or (truth.time_ns[segment[0]],) * 2
    samples = []
    for block in outcome.blocks:
        first, second = (outcome.record(flow, point, block) for point in segment)
        if first is None or second is None:
            continue
        here = truth.passed(segment[0]) & (truth.block == block)
        for estimator, delay, came in _measured(methods, first, second):
            if estimator == "mean":
                chosen = here
            elif came is None:
                chosen = here & truth.pulse
            else:
                chosen = here & (came_ns[0] // 1000 <= came) & (came <= came_ns[1] // 1000)
            taken_us = _together(estimator, *(bound[chosen] for bound in bounds_us))
            samples.append(
                DelaySample(
                    estimator,
                    block,
                    delay.delay_us,
                    None if taken_us is None else sum(taken_us) / 2,
                    0.0 if taken_us is None else (taken_us[1] - taken_us[0]) / 2,
                    delay.problem,
                )
            )
    return samples


def _together(
    estimator: str, min_us: NDArray[np.float64], max_us: NDArray[np.float64]
) -> tuple[float, float] | None:
    """Combine the bounds of delays to one range; None if no delay is known.

    For the estimator "mean", the range is the average of the bounds.
    """
    known = ~np.isnan(min_us)
    if not known.any():
        return None
    if estimator == "mean":
        return float(min_us[known].mean()), float(max_us[known].mean())
    return float(min_us[known].min()), float(max_us[known].max())


def _measured(
    methods: Method, first: PointRecord, second: PointRecord
) -> Iterator[tuple[str, Delay, int | None]]:
    """Yield estimator, delay, and time of the packet at the first point (None for a pulse)."""
    # After a comparison with Method.STEP, mypy would take combinations of flags for unreachable.
    if methods == Method.STEP.value:
        yield "first packet", first_packet_delay(first, second), first.first_us
        yield "mean", mean_delay(first, second), None
    elif Method.HASHED in methods:
        for came_us, delay_us in sample_delays(first, second)[0].items():
            yield "hashed", Delay(first.block, delay_us), came_us
    else:
        (name,) = (name for name, marked in ESTIMATORS.items() if marked == methods)
        yield name, pulse_delay(first, second), None
