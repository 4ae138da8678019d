"""A burst of 100 ms in a chain of switches: does INT tell how long queues were, and who it was?

IntSight's chain: five switches with links of 100 Mbit/s, five flows of 15 Mbit/s, one of which
sends 106.6 Mbit/s for 100 ms. Switches write into each packet what queue it met (INT-MD), and the
last one of each flow reports it. Truth are captures of the switches' ports: how many packets had
come before a packet and not left yet. Both must be equal, for each packet at each switch; in real
time the queue may be what it was at any time until the switch took the packet in. From reports
alone the collector's side names the port whose queue was the longest, and the flow that brought so
much more than before while that grew: it must be those of which captures, and senders, say so.

Claim: INT tells each queue that each packet met, and reports alone name the port and the flow that
filled it.

Published: IntSight (CoNEXT 2020), figure 5: over five switches of bmv2, one flow at 106.6 Mbit/s
for 100 ms takes a link beyond its 9,000 packets/s; 39 + 19 packets of the red flow were later than
20 ms. Our links have their 100 Mbit/s instead, some 8,000 such packets/s with INT in them: more are
late.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.table import Table

from experiments.shared.int.animation import COLOURS, replay_of
from experiments.shared.int.culprit import Culprit, sightings
from experiments.shared.int.microburst import (
    BURST_BPS,
    BURST_S,
    FRAME_BYTES,
    PATHS,
    RATE_BPS,
    USUAL_BPS,
    Outcome,
    measure,
    path_of,
)
from experiments.shared.int.truth import EMPTY_QUEUES, require_minip4
from telemark.errors import FailedRunError, InvalidRunError, TestbedError
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run

LATE_US = 20_000  # what IntSight's red flow is promised, from its first switch to its last
BEFORE_MS, AFTER_MS, BIN_MS = 50, 300, 10  # of what is drawn, and what samples.csv has


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--before", type=cli.seconds, metavar="S",
        help="how long flows have been sent when the burst begins (default: 30)",
    )  # fmt: skip
    parser.add_argument(
        "--bursting", choices=PATHS, default="orange",
        help="the flow that sends the burst (default: %(default)s)",
    )  # fmt: skip
    cli.add_program_option(parser, "p4src/int/int.p4")


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    require_minip4(run, EMPTY_QUEUES)
    options.before = options.before or (1 if options.quick else 30)
    if options.before < BURST_S:
        raise TestbedError(
            f"--before {options.before:g}: who sends a burst is known by what all sent before it: "
            f"take at least {BURST_S:g}"
        )
    outcome = await measure(options, run)
    seen = sightings(outcome.kept)
    if not len(seen):
        raise FailedRunError(f"--program {options.program}: no switch reported anything")
    reject_stall(outcome)
    culprit = Culprit.of(seen)
    return Report(
        samples=samples_of(outcome),
        checks=[
            *checks_of_reports(outcome), *checks_of_hops(outcome),
            *checks_of_culprit(outcome, culprit), *outcome.accounting.checks(),
        ],
        metrics=metrics_of(outcome, culprit),
        figure=draw(outcome, seen, culprit),
        caption=caption(options, outcome, culprit),
        replay=replay_of(outcome) if options.time == "virtual" else None,
        tables=[table_of_queues(outcome), table_of_flows(outcome, culprit)],
    )  # fmt: skip


def reject_stall(outcome: Outcome) -> None:
    """Raise TestbedError when a queue was longest at another time: no burst filled it."""
    queue = max(outcome.queues.values(), key=lambda each: each.min_queued.max())
    longest_ns = int(queue.came_ns[np.argmax(queue.min_queued)]) - outcome.burst_ns
    if not 0 <= longest_ns <= 1e6 * AFTER_MS:
        raise InvalidRunError(
            f"the longest queue was {longest_ns / 1e6:.0f} ms after the burst began"
        )


def checks_of_reports(outcome: Outcome) -> list[Check]:
    """Each packet arrived in its order, and has its report."""
    disordered = sum(
        not np.array_equal(r.received["sequence"], np.arange(r.flow.count))
        for r in outcome.records.values()
    )
    sources, sent = outcome.kept.findings.sources, sum(f.count for f in outcome.flows.values())
    lacking = int((sources["lost"] + sources["missing"]).sum())
    return [
        Check("flows with packets lost, or out of order", disordered, 0),
        Check("reports with the whole path", sum(map(len, outcome.told.values())), sent),
        Check("reports", len(outcome.kept.reports), sent),
        Check("numbers of reports that did not come", lacking, 0),
        Check("reports that are malformed", outcome.kept.findings.parse_errors.total(), 0),
    ]


def checks_of_hops(outcome: Outcome) -> list[Check]:
    """What each switch said of all packets, against what was: the largest errors."""
    errors: dict[tuple[str, str], int] = {}
    for name in outcome.flows:
        for hop, switch in enumerate(path_of(name)):
            told, truth = outcome.told[name][:, hop], outcome.truth[name][hop]
            if len(told) != len(truth.came_ns):
                continue  # checked above
            came_us = told["ingress_ns"].astype(np.int64) // 1000
            waiting = told["occupancy"].astype(np.int64)
            bounds = truth.min_queued, truth.max_queued
            for what, wrong in (
                ("arrival, us", came_us - truth.came_ns // 1000),
                ("queue, packets", waiting - np.clip(waiting, *bounds)),
            ):
                key = switch, what
                errors[key] = max(errors.get(key, 0), int(abs(wrong).max()))
    return [Check(f"{switch}: largest error of {what}", error, 0)
            for (switch, what), error in sorted(errors.items())]  # fmt: skip


def checks_of_culprit(outcome: Outcome, culprit: Culprit) -> list[Check]:
    """Reports name the port and the flow that captures and senders do, and tell as much of it."""
    longest = {node: queue.min_queued.max() for node, queue in outcome.queues.items()}
    node = max(longest, key=lambda each: longest[each])
    flow = max(outcome.flows.values(), key=lambda flow: burst_share(outcome, flow.id))
    named = culprit.came[culprit.came["flow"] == flow.port]
    came_us = outcome.queues[node].came_ns[outcome.queues[node].left["port"] == flow.port] // 1000
    first_us, last_us = (culprit.came["time_ns"][[0, -1]] // 1000).tolist()
    came = int(np.count_nonzero((came_us >= first_us) & (came_us <= last_us)))
    late, really_late = late_packets(outcome)
    return [
        Check("guilty switch, by number", culprit.node, node),
        Check("its port", culprit.egress, outcome.ports[node]),
        Check("guilty flow, by port", culprit.flow, flow.port),
        Check("its packets while the queue grew", len(named), came),
        Check(f"packets of red later than {LATE_US / 1000:g} ms", late, really_late),
    ]


def burst_share(outcome: Outcome, number: int) -> float:
    """What share of a flow's packets was sent in the burst's time, by its sender."""
    sent_ns = outcome.records[number].sent["sent_ns"].astype(np.int64) - outcome.burst_ns
    return float(np.mean((sent_ns >= 0) & (sent_ns < 1e9 * BURST_S)))


def late_packets(outcome: Outcome) -> tuple[int, int]:
    """Of red, from arrival at its first switch to departure from its last: as told, and true."""
    told, truth = outcome.told["red"], outcome.truth["red"]
    reported_us = (
        (told["ingress_ns"] + told["latency_ns"])[:, -1].astype(np.int64)
        - told["ingress_ns"][:, 0].astype(np.int64)
    ) // 1000
    true_us = truth[-1].left_ns // 1000 - truth[0].came_ns // 1000
    return int(np.sum(reported_us > LATE_US)), int(np.sum(true_us > LATE_US))


def is_shown(outcome: Outcome, time_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which times are near the burst."""
    ms = (time_ns - outcome.burst_ns) / 1e6
    return (ms >= -BEFORE_MS) & (ms < AFTER_MS)


