"""IntSight: does it find the switch that caused a violation of a flow's objective?

Packets collect the epoch, the delay and the contention points of their path in a header of 33
bytes. The last switch of a flow reports the epochs in which there was contention, or in which the
flow was suspiciously large or missed its objective. The first scenario is a chain of five switches:
a burst delays a flow, which the paper's figures show in red. The second scenario is a ring of seven
switches: growing flows take bandwidth from another red flow. In both scenarios, the queue of node
N3 is the cause.

Paper: Marques, Levchenko and Gaspary: IntSight: Diagnosing SLO Violations with In-Band Network
Telemetry. CoNEXT 2020. The numbers are from the data of its artifact (jonadmark/intsight-bmv2).

Claim: All headers at the last switches and all reports equal those that a model computes from
captures. The reports name N3, and no other contention point.

Published: In figure 5(b), four flows have contention at N3 in two epochs. The orange flow is
suspicious at its three nodes in two epochs, and 58 packets of the red flow are late. In figure
6(b), the red flow loses packets in 155 epochs. From second 28 to 32, it gets 24.6 Mbit/s and loses
17.7 % of its packets. In the data of figure 6, contention lasts 210 epochs, and the red flow is
below 25 Mbit/s in 59 epochs with loss.

Differences: Only the congested link has a rate. If the link in front of it also had a rate, this
link would space the packets of the red flow, and the flow would lose only 15 %. The token buckets
of Mininet do not space packets. The burst has 831 packets, as in the artifact's reports; the paper
planned 900. The burst starts at the published time within an epoch. Seconds 22 to 42 of figure 6
are simulated. The telemetry header follows Ethernet. The switches of the artifact report all
epochs. The accepted ranges for figure 6(b) follow from the accuracy with which its axes can be
read. The range for the 59 epochs is two standard deviations of a count. In real time, numbers are
not checked, because they depend on the load. On bmv2, all rates are divided by ten, only figure 5
is measured, and times are not compared.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from experiments.shared.gallery import intsight
from experiments.shared.gallery.intsight import EPOCH_S, PUBLISHED, SCENARIOS
from experiments.shared.gallery.intsight_model import LOW_BANDWIDTH, Captures, Rows
from telemark.results import plots
from telemark.results.report import Check, Report, Reproduction
from telemark.session import cli
from telemark.session.run import Run
from telemark.sweep.runs import sweep_seeds

PROGRAM = "p4src/gallery/intsight.p4"
SEEDS = 5
WINDOW_S = (28, 32)  # start and end of the interval of the published means (figure 6(b))
UNCOUNTED = 128  # packets in the output buffer of a port of bmv2
REASON = (f"bmv2 does not count packets in its output buffer ({UNCOUNTED}) and in the socket as "
          f"queued. With queues {UNCOUNTED} packets shorter, our model gives {{:.0f}}")  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """Result of one run."""

    scenario: str
    seed: int
    wrong_headers: int
    wrong_reports: int
    unaccounted: int  # number of unaccounted frames
    reports: int
    matching: int  # number of flows with the published contention and suspicion points
    contention: float  # number of epochs with contention, as mean of the flows with contention
    partial_contention: float  # the same number, if the switches do not see UNCOUNTED packets
    suspicion: int  # number of epochs with suspicion
    late: int  # number of late packets of the red flow
    partial_late: int
    lossy: int  # number of epochs in which packets of the red flow were lost
    low: int  # number of epochs in which the red flow is below its objective
    mbps: float  # rate of the red flow in WINDOW_S, from reports
    loss: float  # lost packets of the red flow in WINDOW_S (percent), from reports


@dataclass(frozen=True)
class Measured:
    """Numbers of a run, and the data of the figure."""

    sample: Sample
    start_s: float
    arrived: NDArray[np.int64]  # number of packets that arrive at N3 in each epoch
    red: Rows  # reports of the red flow; epochs count from the start


def add_options(parser: argparse.ArgumentParser) -> None:
    cli.add_program_option(parser, PROGRAM)


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    names = ["figure 5"] if run.target == "bmv2" else [*SCENARIOS]
    is_short = options.quick or options.time == "real"
    seeds = [run.seed + number for number in range(1 if is_short else SEEDS)]
    settings = [(name, is_short, options) for name in names]
    found = await sweep_seeds(measure, settings, seeds, run)
    samples = [each.sample for results in found for each in results]
    rows = 1 if run.target == "bmv2" else 5 if is_short else None
    busy = "in real time, it depends on the load" if options.time == "real" else ""
    published = reproductions(samples, rows, busy)
    return Report(
        samples=[asdict(each) for each in samples],
        checks=[
            Check("headers that differ from the model", sum(e.wrong_headers for e in samples), 0),
            Check("reports that differ from the model", sum(e.wrong_reports for e in samples), 0),
            Check("unaccounted frames", sum(e.unaccounted for e in samples), 0),
            *(check for each in published for check in each.checks()),
        ],
        figure=draw([results[0] for results in found]),
        caption=caption(options),
        reproductions=published,
    )


def reproductions(samples: Sequence[Sample], rows: int | None, busy: str) -> list[Reproduction]:
    """Return the published numbers with our numbers, for the first `rows` rows of PUBLISHED."""
    found = []
    for scenario, source, claim, text, accepted, values in PUBLISHED[:rows]:
        ours = [each for each in samples if each.scenario == scenario]
        reason = busy
        if values in ("contention", "late"):
            reason = REASON.format(np.median([getattr(e, f"partial_{values}") for e in ours]))
        numbers = [getattr(each, values) for each in ours]
        found.append(Reproduction(claim, source, text, accepted, numbers, reason))
    return found


async def measure(name: str, is_short: bool, options: argparse.Namespace, run: Run) -> Measured:
    """Run a scenario, and compare headers and reports with the model."""
    scenario = SCENARIOS[name]
    sent = await intsight.send(scenario, options.program, run, is_short=is_short)
    captures = Captures(sent.net, sent.limits, has_times=run.target != "bmv2")
    flows = {flow: captures.observe(path, UNCOUNTED) for flow, path in scenario.paths.items()}
    crossing = [flows[flow] for flow, (contention, _) in scenario.points.items() if contention]
    first = min(each.epochs[0] for each in flows.values())
    red = {**flows["red"].reports, "epoch": flows["red"].reports["epoch"] - first}
    at_s = sent.start_s + EPOCH_S * red["epoch"]
    inside = (at_s >= WINDOW_S[0]) & (at_s < WINDOW_S[1])
    entered, left = (int(red[f"{way}_bytes"][inside].sum()) for way in ("ingress", "egress"))
    sample = Sample(
        name, run.seed,
        sum(each.wrong_headers for each in flows.values()),
        sum(each.wrong_reports for each in flows.values()), sent.unaccounted,
        sum(len(each.reports["epoch"]) for each in flows.values()),
        sum(flows[flow].points == points for flow, points in scenario.points.items()),
        float(np.mean([np.count_nonzero(e.reports["contention"]) for e in crossing])),
        float(np.mean([np.count_nonzero(e.partial_reports["contention"]) for e in crossing])),
        max(int((each.reports["suspicion"] > 0).sum()) for each in flows.values()),
        int(red["late"].sum()), int(flows["red"].partial_reports["late"].sum()),
        int((red["egress_packets"] < red["ingress_packets"]).sum()),
        int((red["reasons"] & LOW_BANDWIDTH > 0).sum()),
        left * 8 / 1e6 / EPOCH_S / max(int(inside.sum()), 1),
        100 * (entered - left) / max(entered, 1),
    )  # fmt: skip
    arrived = np.bincount(np.concatenate([each.epochs for each in crossing]) - first)
    return Measured(sample, sent.start_s, arrived, red)


def draw(found: Sequence[Measured]) -> Figure:
    """Draw the arrivals in figure 5 and the bandwidth of the red flow in figure 6."""
    figure, panels = plots.figure(len(found))
    since = (intsight.BURST_START_S - found[0].start_s) / EPOCH_S
    epochs = np.arange(len(found[0].arrived)) - int(since)
    panels[0].plot(epochs, found[0].arrived / EPOCH_S / 1000, label="measured")
    if len(found) > 1:  # not on bmv2, where rates are lower
        published = np.array(intsight.PACKETS_5C) / EPOCH_S / 1000
        plots.ring(panels[0], intsight.EPOCHS_5C, published, "published")
        panels[0].axhline(1000 / intsight.PACKET_US, color="black", ls="--", label="link")
    panels[0].set(xlabel="Epoch since start of burst", xlim=(-5, 8), ylim=(0, None),
                  ylabel="Arrival rate at N3 (1000 packets/s)")  # fmt: skip
    for bandwidth, axes in zip(found[1:], panels[1:], strict=True):
        at_s = bandwidth.start_s + EPOCH_S * (bandwidth.red["epoch"] + 0.5)
        for way, label in (("ingress", "first switch"), ("egress", "last switch")):
            mbps = bandwidth.red[f"{way}_bytes"] * 8 / 1e6 / EPOCH_S
            axes.plot(at_s, mbps, label=label, marker="", linewidth=1)
        plots.ring(axes, np.array(intsight.SECONDS_6B) + 0.5, intsight.MBPS_6B, "published")
        axes.axhline(25, color="black", ls="--", label="objective")
        axes.set(xlabel="Time (s)", ylabel="Bandwidth of the red flow (Mbit/s)", ylim=(20, 35))
    for axes in panels:
        plots.legend(axes, 2)
    return figure


def caption(options: argparse.Namespace) -> str:
    """Return the caption of the figure."""
    return (
        f"IntSight, one run in {options.time} time. (a) Packets that arrive at N3 in each epoch, "
        "around the burst of figure 5(c). (b) Bandwidth of the red flow of figure 6(b) in each "
        "reported epoch, at its first and last switch. Rings: published values; in (b), means of "
        "one second at the last switch."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
