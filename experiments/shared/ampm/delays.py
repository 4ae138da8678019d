"""The delays that each method measures, and the true ones of the very packets that it measured."""

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

# How the flow is marked that a delay is measured of; step marking gives two.
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
    """One delay, in microseconds. None: the method has none, for the reason that it says."""

    estimator: str
    block: int
    measured_us: float | None
    true_us: float | None  # of the packet that was measured; the mean's: of all that came through
    within_us: float  # by which that may be wrong: see stamps.py; 0 in virtual time
    problem: str = ""

    @property
    def outside_us(self) -> float | None:
        """How far the measured delay lies outside of what the true one can be."""
        error_us = self.error_us
        return None if error_us is None else max(abs(error_us) - self.within_us, 0.0)

    @property
    def error_us(self) -> float | None:
        """Measured minus true."""
        if self.measured_us is None or self.true_us is None:
            return None
        return self.measured_us - self.true_us


def check_options(options: argparse.Namespace) -> None:
    """Raise TestbedError for what leaves nothing to measure."""
    if options.load and options.blocks < 2:
        raise TestbedError("--blocks 1: the load step takes half of two or more; or take --load 0")
    if 100 in options.loss:
        raise TestbedError("--loss 100: no packet arrives, so none has a delay; take less")


def samples_are_fair(
    name: str, samples: Sequence[DelaySample], all_us: NDArray[np.float64]
) -> list[Check]:
    """Delays of hashed samples are distributed as those of all packets, but for chance.

    No check where chance alone could do anything: with one to three samples.
    """
    hashed = [s for s in samples if s.estimator == "hashed"]
    sampled = np.array([s.true_us for s in hashed if s.true_us is not None])
    likely = statistics.expected_ks_distance(len(sampled))
    if len(sampled) and likely >= 1:
        return []
    distance = statistics.ks_distance(sampled, all_us) if len(sampled) else float("nan")
    what = "hashed: samples against all packets (Kolmogorov-Smirnov)"
    return [Check(f"{name}, {what}", distance, 0, likely)]


def true_delays_us(
    outcome: Outcome, flow: Flow, first: Point, second: Point
) -> tuple[NDArray[np.float64], ...]:
    """The least and the most that each packet took, by its sequence number; NaN where it was not at
    both points."""
    found = passages(
        outcome.truths[flow.id], outcome.handling.get(flow.id, {}), outcome.inside.get(flow.id, {})
    )
    return between_us(found[first], found[second])


def delays_of(
    outcome: Outcome, flow: Flow, methods: Method, segment: tuple[Point, Point]
) -> list[DelaySample]:
    """All delays of a flow between two points, in all complete blocks."""
    bounds_us = true_delays_us(outcome, flow, *segment)
    truth = outcome.truths[flow.id]
    inside = outcome.inside.get(flow.id, {}).get(segment[0].switch)
    came_ns = inside or (truth.time_ns[segment[0]],) * 2  # captures have minip4's own stamps
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
    """What packets took, whichever of them was measured; of all: in the mean. None: none came."""
    known = ~np.isnan(min_us)
    if not known.any():
        return None
    if estimator == "mean":
        return float(min_us[known].mean()), float(max_us[known].mean())
    return float(min_us[known].min()), float(max_us[known].max())


def _measured(
    methods: Method, first: PointRecord, second: PointRecord
) -> Iterator[tuple[str, Delay, int | None]]:
    """Estimator, delay, and when the packet was at the first point; None: it is the pulse."""
    if methods == Method.STEP.value:  # with Method.STEP, mypy does not know combined flags below
        yield "first packet", first_packet_delay(first, second), first.first_us
        yield "mean", mean_delay(first, second), None
    elif Method.HASHED in methods:
        for came_us, delay_us in sample_delays(first, second)[0].items():
            yield "hashed", Delay(first.block, delay_us), came_us
    else:
        (name,) = (name for name, marked in ESTIMATORS.items() if marked == methods)
        yield name, pulse_delay(first, second), None
