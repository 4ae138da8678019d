"""TCP and P4 programs that watch congestion: do marks, queues and probes say what is true?

One flow at a time fills a link of 10 Mbit/s, whose switch marks packets that find ten others in the
queue (p4src/congestion/ecn.p4): Reno that does not speak ECN and is told by a full queue, Reno that
does, and DCTCP. Then the load of the link changes, while probes collect what its port has sent
(link_monitor.p4). Both programs are exercises of p4lang/tutorials: theirs run as well, unmodified
(--ecn-program, --monitor-program), with threshold and topology as they are there but for the rates.
Truth are captures of the switches' ports: how many packets waited before each one, and what left
between two probes; both programs must be right for each packet. In virtual time queues are held
against theory as well.

Claim: Each packet that met ten others is marked, and no other; DCTCP keeps the queue there and the
link full; probes tell what it carried to the byte.

Published: DCTCP (SIGCOMM 2010), 3.3: of N flows and a threshold of K packets, a queue of at most
K + N, that falls by sqrt(2 N (C RTT + K)) / 2 below it. On Mininet with bmv2 links are shaped
behind the switch, whose programs then see empty queues and mark nothing.
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
    fill,
    kinds_of,
    monitor,
    product_packets,
)
from experiments.shared.tcp.queue import Met
from telemark import programs
from telemark.errors import InvalidRunError, TestbedError
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run

THRESHOLD = 10  # packets: a constant of the program
BURST = 2  # segments that one delayed acknowledgement lets go
SHOWN_S = 1.0
LEAST_S = SETTLED_S + SHOWN_S


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--duration", type=cli.seconds, metavar="S",
        help="how long each flow sends (default: 30; with --quick: 6)",
    )  # fmt: skip
    for name, path in (("ecn", "ecn"), ("monitor", "link_monitor")):
        parser.add_argument(
            f"--{name}-program", metavar="FILE", default=f"p4src/congestion/{path}.p4",
            help=f"the P4 program, with tables as those of the exercise {path} of p4lang/tutorials "
            "(default: %(default)s)",
        )  # fmt: skip


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    options.duration = options.duration or (6.0 if options.quick else 30.0)
    if options.duration < LEAST_S:
        raise TestbedError(
            f"--duration {options.duration:g}: slow start takes up to {SETTLED_S:g} s, and "
            f"{SHOWN_S:g} s are drawn: take at least {LEAST_S:g}"
        )
    # A file that is not there is told now, and not when the other program's turn is over.
    programs.sources(("ecn", "monitor"), {"ecn": options.ecn_program,
                                          "monitor": options.monitor_program}, {})  # fmt: skip
    outcomes = {}
    for name, kind in kinds_of(options).items():
        outcomes[name] = await fill(options, run, name, kind)
        reject_idle(name, outcomes[name])
    monitored = await monitor(options, run)
    return Report(
        samples=samples_of(outcomes, monitored),
        checks=[
            *(check for name, outcome in outcomes.items()
              for check in checks_of_queue(name, outcome, options)),
            *checks_of_probes(monitored, options),
            *monitored.accounting.checks("probes, accounting"),
        ],
        metrics=metrics_of(outcomes, monitored),
        figure=draw(outcomes, monitored),
        caption=caption(options, outcomes),
        tables=[table_of_queues(outcomes)],
    )  # fmt: skip


def reject_idle(name: str, outcome: Outcome) -> None:
    """Raise TestbedError where no queue was that of which the experiment is to tell."""
    longest = int(outcome.settled.min_queued.max(initial=0))
    if longest < THRESHOLD:
        raise InvalidRunError(
            f"{name}: no segment met more than {longest} packets in the queue, after "
            f"{SETTLED_S:g} s of one flow that takes all it gets"
        )


def checks_of_queue(name: str, outcome: Outcome, options: argparse.Namespace) -> list[Check]:
    """Marks in either kind of time; in virtual time also what theory says of queue and link."""
    checks = [*outcome.accounting.checks(f"{name}, accounting")]
    if options.target == "minip4":
        wrong = outcome.met.wrong_marks(THRESHOLD)
        checks.append(Check(f"{name}: segments marked against the rule", wrong, 0))
    if options.time == "real":
        return checks
    waiting, product = outcome.settled.min_queued, product_packets()
    if name == "drops":
        trough = (QUEUE + product) / 2 - product  # half of the window is left
        checks += [
            Check(f"{name}: longest queue that a segment met", waiting.max(), QUEUE - 1),
            Check(f"{name}: shortest queue, packets", waiting.min(), trough, BURST),
        ]
    else:
        checks.append(Check(f"{name}: longest queue", waiting.max(), THRESHOLD + 1, BURST))
    if name == "DCTCP":
        mean = THRESHOLD + 1 - swing_packets() / 2
        checks.append(Check(f"{name}: mean queue, packets", waiting.mean(), mean, BURST))
    if name != "ECN":  # where half of the window is less than the link needs
        checks.append(Check(f"{name}: share of the link in use", outcome.share(), 1, 0.001))
    return checks


def swing_packets() -> float:
    """By how much one flow of DCTCP has the queue fall, in theory."""
    return sqrt(2 * (product_packets() + THRESHOLD)) / 2


def checks_of_probes(monitored: Monitored, options: argparse.Namespace) -> list[Check]:
    """What probes tell is what captures show."""
    told, sent = monitored.told, monitored.sent
    checks = [
        Check("probes that came to the first switch", sent.came, monitored.probes),
        Check("probes that left it and came to the end", len(told), len(sent.bytes)),
    ]
    if not all(check.passed for check in checks):
        return checks
    names = np.stack([told["swid"], told["port"]], axis=1)
    checks += [
        Check("probes that name another port", np.sum((names != monitored.link).any(axis=1)), 0),
        Check("probes that tell other bytes", np.sum(told["byte_cnt"] != sent.bytes), 0),
    ]
    if options.target == "minip4":  # bmv2 tells its own time, which begins with it
        us = told["cur_time"] - told["last_time"]
        wrong = (us < sent.min_us - 1) | (us > sent.max_us + 1)
        checks.append(Check("probes that tell another time between them", np.sum(wrong), 0))
    return checks


def samples_of(outcomes: Mapping[str, Outcome], monitored: Monitored) -> list[dict[str, object]]:
    """A row for each segment that is drawn, and for each probe."""
    rows: list[dict[str, object]] = []
    for name, outcome in outcomes.items():
        shown = shown_of(outcome)
        for number in range(len(shown.came_ns)):
            rows.append({
                "what": name,
                "time_us": (int(shown.came_ns[number]) - outcome.start_ns) / 1000,
                "min_queued": int(shown.min_queued[number]),
                "max_queued": int(shown.max_queued[number]),
                "is_marked": int(shown.is_marked[number]),
                "reported_bytes": "", "true_bytes": "", "reported_us": "",
            })  # fmt: skip
    for time_s, told, true in zip(monitored.since_s, monitored.told, monitored.sent.bytes,
                                  strict=False):  # fmt: skip
        rows.append({
            "what": "probe", "time_us": 1e6 * time_s,
            "min_queued": "", "max_queued": "", "is_marked": "",
            "reported_bytes": int(told["byte_cnt"]), "true_bytes": int(true),
            "reported_us": int(told["cur_time"] - told["last_time"]),
        })  # fmt: skip
    return rows


def shown_of(outcome: Outcome) -> Met:
    """What is drawn of a queue."""
    begins_ns = outcome.start_ns + 1e9 * SETTLED_S
    return outcome.met.between(begins_ns, begins_ns + 1e9 * SHOWN_S)


def metrics_of(outcomes: Mapping[str, Outcome], monitored: Monitored) -> dict[str, object]:
    """Of each way to tell senders: queue, marks, drops, and the share of the link."""
    return {
        "queues": {
            name: {
                "mean_packets": outcome.settled.min_queued.mean(),
                "marked": int(outcome.met.is_marked.sum()),
                "wrongly_marked": outcome.met.wrong_marks(THRESHOLD),
                "dropped": outcome.dropped,
                "share_of_link": outcome.share(),
            }
            for name, outcome in outcomes.items()
        },
        "probes": len(monitored.told) + 1,
    }


def table_of_queues(outcomes: Mapping[str, Outcome]) -> Table:
    """A row for each way to tell senders."""
    rows = []
    for name, outcome in outcomes.items():
        waiting = outcome.settled.min_queued
        rows.append((
            name, waiting.min(), waiting.mean(), waiting.max(), int(outcome.met.is_marked.sum()),
            outcome.dropped, outcome.share(),
        ))  # fmt: skip
    names = ("told by", "least", "mean", "most", "marked", "dropped", "share of the link")
    return table("Packets in the queue that segments met, after slow start", names, rows)


def draw(outcomes: Mapping[str, Outcome], monitored: Monitored) -> Figure:
    """Queues against time; how often each length was met; and what the link carried."""
    figure, (left, middle, right) = plots.figure(3)
    for number, (name, outcome) in enumerate(outcomes.items()):
        shown, met = shown_of(outcome), outcome.settled.min_queued
        colour = plots.COLOURS[number]
        at_s = (shown.came_ns - outcome.start_ns) / 1e9
        left.plot(at_s, shown.min_queued, marker="", color=colour, label=name)
        middle.step(np.sort(met), np.arange(1, len(met) + 1) / len(met), marker="", color=colour,
                    label=name)  # fmt: skip
    left.axhline(THRESHOLD, color="black", linewidth=0.8, linestyle="--", label="threshold")
    left.set(xlabel="Time (s)", ylabel="Packets in the queue", ylim=(0, QUEUE))
    draw_theory(middle, outcomes)
    middle.set(xlabel="Packets in the queue", ylabel="Share of segments", ylim=(0, 1))
    draw_probes(right, monitored)
    for axes, columns in ((left, 2), (middle, 2), (right, 1)):
        plots.legend(axes, columns)
    return figure


def draw_theory(axes: Axes, outcomes: Mapping[str, Outcome]) -> None:
    """Between which lengths theory has the queue, where it says so."""
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
    """What each probe tells the link to have carried, and what it did."""
    us = monitored.told["cur_time"] - monitored.told["last_time"]
    count = min(len(us), len(monitored.since_s))
    since_s = monitored.since_s[:count]
    true_bps = 8e6 * monitored.sent.bytes[:count] / us[:count]
    axes.plot(
        since_s, monitored.reported_bps[:count] / 1e6, ".", markersize=3, label="as probes tell"
    )
    axes.plot(since_s, true_bps / 1e6, "k-", marker="", linewidth=0.6, label="by captures")
    axes.axhline(RATE_BPS / 1e6, color="black", linewidth=0.8, linestyle="--", label="the link")
    axes.set(xlabel="Time (s)", ylabel="Sent by the port (Mbit/s)")
    axes.set_ylim(bottom=0)


def caption(options: argparse.Namespace, outcomes: Mapping[str, Outcome]) -> str:
    """What the figure shows."""
    return (
        f"TCP over a link of {RATE_BPS / 1e6:g} Mbit/s with a queue of {QUEUE} packets of "
        f"{FRAME_BYTES} bytes, whose switch marks packets that find {THRESHOLD} there "
        f"({plots.runs(1, options.time)}, on {options.target}): senders are told of congestion by "
        f"{', '.join(outcomes)}. (a) The queue that each segment met, by captures, once slow start "
        "is over. (b) How often it met so many or fewer; shaded: between which lengths theory has "
        f"the queue. (c) What the link carried, by probes each {1000 * PROBED_S:g} ms: UDP at a "
        "steady rate, and TCP in the second third."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
