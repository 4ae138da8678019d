"""LightGuardian: how soon do hosts know the flows at each switch, and at what cost?

Each switch has a SuMax sketch, which counts the packets of each flow and records the largest
latency of the flow in the switch. Packets carry the sketches to the hosts in sketchlets. A
sketchlet is one column of a sketch; with its header, it has 24 bytes. The sketches are swapped
after each second. In the next second, hosts reconstruct them from sketchlets. The network has two
pods and Zipf flows between all hosts.

Paper: Zhao, Yang, Liu, Yang, Chen, Liu, Zheng, Wang, Wu, Wang and Zhang: LightGuardian: A
Full-Visibility, Lightweight, In-band Telemetry System Using Sketchlets. NSDI 2021.

Claim: Each packet that leaves a switch has the sketchlet that a model predicts. The model covers
SuMax and the selection of columns. No flow is underestimated at any switch.

Published: The abstract says that all flows are known at each switch within 1.0 to 1.5 s, and that
this uses 0.07 % of the capacity of the network. The load of this run is chosen so that sketchlets
use 0.07 %; so only the time is compared.

Differences: The testbed had 10 Tofino switches and 8 hosts in a fat-tree, with 40 Gbit/s. This run
has the same numbers of switches and hosts, and links of 100 Mbit/s. The number of columns (64) and
the selection (k = 3, two of ten packets) are those of the artifact's program for Mininet. The
testbed had 65,536 columns. In proportion to the rates of the links, this corresponds to 164
columns, so the run is repeated with 164. The program for Mininet has 192 sketchlets (three rows of
64). Here, a sketchlet has all rows of a column, so there are 64. Random draws are hashes of
packets, so that a model can repeat them. The controller does not reset cells: cells of an old
window count as zero. In real time, packets cross the network sequentially, because the order of
packets at a switch must be known. The load is then too low for the published numbers. On bmv2,
latencies are not compared.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from experiments.shared.gallery import lightguardian, traces
from experiments.shared.gallery.lightguardian import FULL, QUICK, REAL, TESTBED, Sample, Scale
from telemark.results import plots
from telemark.results.report import Check, Report, Reproduction
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep_seeds

PROGRAM = "p4src/gallery/lightguardian.p4"
SEEDS, FLOWS, EXPONENT, MAX_PPS = 5, 200, 0.8, 15_000
PUBLISHED_S = (1.0, 1.5)


@dataclass(frozen=True)
class Measured:
    """Samples of a run, and the data of the figure."""

    samples: list[Sample]
    overhead: float  # percent of the capacity of all links that sketchlets use
    # tier -> for each column: time from the start of the window to its first arrival at a host
    arrivals_s: dict[str, NDArray[np.float64]]
    errors: NDArray[np.float64]  # relative errors of flow sizes: of SuMax, of count-min


def add_options(parser: argparse.ArgumentParser) -> None:
    traces.add_options(parser)
    cli.add_program_option(parser, PROGRAM)


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    scale = REAL if options.time == "real" else QUICK if options.quick else FULL
    seeds = [run.seed + number for number in range(SEEDS if scale == FULL else 1)]
    scales = [FULL, TESTBED] if scale == FULL else [scale]
    found = await sweep_seeds(measure, [(each, options) for each in scales], seeds, run)
    samples = [sample for runs in found for each in runs for sample in each.samples]
    published = [] if scale == REAL else reproductions(found, has_capture=options.pcap is not None)
    overhead = [each.overhead for runs in found for each in runs]
    load = Check("overhead of sketchlets (% of capacity), as chosen by the load",
                 np.median(overhead), 0.07, 0.005)  # fmt: skip
    return Report(
        samples=[asdict(each) for each in samples],
        checks=[
            Check(
                "packets whose sketchlet differs from the model", sum(e.wrong for e in samples), 0
            ),
            Check("underestimated flows", sum(each.underestimated for each in samples), 0),
            Check("packets that a switch did not forward", sum(each.lost for each in samples), 0),
            *(check for each in published for check in each.checks()),
            *([] if scale == REAL or options.pcap else [load]),  # a capture may be too short
        ],
        metrics={"overhead_percent": overhead},
        figure=draw([runs[0] for runs in found]),
        caption=caption(options),
        reproductions=published,
    )


def reproductions(
    found: Sequence[Sequence[Measured]], *, has_capture: bool
) -> list[Reproduction]:  # fmt: skip
    """Return the published numbers, next to ours."""
    rows = []
    for runs in found:
        times = [[each.seconds for each in run.samples] for run in runs]
        first = runs[0].samples
        slowest = max(first, key=lambda each: each.seconds)
        need, rate = (float(np.median([getattr(each, name) for each in first]))
                      for name in ("sketchlets", "sketchlets_per_s"))  # fmt: skip
        slow = (f"hosts need {need:.0f} sketchlets of a switch; the median switch sends "
                f"{rate:.0f} per second, s{slowest.switch} only "
                f"{slowest.sketchlets_per_s:.0f}")  # fmt: skip
        claim = f"s until flows are known, {first[0].columns} columns, "
        reason = "" if first[0].columns == FULL.columns else slow
        for name, key, why in (("median", np.median, reason), ("slowest", np.max, slow)):
            values = [float(key(each)) for each in times]
            why = traces.OTHER_TRACE if has_capture else why
            rows.append(Reproduction(claim + f"{name} switch", "abstract", "1.0 to 1.5",
                                     PUBLISHED_S, values, why))  # fmt: skip
    return rows


async def measure(scale: Scale, options: argparse.Namespace, run: Run) -> Measured:
    """Replay a trace, and reconstruct the sketches of all windows but the last."""
    packets = round(MAX_PPS * scale.window_s * scale.windows)
    stream = traces.trace(options, packets, FLOWS, run.seed, EXPONENT)
    fabric = await lightguardian.replay(stream, options.program, run, scale)
    sketches = lightguardian.reconstruct(fabric)
    found = [
        lightguardian.evaluate(fabric, switch, sketches, scale, run) for switch in fabric.functions
    ]
    columns: dict[str, NDArray[np.float64]] = {}
    for sample, arrivals_s, _ in found:
        columns[sample.tier] = np.append(columns.get(sample.tier, []), arrivals_s)
    return Measured(
        [sample for sample, *_ in found], 100 * lightguardian.overhead(fabric, scale), columns,
        np.concatenate([errors for *_, errors in found]),
    )  # fmt: skip


def draw(found: Sequence[Measured]) -> Figure:
    """Draw the arrivals of columns over time, and the errors of flow sizes."""
    figure, (left, right) = plots.figure(2)
    left.axvspan(*PUBLISHED_S, color="0.9", label="published")
    for measured, style in zip(found, ("-", ":"), strict=False):
        columns = measured.samples[0].columns
        for number, (tier, arrivals_s) in enumerate(measured.arrivals_s.items()):
            share = np.arange(1, len(arrivals_s) + 1) / len(arrivals_s)
            left.plot(np.sort(arrivals_s), share, style, color=plots.COLOURS[number], marker="",
                      label=f"{tier}, {columns}")  # fmt: skip
    left.set(xlabel="Time since start of window (s)", ylabel="Known columns (fraction)")
    for column, label in enumerate(("SuMax", "count-min")):
        values = np.sort(found[0].errors[:, column])
        right.plot(values, np.arange(1, len(values) + 1) / len(values), marker="", label=label)
    right.set(xlabel="Relative error of flow sizes", ylabel="CDF of flows", xlim=(-0.05, 3))
    for axes in (left, right):
        plots.legend(axes, 2)
    return figure


def caption(options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    return (
        f"LightGuardian, one run in {options.time} time. (a) First arrivals of columns at hosts, "
        "by the tier of the switch and the number of columns. Grey: published time. (b) Errors of "
        f"flow sizes at all switches with {FULL.columns} columns, of SuMax and of a count-min "
        "sketch with the same cells."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
