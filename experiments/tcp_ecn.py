"""TCP and ECN in P4: do marks, queues and link probes agree with ground truth and theory?

One flow at a time fills a link of 10 Mbit/s. The switch marks each packet that finds ten other
packets in the queue (p4src/congestion/ecn.p4). The first flow uses Reno without ECN, so its
congestion signal is loss at a full queue. The other flows use Reno with ECN, and DCTCP. Then the
load of the link changes, while probes collect the number of bytes that the port has sent
(link_monitor.p4). Both programs implement exercises of p4lang/tutorials. The tutorials' own
programs also run unmodified (--ecn-program, --monitor-program), with the same threshold and
topology but other rates. Captures of the switch ports are ground truth for the queue length before
each packet and for the bytes sent between two probes. Marks and probe values must be right for each
packet. In virtual time, queues are also compared with theory.

Claim: The switch marks exactly the packets that meet ten others in the queue. DCTCP keeps the queue
at this length and the link busy. Probes measure the sent bytes exactly.

Published: DCTCP (SIGCOMM 2010), 3.3: with N flows and a threshold of K packets, the queue has at
most K + N packets, and its amplitude is sqrt(2 N (C RTT + K)) / 2. On Mininet with bmv2, links are
shaped after the switch, so programs see empty queues and mark no packets.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
from collections.abc import Mapping
from math import sqrt

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from experiments.shared.tcp.bottleneck import (
    FRAME_BYTES,
    PROBED_S,
    QUEUE,
    RATE_BPS,
    SETTLED_S,
    Monitored,
    Outcome,
    available_kinds,
    fill,
    monitor,
    product_packets,
)
from experiments.shared.tcp.queue import QueueTrace
from telemark import programs
from telemark.errors import TestbedError, note_invalid
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run

THRESHOLD = 10  # marking threshold in packets, a constant of the P4 program
BURST = 2  # number of segments that a sender sends after one delayed acknowledgement
SHOWN_S = 1.0
MIN_S = SETTLED_S + SHOWN_S


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--duration", type=cli.seconds, metavar="S",
        help="duration of each flow (default: 30; with --quick: 6)",
    )  # fmt: skip
    for name, path in (("ecn", "ecn"), ("monitor", "link_monitor")):
        parser.add_argument(
            f"--{name}-program", metavar="FILE", default=f"p4src/congestion/{path}.p4",
            help=f"P4 program with the tables of the exercise {path} of p4lang/tutorials "
            "(default: %(default)s)",
        )  # fmt: skip


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    options.duration = options.duration or (6.0 if options.quick else 30.0)
    if options.duration < MIN_S:
        raise TestbedError(
            f"--duration {options.duration:g}: slow start takes up to {SETTLED_S:g} s, and the "
            f"figure shows {SHOWN_S:g} s after it; use at least {MIN_S:g}"
        )
    # Report a missing file before the first run.
    programs.sources(("ecn", "monitor"), {"ecn": options.ecn_program,
                                          "monitor": options.monitor_program}, {})  # fmt: skip
    outcomes = {}
    for name, kind in available_kinds(options).items():
        outcomes[name] = await fill(options, run, name, kind)
        reject_idle(name, outcomes[name])
    monitored = await monitor(options, run)
    return Report(
        samples=make_samples(outcomes, monitored),
        checks=[
            *(check for name, outcome in outcomes.items()
              for check in check_queue(name, outcome, options)),
            *check_probes(monitored, options),
            *monitored.accounting.checks("probes"),
        ],
        metrics=make_metrics(outcomes, monitored),
        figure=draw(outcomes, monitored),
        caption=caption(options, outcomes),
        tables=[make_queues_table(outcomes)],
    )  # fmt: skip


def reject_idle(name: str, outcome: Outcome) -> None:
    """Make the run inconclusive if the queue never reached the marking threshold."""
    longest = int(outcome.settled.min_queued.max(initial=0))
    if longest < THRESHOLD:
        note_invalid(
            f"{name}: no segment met more than {longest} packets in the queue after slow start "
            f"({SETTLED_S:g} s); the flow did not fill the link"
        )


def check_queue(name: str, outcome: Outcome, options: argparse.Namespace) -> list[Check]:
    """Check marks; in virtual time, also compare queue and link utilization with theory."""
    checks = [*outcome.accounting.checks(name)]
    if options.target == "minip4":
        wrong = outcome.trace.wrong_marks(THRESHOLD)
        checks.append(Check(f"{name}: wrongly marked or unmarked segments", wrong, 0))
    if options.time == "real":
        return checks
    waiting, product = outcome.settled.min_queued, product_packets()
    if name == "drops":
        trough = (QUEUE + product) / 2 - product  # queue length after Reno has halved its window
        checks += [
            Check(f"{name}: max queue met by a segment (packets)", waiting.max(), QUEUE - 1),
            Check(f"{name}: min queue (packets)", waiting.min(), trough, BURST),
        ]
    else:
        checks.append(Check(f"{name}: max queue (packets)", waiting.max(), THRESHOLD + 1, BURST))
    if name == "DCTCP":
        mean = THRESHOLD + 1 - swing_packets() / 2
        checks.append(Check(f"{name}: mean queue (packets)", waiting.mean(), mean, BURST))
    if name != "ECN":  # With ECN, half of the window is too small to fill the link.
        checks.append(Check(f"{name}: link utilization", outcome.share(), 1, 0.001))
    return checks


def swing_packets() -> float:
    """Return the amplitude of the queue length with one DCTCP flow, by theory."""
    return sqrt(2 * (product_packets() + THRESHOLD)) / 2


def check_probes(monitored: Monitored, options: argparse.Namespace) -> list[Check]:
    """Check that the values in probes agree with captures."""
    reported, sent = monitored.reported, monitored.sent
    checks = [
        Check("probes received by the first switch", sent.arrived, monitored.probes),
        Check("probes delivered", monitored.delivered, sent.on_link),
    ]
    if not all(check.passed for check in checks):
        return checks
    names = np.stack([reported["swid"], reported["port"]], axis=1)
    checks += [
        Check("probes with wrong port", np.sum((names != monitored.link).any(axis=1)), 0),
        Check("probes with wrong byte count", np.sum(reported["byte_cnt"] != sent.bytes), 0),
    ]
    if options.target == "minip4":  # the clock of bmv2 differs from the clock of the hosts
        us = reported["cur_time"] - reported["last_time"]
        wrong = (us < sent.min_us - 1) | (us > sent.max_us + 1)
        checks.append(Check("probes with wrong interval", np.sum(wrong), 0))
    return checks


def make_samples(outcomes: Mapping[str, Outcome], monitored: Monitored) -> list[dict[str, object]]:
    """Return a row of samples.csv for each drawn segment and for each probe."""
    rows: list[dict[str, object]] = []
    for name, outcome in outcomes.items():
        shown = shown_part(outcome)
        for number in range(len(shown.arrived_ns)):
            rows.append({
                "series": name,
                "time_us": (int(shown.arrived_ns[number]) - outcome.start_ns) / 1000,
                "min_queued": int(shown.min_queued[number]),
                "max_queued": int(shown.max_queued[number]),
                "is_marked": int(shown.is_marked[number]),
                "reported_bytes": "", "true_bytes": "", "reported_us": "",
            })  # fmt: skip
    for time_s, reported, true in zip(monitored.since_s, monitored.reported, monitored.sent.bytes,
                                  strict=True):  # fmt: skip
        rows.append({
            "series": "probe", "time_us": 1e6 * time_s,
            "min_queued": "", "max_queued": "", "is_marked": "",
            "reported_bytes": int(reported["byte_cnt"]), "true_bytes": int(true),
            "reported_us": int(reported["cur_time"] - reported["last_time"]),
        })  # fmt: skip
    return rows


def shown_part(outcome: Outcome) -> QueueTrace:
    """Return the part of the queue trace that the figure shows."""
    begins_ns = outcome.start_ns + 1e9 * SETTLED_S
    return outcome.trace.between(begins_ns, begins_ns + 1e9 * SHOWN_S)


def make_metrics(outcomes: Mapping[str, Outcome], monitored: Monitored) -> dict[str, object]:
    """Return mean queue, marks, drops and link utilization for each congestion signal."""
    return {
        "queues": {
            name: {
                "mean_packets": outcome.settled.min_queued.mean(),
                "marked": int(outcome.trace.is_marked.sum()),
                "wrongly_marked": outcome.trace.wrong_marks(THRESHOLD),
                "dropped": outcome.dropped,
                "link_utilization": outcome.share(),
            }
            for name, outcome in outcomes.items()
        },
        "probes": monitored.delivered,
    }


def make_queues_table(outcomes: Mapping[str, Outcome]) -> Table:
    """Return a table with a row per congestion signal."""
    rows = []
    for name, outcome in outcomes.items():
        waiting = outcome.settled.min_queued
        rows.append((
            name, waiting.min(), waiting.mean(), waiting.max(), int(outcome.trace.is_marked.sum()),
            outcome.dropped, outcome.share(),
        ))  # fmt: skip
    names = ("signal", "min", "mean", "max", "marked", "dropped", "link utilization")
    return table("Queue length met by segments after slow start (packets)", names, rows)


def draw(outcomes: Mapping[str, Outcome], monitored: Monitored) -> Figure:
    """Draw queues over time, CDFs of queue lengths, and the link rate."""
    figure, (left, middle, right) = plots.figure(3)
    for number, (name, outcome) in enumerate(outcomes.items()):
        shown, trace = shown_part(outcome), outcome.settled.min_queued
        colour = plots.COLOURS[number]
        at_s = (shown.arrived_ns - outcome.start_ns) / 1e9
        left.plot(at_s, shown.min_queued, marker="", color=colour, label=name)
        middle.step(np.sort(trace), np.arange(1, len(trace) + 1) / len(trace), marker="",
                    color=colour, label=name)  # fmt: skip
    left.axhline(THRESHOLD, color="black", linewidth=0.8, linestyle="--", label="threshold")
    left.set(xlabel="Time (s)", ylabel="Queue length (packets)", ylim=(0, QUEUE))
    draw_theory(middle, outcomes)
    middle.set(xlabel="Queue length (packets)", ylabel="CDF", ylim=(0, 1))
    draw_probes(right, monitored)
    for axes, columns in ((left, 2), (middle, 2), (right, 1)):
        plots.legend(axes, columns)
    return figure


def draw_theory(axes: Axes, outcomes: Mapping[str, Outcome]) -> None:
    """Draw the range of the queue length for the signals that have a theory."""
    product = product_packets()
    ranges = {
        "drops": ((QUEUE + product) / 2 - product, QUEUE - 1),
        "DCTCP": (THRESHOLD + 1 - swing_packets(), THRESHOLD + 1),
    }
    for number, name in enumerate(outcomes):
        if name in ranges:
            axes.axvspan(*ranges[name], color=plots.COLOURS[number], alpha=0.15,
                         label=f"{name}, theory")  # fmt: skip


def draw_probes(axes: Axes, monitored: Monitored) -> None:
    """Draw the port rate over time, as measured by probes and by captures."""
    us = monitored.reported["cur_time"] - monitored.reported["last_time"]
    since_s = monitored.since_s
    true_bps = 8e6 * monitored.sent.bytes / us
    axes.plot(since_s, monitored.reported_bps / 1e6, ".", markersize=3, label="probe estimate")
    axes.plot(since_s, true_bps / 1e6, "k-", marker="", linewidth=0.6, label="ground truth")
    axes.axhline(RATE_BPS / 1e6, color="black", linewidth=0.8, linestyle="--", label="link rate")
    axes.set(xlabel="Time (s)", ylabel="Port rate (Mbit/s)")
    axes.set_ylim(bottom=0)


def caption(options: argparse.Namespace, outcomes: Mapping[str, Outcome]) -> str:
    """Return the caption of the figure."""
    return (
        f"TCP over a link of {RATE_BPS / 1e6:g} Mbit/s with a queue of {QUEUE} packets of "
        f"{FRAME_BYTES} bytes. The switch marks packets that find {THRESHOLD} others in the queue "
        f"({plots.runs(1, options.time)}, on {options.target}). Congestion signals: "
        f"{', '.join(outcomes)}. (a) Queue length met by each segment after slow start, from "
        "captures. (b) CDF of the queue length; shaded: range by theory. (c) Rate of the port, "
        f"measured by probes every {1000 * PROBED_S:g} ms. The load is UDP at a constant rate; a "
        "TCP flow is added in the second third."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