def samples_of(outcome: Outcome) -> list[dict[str, object]]:
    """A row for each packet at each switch, near the burst."""
    rows = []
    for name in outcome.flows:
        for hop, switch in enumerate(path_of(name)):
            told, truth = outcome.told[name][:, hop], outcome.truth[name][hop]
            for number in np.flatnonzero(is_shown(outcome, truth.came_ns)).tolist():
                if number < len(told):
                    rows.append({
                        "flow": name,
                        "switch": switch,
                        "packet": number,
                        "time_us": (int(truth.came_ns[number]) - outcome.burst_ns) / 1000,
                        "queue_packets": int(told["occupancy"][number]),
                        "min_queue_packets": int(truth.min_queued[number]),
                        "max_queue_packets": int(truth.max_queued[number]),
                    })  # fmt: skip
    return rows


def metrics_of(outcome: Outcome, culprit: Culprit) -> dict[str, object]:
    """What was named, and how much of it there was."""
    return {
        "guilty": {"node": culprit.node, "port": culprit.egress, "flow": culprit.flow},
        "more_bps": culprit.more_bps,
        "queue_grew_for_ms": np.ptp(culprit.came["time_ns"]) / 1e6,
        "longest_queue": {n: q.min_queued.max() for n, q in outcome.queues.items()},
        "late_packets_of_red": late_packets(outcome)[0],
    }


