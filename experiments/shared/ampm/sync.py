"""For ampm_sync.py: theory of clock errors, and results of the decoders."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controllers.ampm.collector import BlockReport
from controllers.ampm.records import Point, pulse_delay
from controllers.ampm.watch import Method
from experiments.shared.ampm.error_bounds import Machine
from experiments.shared.ampm.measurement import reject_late_packets, stamped_by
from experiments.shared.ampm.stamps import between_us
from experiments.shared.ampm.truth import Interval, Truth
from telemark.errors import note_invalid

PATH = ("s1", "s2", "s3")
SENT = Point("s1", "departures")
LINK_DELAY_US = 1000
LOSS = 0.02  # loss ratio of each link
NOISE_US = 20_000  # max delay that a loaded machine may add in real time


ERRORS = (0, 0.05, 0.1, 0.15, 0.2, 0.21, 0.24, 0.3, 0.4, 0.45, 0.49, 0.55, 0.65, 0.8, 1, 1.25, 1.5,
          1.75, 2, 2.25, 2.5)  # fmt: skip
FEW_ERRORS = (0, 0.17, 0.3, 0.4, 0.6, 1, 2)
FEWEST_ERRORS = (0.1, 0.4, 0.6, 2)
FEWEST_ERRORS_ON_BMV2 = (0.05, 0.6)  # few values, because long blocks on bmv2 make each run long


@dataclass(frozen=True)
class Decoder:
    """A way to decode the block of a packet, and the bounds up to which it is exact."""

    name: str
    flow: int
    point: Point
    links: int  # number of links on the path to the point
    bound: float  # exact if A + D < bound (in units of L, see docs/reference/alternate-marking.md)
    count_bound: float  # bound for packet counts, without the pulse

    @property
    def loss(self) -> float:
        """Probability that a packet is lost on the way to the measuring point."""
        return 1 - (1 - LOSS) ** self.links


NEIGHBOURS = (-2, 0, 2)  # differences of block numbers with the same colour

METHODS = {1: Method.MULTIPLEXED, 2: Method.DOUBLE}  # flow id -> method
NAIVE = Decoder("multiplexed, bit alone", 1, Point("s2", "arrivals"), 1, 0, 0)
MULTIPLEXED = Decoder("multiplexed, time slots", 1, Point("s3", "arrivals"), 2, 7 / 32, 1 / 4)
DOUBLE = Decoder("double", 2, Point("s3", "arrivals"), 2, 1 / 2, 1 / 2)
DECODERS = (NAIVE, MULTIPLEXED, DOUBLE)


@dataclass(frozen=True)
class Setting:
    """Setting of a run. `error` is the clock error of s2 and s3 in block lengths; > 0: ahead."""

    error: float
    block_us: int
    seed: int

    @property
    def name(self) -> str:
        return f"A-{self.error:+g}-L-{self.block_us}-{self.seed}"

    @property
    def ahead_us(self) -> int:
        return round(self.error * self.block_us)

    @property
    def is_two_off(self) -> bool:
        """Return whether clocks are wrong by two blocks, which have the same colour."""
        return abs(self.error) == 2

    def lateness(self, decoder: Decoder) -> float:
        """Return the apparent lateness of packets at a decoder, A + D, in block lengths."""
        return self.error + decoder.links * LINK_DELAY_US / self.block_us

    def is_inside(self, decoder: Decoder, noise_us: float) -> bool:
        """Return whether the lateness is within the decoder's bound.

        Up to this bound, the decoder must be exact.
        """
        return abs(self.lateness(decoder)) + noise_us / self.block_us < decoder.bound

    def misplaced(self, decoder: Decoder) -> float:
        """Return the fraction of a block that is counted in another block, by theory."""
        return min(max(abs(self.lateness(decoder)) - decoder.count_bound, 0), 1)


@dataclass(frozen=True)
class BlockResult:
    """Result of a decoder for one block, and ground truth."""

    setting: Setting
    decoder: Decoder
    block: int
    sent: float
    true_sent: int
    # number of counted packets. NaN if a record was overwritten before it was read; then the other
    # measured values are unknown, too
    counted: float
    # for each difference in block numbers: packets that arrived from the block with this difference
    arrived: dict[int, int]
    pulses: int
    true_pulses: int  # number of arrived pulses, 0 if the pulse was lost
    delay_error_us: float  # measured delay - true delay - clock difference; NaN without a pulse

    @property
    def error(self) -> float:
        """Measured loss minus true loss, in packets; NaN if unknown."""
        return (self.sent - self.counted) - (self.true_sent - self.arrived[0])

    @property
    def has_pulse_right(self) -> bool:
        """Return whether there is one pulse with the correct delay, or no pulse if it was lost."""
        # A delay that is computed from the pulse of another block has a larger error than this.
        another = self.setting.block_us / 64
        return self.pulses == self.true_pulses <= 1 and not abs(self.delay_error_us) > another

    @property
    def is_exact(self) -> bool:
        return self.error == 0 and self.has_pulse_right

    def has_count_of(self, distance: int) -> bool:
        """Return whether the count equals that of the block `distance` blocks later."""
        return self.counted == self.arrived[distance]

    def row(self) -> dict[str, object]:
        """Return a row of samples.csv."""
        return {
            "clock_error_L": self.setting.error,
            "block_us": self.setting.block_us,
            "seed": self.setting.seed,
            "decoder": self.decoder.name,
            "block": self.block,
            "sent": self.sent,
            "measured_loss": self.sent - self.counted,
            "true_loss": self.true_sent - self.arrived[0],
            "counted": self.counted,
            **{f"arrived_of_block{k:+d}": count for k, count in sorted(self.arrived.items())},
            "pulses": self.pulses,
            "true_pulses": self.true_pulses,
            "delay_error_us": self.delay_error_us,
        }


def result(
    setting: Setting, decoder: Decoder, reports: tuple[BlockReport, BlockReport], truth: Truth,
    passed: Mapping[Point, Interval],
) -> BlockResult:  # fmt: skip
    """Return the result of one decoder for a block, with ground truth.

    `reports`: the block report of s1, and that of s2 and s3. `passed`: map from point to bounds of
    packet times.
    """
    sent, come = reports
    block = sent.block
    first, second = sent.records[decoder.flow][SENT], come.records[decoder.flow][decoder.point]
    has_come = truth.passed(decoder.point)
    pulse = np.flatnonzero(truth.pulse & has_come & (truth.block == block))
    delay_us = pulse_delay(first, second).delay_us if first and second else None
    delay_error_us = float("nan")
    if delay_us is not None and len(pulse) == 1:
        min_us, max_us = (
            float(bound[pulse[0]]) for bound in between_us(passed[SENT], passed[decoder.point])
        )
        nearest_us = min(max(float(delay_us - setting.ahead_us), min_us), max_us)
        delay_error_us = delay_us - nearest_us - setting.ahead_us
    return BlockResult(
        setting, decoder, block,
        sent=first.packets if first else float("nan"),
        true_sent=int(np.count_nonzero(truth.block == block)),
        counted=second.packets if second else float("nan"),
        arrived={
            k: int(np.count_nonzero(has_come & (truth.block == block + k))) for k in NEIGHBOURS
        },
        pulses=second.pulses if second else 0,
        true_pulses=len(pulse),
        delay_error_us=delay_error_us,
    )  # fmt: skip


def law_packets(setting: Setting, decoder: Decoder, packets: float) -> float:
    """Return the sd of the loss error of a block with `packets` packets at random times.

    A fraction w of the block is counted in another block, and the same fraction of another block is
    counted in this one. The error is the difference of two independent numbers of packets, each
    with a variance of w * packets * (1 - loss).
    """
    return float(np.sqrt(2 * setting.misplaced(decoder) * packets * (1 - decoder.loss)))


def relative_scatter(blocks: int) -> float:
    """Return the relative standard deviation of the rms error of consecutive blocks.

    The error of a block has two terms, one of which it shares with the error of another block. The
    mean of the squares of n such normal variables has a relative sd of sqrt(3 / n). The square root
    of this mean has half of this relative sd.
    """
    return float(np.sqrt(3 / blocks) / 2)


def rms_by_run(results: Sequence[BlockResult]) -> NDArray[np.float64]:
    """Return the rms loss error per block in each run, in packets."""
    runs: dict[int, list[float]] = {}
    for r in results:
        runs.setdefault(r.setting.seed, []).append(r.error)
    means = [float(np.mean(np.square(errors))) for errors in runs.values()]
    return np.sqrt([mean for mean in means if not np.isnan(mean)] or [float("nan")])


def reject_noise(
    setting: Setting, truths: Mapping[int, Truth], machine: Machine, target: str, why: str
) -> None:
    """Make the run inconclusive if packets were so late that a decoder need not be exact."""
    for decoder in DECODERS:
        off = 0.0 if setting.is_two_off and decoder != NAIVE else setting.error
        if off != setting.error or setting.is_inside(decoder, machine.delay_us):
            min_us, max_us = (
                (sign * decoder.bound - off) * setting.block_us - sign * machine.clock_error_us
                for sign in (-1, 1)
            )
            name, point = f"{setting.name}, {decoder.name}", stamped_by(decoder.point, target)
            reject_late_packets(name, truths[decoder.flow], point, (min_us, max_us), why)


def without_unread(results: Sequence[BlockResult]) -> list[BlockResult]:
    """Remove blocks that were read too late, if decoders must be exact for these blocks.

    Beyond the bound of a decoder, missing records are part of its error. The run is inconclusive if
    more than half of the records are missing.
    """
    promised = [r for r in results if r.setting.is_two_off or r.setting.is_inside(r.decoder, 0)]
    missing = [r for r in promised if np.isnan(r.error)]
    if 2 * len(missing) > len(promised):
        note_invalid(f"{len(missing)} of {len(promised)} block records could not be read in time")
    return [r for r in results if r not in missing]


def choose_errors(options: argparse.Namespace) -> tuple[float, ...]:
    """Return the clock errors to test, in block lengths."""
    if options.time == "virtual":
        return FEW_ERRORS if options.quick else ERRORS
    if options.target == "bmv2" and options.quick:
        return FEWEST_ERRORS_ON_BMV2
    return FEWEST_ERRORS if options.quick else FEW_ERRORS


def group_by_error(
    results: Sequence[BlockResult], decoder: Decoder
) -> dict[float, list[BlockResult]]:
    """Group the blocks of a decoder by absolute clock error."""
    found: dict[float, list[BlockResult]] = {}
    for r in results:
        if r.decoder == decoder:
            found.setdefault(abs(r.setting.error), []).append(r)
    return found


def exact_percent(results: Sequence[BlockResult]) -> float:
    return 100 * sum(r.is_exact for r in results) / len(results)


def make_metrics(results: Sequence[BlockResult]) -> dict[str, object]:
    """Return rms error and percentage of exact blocks for each decoder and clock error."""
    return {
        decoder.name: {
            f"{error:g} L": {
                "rms_packets": float(rms_by_run(found).mean()),
                "exact_percent": exact_percent(found),
            }
            for error, found in group_by_error(results, decoder).items()
        }
        for decoder in DECODERS
    }
