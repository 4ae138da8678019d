"""Packet reordering: how does it affect loss measured with pulse and step marking?

A flow with double marking crosses a link from s1 to s2. The link loses some packets and delays
others, so that later packets overtake the delayed ones. Both methods measure the loss of the same
packets. Step marking compares the packet counts of one colour in the two switches. Pulse marking
compares the packet counts of the two switches at the time when the pulse passed. Step marking is
exact if no packet is late by half a block or more. Pulse marking is wrong by the number of packets
that changed order with the pulse. Assume that the link delays a fraction q of the packets until m
later packets have been sent. Then the mean of this number is 2 q (1 - q) m.

Claim: Step marking stays exact. The error of pulse marking equals the number of packets that
changed order with the pulse, 2 q (1 - q) m on average.

Published: "Time-Muxed Parsing in Marking-based Network Telemetry" (SYSTOR 2019) lists reordering as
an open problem of pulses ("out of order?"). RFC 9341, section 5: colours tolerate delays of 0.5
blocks.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from controllers.ampm.records import Point
from controllers.ampm.schedule import Schedule
from controllers.ampm.watch import Method
from experiments.shared.ampm import measurement
from experiments.shared.ampm.error_bounds import Machine, Workload, machine_for
from experiments.shared.ampm.measurement import MIN_BLOCK_US
from telemark.errors import TestbedError, note_invalid
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.results.statistics import rms
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep_seeds
from telemark.traffic.flows import Flow
from topologies.basic import Line

FLOW = 1
PATH = ("s1", "s2")
SENT, ARRIVED = Point("s1", "departures"), Point("s2", "arrivals")
LINK_DELAY_US = 1000
LOSS = 0.01
MARGIN = 3  # extra blocks before and after the measured blocks, for late packets
NOISE_US = 20_000  # max delay that a loaded machine may add in real time
UDP = 17

# Fraction q of delayed packets, and the number m of packets sent during the delay.
HELD, PACKETS = 0.1, 30
# numbers m of packets that are sent during the delay; a block has 1049 packets by default
SWEPT_PACKETS = (0, 1, 3, 10, 30, 100, 300, 470, 600, 750, 900)
SWEPT_HELD = (0.01, 0.03, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97, 1)
SOME = ((HELD, 0), (HELD, PACKETS), (0.5, PACKETS), (HELD, 300))
# Packets that are later than half a block arrive while the block is read. In real time, the result
# is then undefined.
BEYOND = (HELD, 900)
FAR = 2  # the figure annotates points that differ from theory by at least this factor
LONGEST_HELD_US = 900_000  # max delay; a network drains its links for 1 s before it stops


def add_options(parser: argparse.ArgumentParser) -> None:
    cli.add_rate_option(parser, 4000, "the flow")
    parser.add_argument(
        "--blocks", type=cli.positive_int, metavar="N",
        help="complete blocks per run (default: 40)",
    )  # fmt: skip
    measurement.add_block_option(parser, 2**18)
    measurement.add_common_options(parser)
    cli.add_metrics_option(parser)


@dataclass(frozen=True)
class Setting:
    """A link that delays a fraction `held` of the packets until `packets` others have been sent."""

    held: float
    packets: int
    rate: int
    block_us: int

    @property
    def name(self) -> str:
        return f"held-{self.held:g}-for-{self.packets}"

    @property
    def held_us(self) -> float:
        """Delay, including half a packet interval so that no two packets arrive simultaneously."""
        return (self.packets + 0.5) * 1e6 / self.rate if self.packets else 0.0

    @property
    def lateness(self) -> float:
        """Delay of late packets, in block lengths."""
        return (LINK_DELAY_US + self.held_us) / self.block_us

    def is_exact(self, noise_us: float) -> bool:
        """Return whether step marking must be exact if the machine adds `noise_us` of delay."""
        return self.lateness + noise_us / self.block_us < 1 / 2

    @property
    def overtaken(self) -> tuple[float, float]:
        """Return mean and mean square (theory) of how many packets change order with a pulse.

        A pulse that is not delayed overtakes the delayed packets among the m packets before it. A
        delayed pulse is overtaken by the packets without delay among the m packets after it.
        """
        m, come = self.packets, 1 - LOSS
        cases = ((1 - self.held, self.held * come), (self.held, (1 - self.held) * come))
        mean = sum(share * m * p for share, p in cases)
        return mean, sum(share * (m * p * (1 - p) + (m * p) ** 2) for share, p in cases)

    @property
    def pulse_error(self) -> float:
        """Return the rms loss error between two pulses for pulse marking, by theory."""
        return float(np.sqrt(2 * self.overtaken[1]))

    @property
    def step_error(self) -> float:
        """Return the rms loss error per block for step marking, by theory.

        Delayed packets that were sent in the last fraction w of a block are counted in the block
        after the next one.
        """
        part = min(max(self.lateness - 1 / 2, 0), 1)
        p = self.held * (1 - LOSS)
        return float(np.sqrt(2 * part * self.rate * self.block_us / 1e6 * p * (1 - p)))


@dataclass(frozen=True)
class BlockResult:
    """Loss of one block in packets: measured by both methods, and ground truth."""

    setting: Setting
    seed: int
    block: int
    step_loss: int
    true_loss: int
    # number of packets that the pulse overtook, minus number of packets that overtook the pulse;
    # NaN if the pulse was lost
    overtaken: float
    pulse_error: float  # measured minus true loss since the previous pulse; NaN if a pulse was lost

    @property
    def step_error(self) -> int:
        return self.step_loss - self.true_loss


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    is_virtual = options.time == "virtual"
    options.blocks = options.blocks or (12 if options.quick else 40)
    options.seeds = options.seeds or ((2 if options.quick else 10) if is_virtual else 1)
    in_order = make_network_setting(Setting(0, 0, options.rate, MIN_BLOCK_US), options)
    machine = await machine_for(Workload.of(in_order), NOISE_US, options, run)
    longest = max(packets for _, packets in delay_settings(options))
    if longest * 1e6 / options.rate > LONGEST_HELD_US:
        raise TestbedError(
            f"--rate {options.rate}: a packet is delayed until {longest} others are sent, which "
            f"takes more than {LONGEST_HELD_US / 1e6} s; use {longest * 1e6 / LONGEST_HELD_US:.0f}"
        )
    options.block_us = options.block_us or choose_block_us(options, machine)
    settings = [Setting(*pair, options.rate, options.block_us) for pair in delay_settings(options)]
    seeds = range(options.seed, options.seed + options.seeds)
    found = await sweep_seeds(measured, [(s, machine, options) for s in settings], seeds, run)
    noise_us = machine.delay_us
    results = {s: [result for here, _ in runs for result in here]
               for s, runs in zip(settings, found, strict=True)}  # fmt: skip
    checks = [check for s, here in results.items() for check in make_checks(s, here, noise_us)]
    accounting = [check for runs in found for _, held in runs for check in held]
    return Report(
        samples=[row(r) for found in results.values() for r in found],
        checks=[*checks, *measurement.worst(accounting)],
        metrics={setting.name: make_metrics(setting, found) for setting, found in results.items()},
        figure=draw(results),
        caption=caption(options),
        tables=[summary_table(results)],
    )


def delay_settings(options: argparse.Namespace) -> list[tuple[float, int]]:
    """Return pairs: the fraction q of delayed packets, and the number m of packets in the delay."""
    if options.time == "real":
        return [*SOME[1:3]] if options.quick else [*SOME]
    if options.quick:
        return [*SOME, BEYOND]
    return [*((HELD, m) for m in SWEPT_PACKETS), *((q, PACKETS) for q in SWEPT_HELD)]


def choose_block_us(options: argparse.Namespace, machine: Machine) -> int:
    """Return a block length that keeps step marking exact in the settings of virtual time."""
    settings = (Setting(*pair, options.rate, MIN_BLOCK_US) for pair in delay_settings(options))
    held_us = max((s.held_us for s in settings if s.is_exact(0)), default=0.0)
    return measurement.shortest_schedule(
        [Method.DOUBLE], machine.bounds(LINK_DELAY_US + held_us)
    ).block_us


def make_network_setting(setting: Setting, options: argparse.Namespace) -> measurement.Setting:
    """Return the flow, and a link that delays some of its packets."""
    schedule = Schedule(setting.block_us)
    blocks = options.blocks + 2 * MARGIN
    count = measurement.flow_count(setting.rate, blocks, schedule)
    return measurement.Setting(
        setting.name,
        Line(
            switches=len(PATH), loss_probability=LOSS, delay_us=LINK_DELAY_US,
            reorder_probability=setting.held if setting.packets else 0, reorder_us=setting.held_us,
        ),
        PATH,
        {Flow(FLOW, "h1", "h2", setting.rate, count): Method.DOUBLE},
        schedule,
        None,
        blocks,
        program=options.program,
    )  # fmt: skip


async def measured(
    setting: Setting, machine: Machine, options: argparse.Namespace, run: Run
) -> tuple[list[BlockResult], list[Check]]:
    """Run one setting with one seed."""
    outcome = await measurement.measure(make_network_setting(setting, options), run)
    reject_late_packets(setting, outcome, machine, options.target)
    return collect_results(setting, run.seed, outcome), outcome.checks("all runs")


def reject_late_packets(
    setting: Setting, outcome: measurement.Outcome, machine: Machine, target: str
) -> None:
    """Make the run inconclusive if packets were too late because the machine stalled."""
    if setting.is_exact(machine.delay_us):
        longest = (-float("inf"), setting.block_us / 2 - machine.clock_error_us)
        why, point = measurement.describe_noise([outcome]), measurement.stamped_by(ARRIVED, target)
        measurement.reject_late_packets(setting.name, outcome.truths[FLOW], point, longest, why)


def collect_results(setting: Setting, seed: int, outcome: measurement.Outcome) -> list[BlockResult]:
    """Return the results of complete blocks; the run is inconclusive if a block was not read."""
    truth = outcome.truths[FLOW]
    is_lost = truth.passed(SENT) & ~truth.passed(ARRIVED)
    lost_until = np.cumsum(is_lost)
    found = []
    before = float("nan")
    for block in outcome.blocks[MARGIN - 1 : -MARGIN]:
        report = outcome.reports[block]
        first, second = report.records[FLOW][SENT], report.records[FLOW][ARRIVED]
        if first is None or second is None:
            why = measurement.describe_noise([outcome])
            note_invalid(f"{setting.name}, block {block} was not read: {why}")
            continue
        overtaken = float("nan")
        pulse = np.flatnonzero(truth.pulse & (truth.block == block))
        if len(pulse) == 1 and second.pulses == 1:
            overtaken = float(first.pulse_count - second.pulse_count - lost_until[pulse[0]])
        found.append(
            BlockResult(
                setting, seed, block, first.packets - second.packets,
                int(np.count_nonzero(is_lost & (truth.block == block))),
                overtaken, overtaken - before,
            )
        )  # fmt: skip
        before = overtaken
    return found[1:]  # pulse marking does not measure the loss before the first pulse


def row(r: BlockResult) -> dict[str, object]:
    """Return a row of samples.csv."""
    return {
        "held_percent": 100 * r.setting.held,
        "held_us": r.setting.held_us,
        "seed": r.seed,
        "block": r.block,
        "true_loss": r.true_loss,
        "step_loss": r.step_loss,
        "pulse_overtaken": r.overtaken,
        "pulse_error": r.pulse_error,
    }


def make_checks(setting: Setting, results: Sequence[BlockResult], noise_us: float) -> list[Check]:
    """Check both methods against theory.

    Step marking must be exact within its bound and wrong beyond it. Pulse marking must be exact
    without reordering. With reordering, its error must agree with theory, unless the machine adds
    delays itself.
    """
    at = f"{100 * setting.held:g} % delayed by {setting.packets} packets"
    wrong = sum(r.step_error != 0 for r in results)
    checks = []
    if setting.is_exact(noise_us):
        checks.append(Check(f"{at}, step: wrong blocks", wrong, 0))
    elif setting.lateness > 1 / 2:
        # A late packet causes an error in two blocks. So the errors of n blocks are not
        # independent, and the mean of their squares has a relative sd of sqrt(3 / n).
        ratio = np.mean([r.step_error**2 for r in results]) / setting.step_error**2
        tolerance = 4 * np.sqrt(3 / len(results))
        checks.append(
            Check(f"{at}, step: mean square error (normalized to theory)", ratio, 1, tolerance)
        )
    overtaken = np.array([abs(r.overtaken) for r in results if not np.isnan(r.overtaken)])
    mean, mean_square = setting.overtaken
    if (
        setting.lateness < 1 / 2 and not noise_us
    ):  # with longer delays, two pulses change order with the same packets
        tolerance = 4 * np.sqrt((mean_square - mean**2) / max(len(overtaken), 1))
        found = overtaken.mean() if len(overtaken) else float("nan")
        checks.append(Check(f"{at}: packets reordered with a pulse (mean)", found, mean, tolerance))
    return checks


def rms_by_run(
    results: Sequence[BlockResult], error: Callable[[BlockResult], float]
) -> list[float]:
    seeds = sorted({r.seed for r in results})
    return [rms([error(r) for r in results if r.seed == seed]) for seed in seeds]


def make_metrics(setting: Setting, results: Sequence[BlockResult]) -> dict[str, object]:
    """Return rms loss errors per block in packets, measured and by theory."""
    return {
        "step_rms": rms([r.step_error for r in results]),
        "step_rms_theory": setting.step_error,
        "pulse_rms": rms([r.pulse_error for r in results]),
        "pulse_rms_theory": setting.pulse_error,
    }


def summary_table(results: dict[Setting, list[BlockResult]]) -> Table:
    """Return a table with a row per setting."""
    rows = [
        (f"{100 * s.held:g} %", s.packets, s.lateness, sum(r.step_error != 0 for r in found),
         *make_metrics(s, found).values())
        for s, found in results.items()
    ]  # fmt: skip
    columns = ("delayed", "by (packets)", "D (L)", "step: wrong blocks", "step: rms", "theory",
               "pulse: rms", "theory")  # fmt: skip
    return table("Loss error per block (packets)", columns, rows)


METHODS: tuple[tuple[str, Callable[[BlockResult], float], Callable[[Setting], float]], ...] = (
    ("pulse", lambda r: r.pulse_error, lambda s: s.pulse_error),
    ("step", lambda r: r.step_error, lambda s: s.step_error),
)


def draw(results: dict[Setting, list[BlockResult]]) -> Figure:
    """Draw errors by delay (left) and by the fraction of delayed packets (right)."""
    figure, (left, right) = plots.figure(2, height_in=2.7)
    one = next(iter(results))
    longest = max(s.packets for s in results)
    left_law = [replace(one, held=HELD, packets=m) for m in range(1, longest + 1)]
    shares = np.sin(np.linspace(0, np.pi / 2, 101)) ** 2  # dense where the curve is steep
    right_law = [replace(one, held=q, packets=PACKETS) for q in shares]
    longer = [s for s in results if s.held == HELD and s.packets]
    more = [s for s in results if s.packets == PACKETS]
    draw_errors(left, results, longer, left_law, lambda s: s.held_us / s.block_us)
    draw_errors(right, results, more, right_law, lambda s: 100 * s.held)
    left.axvline(1 / 2, color="black", linestyle=":", label="half a block")
    left.set_xscale("log")
    left.set_xlabel(f"Delay of {100 * HELD:g} % of the packets (block lengths)")
    left.set_yscale("symlog", linthresh=1)
    right.set_xlabel(f"Packets overtaken by {PACKETS} packets (%)")
    for axes, below, above in ((left, -0.12, 2), (right, -1, 1.1)):
        axes.set_ylim(below, above * axes.get_ylim()[1])
        axes.set_ylabel("RMS loss error (packets)")
        plots.legend(axes, 2)
    return figure


def draw_errors(
    axes: Axes, results: dict[Setting, list[BlockResult]], settings: Sequence[Setting],
    law: Sequence[Setting], x: Callable[[Setting], float],
) -> None:  # fmt: skip
    """Draw the measured and predicted errors of both methods in some settings."""
    for number, (name, error, theory) in enumerate(METHODS):
        colour = plots.COLOURS[number]
        runs = [rms_by_run(results[s], error) for s in settings]
        axes.errorbar(
            [x(s) for s in settings], [np.mean(r) for r in runs], [np.std(r) for r in runs],
            linestyle="", color=colour, marker=plots.MARKERS[number], label=name,
        )  # fmt: skip
        axes.plot([*map(x, law)], [*map(theory, law)], color=colour, marker="",
                  label=f"{name}, theory")  # fmt: skip
    for s in settings:
        explain(axes, x(s), s, results[s])


def explain(axes: Axes, x: float, setting: Setting, blocks: Sequence[BlockResult]) -> None:
    """Annotate points that are far from theory with the number of delayed pulses."""
    measured = float(np.mean(rms_by_run(blocks, lambda r: r.pulse_error)))
    smaller, larger = sorted([measured, setting.pulse_error])
    if larger <= FAR * smaller:
        return
    came = [r for r in blocks if not np.isnan(r.overtaken)]
    held = sum(r.overtaken < 0 for r in came)
    axes.annotate(
        f"{held} of {len(came)}\npulses delayed", (x, measured), (-8, 0), ha="right",
        textcoords="offset points", va="center", fontsize=7,
    )  # fmt: skip


def caption(options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    return (
        f"Loss error under packet reordering: {options.rate:,} packets/s, {options.blocks} blocks "
        f"of {options.block_us / 1e6:.3g} s, {100 * LOSS:g} % loss, "
        f"{plots.runs(options.seeds, options.time)}. (a) The link delays {100 * HELD:g} % of the "
        "packets; the delay varies. (b) The delay is fixed; the fraction of delayed packets "
        "varies. Theory is the mean over very many blocks. Each delayed pulse has a large effect "
        "on the measured error; points far from theory are labelled with the number of delayed "
        "pulses."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