def table_of_queues(outcome: Outcome) -> Table:
    """A row for each switch that has another one behind it."""
    rows = []
    for node, queue in outcome.queues.items():
        told = [outcome.told[name][:, hop]["occupancy"]
                for name in outcome.flows for hop, switch in enumerate(path_of(name)[:-1])
                if switch == f"s{node}"]  # fmt: skip
        rows.append((f"s{node}", max(int(each.max(initial=0)) for each in told),
                     queue.min_queued.max(), queue.max_queued.max()))  # fmt: skip
    names = ("switch", "as told", "true, at least", "true, at most")
    return table("Longest queue towards the next switch, packets", names, rows)


def table_of_flows(outcome: Outcome, culprit: Culprit) -> Table:
    """A row for each flow that came to the longest queue."""
    rows = [
        (name, culprit.more_bps[flow.port] / 1e6, "guilty" if flow.port == culprit.flow else "")
        for name, flow in outcome.flows.items() if flow.port in culprit.more_bps
    ]  # fmt: skip
    title = f"While the queue of s{culprit.node} grew, by reports"
    return table(title, ("flow", "more than before, Mbit/s", ""), rows)


def draw(outcome: Outcome, seen: NDArray[np.void], culprit: Culprit) -> Figure:
    """Left: queues. Right: what came to the longest one."""
    figure, (left, right) = plots.figure(2)
    near = seen[is_shown(outcome, seen["time_ns"])]
    for node, queue in outcome.queues.items():
        own = near[(near["node"] == node) & (near["egress"] == outcome.ports[node])]
        left.plot((own["time_ns"] - outcome.burst_ns) / 1e6, own["occupancy"], marker="",
                  linewidth=2, color=plots.COLOURS[node - 1], label=f"s{node}")  # fmt: skip
        true = np.flatnonzero(is_shown(outcome, queue.came_ns))
        left.plot((queue.came_ns[true] - outcome.burst_ns) / 1e6, queue.min_queued[true], "k:",
                  marker="", linewidth=0.8, label="truth" if node == 4 else "")  # fmt: skip
    left.set_ylabel("Packets in the queue")
    draw_rates(right, outcome, near, culprit)
    for axes in (left, right):
        axes.set_xlabel("Time since the burst began (ms)")
        axes.set_xlim(-BEFORE_MS, AFTER_MS)
        plots.legend(axes, 3)
    return figure


def draw_rates(axes: Axes, outcome: Outcome, near: NDArray[np.void], culprit: Culprit) -> None:
    """What each flow brought to the longest queue, by reports; and what its link takes."""
    own = near[(near["node"] == culprit.node) & (near["egress"] == culprit.egress)]
    edges_ms = np.arange(-BEFORE_MS, AFTER_MS + 1, BIN_MS)
    below = np.zeros(len(edges_ms) - 1)
    for name, flow in outcome.flows.items():
        some = own[own["flow"] == flow.port]
        if len(some):
            at_ms = (some["time_ns"] - outcome.burst_ns) / 1e6
            bits, _ = np.histogram(at_ms, edges_ms, weights=some["bits"])
            rates = bits / BIN_MS / 1000
            axes.stairs(below + rates, edges_ms, baseline=below, fill=True, label=name,
                        color=COLOURS[name])  # fmt: skip
            below = below + rates
    axes.axhline(RATE_BPS / 1e6, color="black", linewidth=0.8, linestyle="--", label="the link")
    axes.set_ylabel(f"Traffic to the queue of s{culprit.node} (Mbit/s)")


def caption(options: argparse.Namespace, outcome: Outcome, culprit: Culprit) -> str:
    """What the figure shows."""
    return (
        f"A burst of {BURST_BPS / 1e6:.1f} Mbit/s for {1000 * BURST_S:g} ms, of one of five flows "
        f"of {USUAL_BPS / 1e6:g} Mbit/s (frames of {FRAME_BYTES} bytes) over a chain of five "
        f"switches with links of {RATE_BPS / 1e6:g} Mbit/s, {options.before:g} s after their "
        f"beginning, {plots.runs(1, options.time)}. (a) Packets in the queue towards the next "
        "switch, as INT-MD told it with each packet (colours), and as captures tell (dotted). (b) "
        f"What came to the queue of s{culprit.node}, by reports, with INT's own bytes, in "
        f"{BIN_MS} ms each."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
