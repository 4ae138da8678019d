"""The delays that each method measures, and the true ones of the very packets that it measured."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from _ampm import Outcome
from _truth import NEVER
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
from testbed import statistics
from testbed.errors import TestbedError
from testbed.results import Check
from testbed.traffic import Flow

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
    problem: str = ""

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
    likely = statistics.likely_distance(len(sampled))
    if len(sampled) and likely >= 1:
        return []
    distance = statistics.largest_distance(sampled, all_us) if len(sampled) else float("nan")
    what = "hashed: samples against all packets (Kolmogorov-Smirnov)"
    return [Check(f"{name}, {what}", distance, 0, likely)]


def true_delays_us(
    outcome: Outcome, flow: Flow, first: Point, second: Point
) -> NDArray[np.float64]:
    """What each packet took, by its sequence number; NaN where it was not at both points."""
    times_ns = outcome.truths[flow.id].time_ns
    return _between_us(times_ns[first], times_ns[second])


def kernel_errors_us(
    outcomes: Sequence[Outcome], segment: tuple[Point, Point]
) -> NDArray[np.float64]:
    """How far apart the switches' and the kernel's stamps are, in what each packet took."""
    first, second = segment
    errors = []
    for outcome in outcomes:
        for flow, came_ns in outcome.kernel_ns[first].items():
            kernel_us = _between_us(came_ns, outcome.kernel_ns[second][flow])
            times_ns = outcome.truths[flow].time_ns
            errors.append(abs(_between_us(times_ns[first], times_ns[second]) - kernel_us))
    return _known(errors)


def kernel_metrics(
    outcomes: Sequence[Outcome], segment: tuple[Point, Point]
) -> dict[str, dict[str, float]]:
    """Percentiles of that difference, and its cause: how much later than the kernel a switch stamps
    frames that it takes in, and how much earlier those that it hands out. Real time only."""
    if not outcomes[0].kernel_ns:
        return {}
    name = "delays by the switches' stamps against the kernel's, us"
    metrics = {name: statistics.percentiles(kernel_errors_us(outcomes, segment))}
    for point in segment:
        late_us = _known(
            [
                _between_us(kernel_ns, outcome.truths[flow].time_ns[point])
                for outcome in outcomes
                for flow, kernel_ns in outcome.kernel_ns[point].items()
            ]
        )
        name = f"{point.switch}, {point.name}: its stamp - the kernel's, us"
        metrics[name] = statistics.percentiles(late_us)
    return metrics


def _between_us(earlier_ns: NDArray[np.int64], later_ns: NDArray[np.int64]) -> NDArray[np.float64]:
    both = (earlier_ns != NEVER) & (later_ns != NEVER)
    return np.where(both, (later_ns - earlier_ns) / 1000, np.nan)


def _known(values: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    together = np.concatenate(values)
    return together[~np.isnan(together)]


def delays_of(
    outcome: Outcome, flow: Flow, methods: Method, segment: tuple[Point, Point]
) -> list[DelaySample]:
    """All delays of a flow between two points, in all complete blocks."""
    true_us = true_delays_us(outcome, flow, *segment)
    truth = outcome.truths[flow.id]
    came_us = truth.time_ns[segment[0]] // 1000
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
                chosen = here & (came_us == came)
            true = true_us[chosen]
            known = not np.isnan(true).all() if len(true) else False
            samples.append(
                DelaySample(
                    estimator,
                    block,
                    delay.delay_us,
                    float(np.nanmean(true)) if known else None,
                    delay.problem,
                )
            )
    return samples


def _measured(
    methods: Method, first: PointRecord, second: PointRecord
) -> Iterator[tuple[str, Delay, int | None]]:
    """Estimator, delay, and when the packet was at the first point; None: it is the pulse."""
    if methods == Method.STEP:
        yield "first packet", first_packet_delay(first, second), first.first_us
        yield "mean", mean_delay(first, second), None
    elif Method.HASHED in methods:
        for came_us, delay_us in sample_delays(first, second)[0].items():
            yield "hashed", Delay(first.block, delay_us), came_us
    else:
        (name,) = (name for name, marked in ESTIMATORS.items() if marked == methods)
        yield name, pulse_delay(first, second), None
