"""INT on a microburst: does it measure queues and identify the port and flow that caused them?

The topology is a chain of five switches with links of 100 Mbit/s, as in IntSight. There are five
flows of 15 Mbit/s, one of which sends 106.6 Mbit/s for 100 ms. Each switch writes the queue length
that a packet met into the packet (INT-MD), and the last switch of each flow reports it. Captures of
the switch ports are ground truth: the queue length is the number of packets that arrived before a
packet and have not left yet. The measured and the true queue length must be equal for each packet
at each switch. In real time, any queue length between the arrival of the packet and its reception
by the switch is correct. The collector uses only reports to identify the port with the longest
queue and the flow whose rate increased most while this queue grew. The port and the flow must agree
with captures and senders. On bmv2, a capacity probe determines the lower rates, the burst takes 1
s, and the queues of bmv2 have the rate of IntSight. Timestamps must lie within the time between the
captures on both sides of a switch, widened by the clock error. No measured queue may be longer than
the number of packets ahead of the packet.

Claim: INT measures the queue that each packet met. Reports are enough to identify the port of the
longest queue and the flow that filled it.

Published: IntSight (CoNEXT 2020), figure 5: over five bmv2 switches, one flow at 106.6 Mbit/s for
100 ms overloads a link of 9,000 packets/s; 39 + 19 packets of the red flow were later than 20 ms.
In this experiment, links are limited to 100 Mbit/s instead, which is about 8,000 such packets/s
including INT. Therefore more packets are late.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.table import Table

from experiments.shared.int.animation import COLOURS, make_replay
from experiments.shared.int.culprit import Culprit, sightings
from experiments.shared.int.microburst import (
    BMV2_QUEUE_PPS,
    BURST_BPS,
    FRAME_BYTES,
    PATHS,
    RATE_BPS,
    USUAL_BPS,
    Outcome,
    find_scale,
    flow_path,
    measure,
)
from telemark.errors import FailedRunError, TestbedError, note_invalid
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run
from telemark.watch.display import Display

# time range and bin width of the figure and of samples.csv (in burst durations)
BEFORE, AFTER, BIN = 0.5, 3, 0.1


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--before", type=cli.seconds, metavar="S",
        help="duration of traffic before the burst (default: 30; with --quick 1, on bmv2 2)",
    )  # fmt: skip
    parser.add_argument(
        "--bursting", choices=PATHS, default="orange",
        help="flow that sends the burst (default: %(default)s)",
    )  # fmt: skip
    cli.add_program_option(parser, "p4src/int/int.p4")
    cli.add_metrics_option(parser)


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    options.before = options.before or (
        30 if not options.quick else 2 if run.target == "bmv2" else 1
    )
    scale = await find_scale(options, run)
    if options.before < scale.burst_s:
        raise TestbedError(
            f"--before {options.before:g}: the time is too short to measure rates before the "
            f"burst; use at least {scale.burst_s:g}"
        )
    outcome = await measure(options, scale, run)
    seen = sightings(outcome.kept)
    if not len(seen):
        raise FailedRunError(f"--program {options.program}: no switch sent a report")
    reject_stall(outcome)
    culprit = Culprit.of(seen)
    if run.display is not None:
        show_alert(run.display, outcome, culprit)
    return Report(
        samples=make_samples(outcome),
        checks=[
            *check_reports(outcome), *check_hops(outcome),
            *check_culprit(outcome, culprit), *outcome.accounting.checks(),
        ],
        metrics=make_metrics(outcome, culprit),
        figure=draw(outcome, seen, culprit),
        caption=caption(options, outcome, culprit),
        replay=make_replay(outcome) if options.time == "virtual" else None,
        tables=[make_queues_table(outcome), make_flows_table(outcome, culprit)],
    )  # fmt: skip


def show_alert(display: Display, outcome: Outcome, culprit: Culprit) -> None:
    """Show the congested link and the bursting flow, found from reports, on the page of --watch."""
    names = {flow.port: name for name, flow in outcome.flows.items()}
    flow = f"flow {names.get(culprit.flow, culprit.flow)}"
    text = (
        f"queue from {display.link(culprit.node, culprit.egress)} grew to "
        f"{culprit.arrived['occupancy'].max()} packets; {flow} increased its rate by "
        f"{culprit.more_bps[culprit.flow] / 1e6:.3g} Mbit/s"
    )
    display.alert("INT", culprit.arrived["time_ns"][0], text)


def reject_stall(outcome: Outcome) -> None:
    """Make the run inconclusive if the burst did not cause the longest queue."""
    node = max(outcome.queues, key=outcome.longest)
    place = np.argmax(outcome.lengths(node))
    longest_ns = int(outcome.queues[node].arrived_ns[place]) - outcome.burst_ns
    if not 0 <= longest_ns <= 1e9 * AFTER * outcome.scale.burst_s:
        note_invalid(
            f"the longest queue occurred {longest_ns / 1e6:.0f} ms after the start of the burst"
        )


def check_reports(outcome: Outcome) -> list[Check]:
    """Check that all packets arrived in order and that each packet has a report."""
    disordered = sum(
        not np.array_equal(r.received["sequence"], np.arange(r.flow.count))
        for r in outcome.records.values()
    )
    sources, sent = outcome.kept.findings.sources, sum(f.count for f in outcome.flows.values())
    lacking = int((sources["lost"] + sources["missing"]).sum())
    return [
        Check("flows with lost or reordered packets", disordered, 0),
        Check("reports with the whole path", sum(map(len, outcome.reported.values())), sent),
        Check("reports", len(outcome.kept.reports), sent),
        Check("missing report sequence numbers", lacking, 0),
        Check("malformed reports", outcome.kept.findings.parse_errors.total(), 0),
    ]


def check_hops(outcome: Outcome) -> list[Check]:
    """Check the max error of each quantity at each switch, compared with ground truth."""
    errors: dict[tuple[str, str], int] = {}
    for name in outcome.flows:
        for hop, switch in enumerate(flow_path(name)):
            reported, truth = outcome.reported[name][:, hop], outcome.truth[name][hop]
            if len(reported) != len(truth.arrived_ns):
                continue  # check_reports() counts missing reports
            arrived_us = reported["ingress_ns"].astype(np.int64) // 1000
            waiting = reported["occupancy"].astype(np.int64)
            bounds = truth.min_queued, truth.max_queued
            for what, wrong in (
                (
                    "arrival (us)",
                    arrived_us - np.clip(arrived_us, *outcome.arrival_us(switch, truth)),
                ),
                ("queue (packets)", waiting - np.clip(waiting, *bounds)),
            ):
                key = switch, what
                errors[key] = max(errors.get(key, 0), int(abs(wrong).max()))
    return [Check(f"{switch}: max error of {what}", error, 0)
            for (switch, what), error in sorted(errors.items())]  # fmt: skip


def check_culprit(outcome: Outcome, culprit: Culprit) -> list[Check]:
    """Check that reports identify the same port and flow as captures and senders."""
    node = max(outcome.queues, key=outcome.longest)
    flow = max(outcome.flows.values(), key=lambda flow: burst_share(outcome, flow.id))
    named = int(np.count_nonzero(culprit.arrived["flow"] == flow.port))
    low_us, high_us = outcome.arrival_us(f"s{node}", outcome.queues[node].passage(flow))
    first_us, last_us = (culprit.arrived["time_ns"][[0, -1]] // 1000).tolist()
    fewest = int(np.count_nonzero((low_us >= first_us) & (high_us <= last_us)))
    most = int(np.count_nonzero((high_us >= first_us) & (low_us <= last_us)))
    late, true_late = late_packets(outcome)
    return [
        Check("congested switch (number)", culprit.node, node),
        Check("congested port (number)", culprit.egress, outcome.ports[node]),
        Check("bursting flow (UDP port)", culprit.flow, flow.port),
        Check(
            "packets of the bursting flow while the queue grew", named, np.clip(named, fewest, most)
        ),
        Check(
            f"packets of the red flow later than {outcome.scale.late_us / 1000:g} ms",
            late,
            np.clip(late, *true_late),
        ),
    ]


def burst_share(outcome: Outcome, number: int) -> float:
    """Return the fraction of a flow's packets that were sent during the burst."""
    sent_ns = outcome.records[number].sent["sent_ns"].astype(np.int64) - outcome.burst_ns
    return float(np.mean((sent_ns >= 0) & (sent_ns < 1e9 * outcome.scale.burst_s)))


def late_packets(outcome: Outcome) -> tuple[int, tuple[int, int]]:
    """Count late packets of the red flow: from reports, and bounds from ground truth."""
    reported, late_us = outcome.reported["red"], outcome.scale.late_us
    reported_us = (
        (reported["ingress_ns"] + reported["latency_ns"])[:, -1].astype(np.int64)
        - reported["ingress_ns"][:, 0].astype(np.int64)
    ) // 1000
    low, high = (int(np.sum(true_us > late_us)) for true_us in outcome.delay_us("red"))
    return int(np.sum(reported_us > late_us)), (low, high)


def is_shown(outcome: Outcome, time_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask of times that are near the burst."""
    bursts = (time_ns - outcome.burst_ns) / 1e9 / outcome.scale.burst_s
    return (bursts >= -BEFORE) & (bursts < AFTER)


def make_samples(outcome: Outcome) -> list[dict[str, object]]:
    """Return a row for each packet at each switch, near the burst."""
    rows = []
    for name in outcome.flows:
        for hop, switch in enumerate(flow_path(name)):
            reported, truth = outcome.reported[name][:, hop], outcome.truth[name][hop]
            for number in np.flatnonzero(is_shown(outcome, truth.arrived_ns)).tolist():
                if number < len(reported):
                    rows.append({
                        "flow": name,
                        "switch": switch,
                        "packet": number,
                        "time_us": (int(truth.arrived_ns[number]) - outcome.burst_ns) / 1000,
                        "queue_packets": int(reported["occupancy"][number]),
                        "min_queue_packets": int(truth.min_queued[number]),
                        "max_queue_packets": int(truth.max_queued[number]),
                    })  # fmt: skip
    return rows


def make_metrics(outcome: Outcome, culprit: Culprit) -> dict[str, object]:
    """Return the rate increase of the identified flow, the queue growth and queue lengths."""
    return {
        "culprit": {"node": culprit.node, "port": culprit.egress, "flow": culprit.flow},
        "more_bps": culprit.more_bps,
        "queue_growth_ms": np.ptp(culprit.arrived["time_ns"]) / 1e6,
        "max_queue_packets": {node: outcome.longest(node) for node in outcome.queues},
        "late_packets_of_red": late_packets(outcome)[0],
    }


def make_queues_table(outcome: Outcome) -> Table:
    """Return a table with a row for each switch except the last."""
    rows = []
    for node, queue in outcome.queues.items():
        reported = [outcome.reported[name][:, hop]["occupancy"]
                for name in outcome.flows for hop, switch in enumerate(flow_path(name)[:-1])
                if switch == f"s{node}"]  # fmt: skip
        rows.append((f"s{node}", max(int(each.max(initial=0)) for each in reported),
                     queue.min_queued.max(), queue.max_queued.max()))  # fmt: skip
    names = ("switch", "measured", "ground truth (min)", "ground truth (max)")
    return table("Max queue towards the next switch (packets)", names, rows)


def make_flows_table(outcome: Outcome, culprit: Culprit) -> Table:
    """Return a table with a row for each flow that entered the longest queue."""
    rows = [
        (name, culprit.more_bps[flow.port] / 1e6, "burst" if flow.port == culprit.flow else "")
        for name, flow in outcome.flows.items() if flow.port in culprit.more_bps
    ]  # fmt: skip
    title = f"Rate increase while the queue of s{culprit.node} grew, from reports"
    return table(title, ("flow", "rate increase (Mbit/s)", ""), rows)


def draw(outcome: Outcome, seen: NDArray[np.void], culprit: Culprit) -> Figure:
    """Draw queue lengths (left) and the traffic into the longest queue (right)."""
    figure, (left, right) = plots.figure(2)
    near = seen[is_shown(outcome, seen["time_ns"])]
    for node, queue in outcome.queues.items():
        own = near[(near["node"] == node) & (near["egress"] == outcome.ports[node])]
        left.plot((own["time_ns"] - outcome.burst_ns) / 1e6, own["occupancy"], marker="",
                  linewidth=2, color=plots.COLOURS[node - 1], label=f"s{node}")  # fmt: skip
        true = np.flatnonzero(is_shown(outcome, queue.arrived_ns))
        truth = "upper bound" if outcome.clock_errors_us else "ground truth"
        left.plot((queue.arrived_ns[true] - outcome.burst_ns) / 1e6, outcome.lengths(node)[true],
                  "k:", marker="", linewidth=0.8, label=truth if node == 4 else "")  # fmt: skip
    left.set_ylabel("Queue length (packets)")
    draw_rates(right, outcome, near, culprit)
    for axes in (left, right):
        axes.set_xlabel("Time since start of burst (ms)")
        axes.set_xlim(*(1000 * outcome.scale.burst_s * end for end in (-BEFORE, AFTER)))
        plots.legend(axes, 3)
    return figure


def draw_rates(axes: Axes, outcome: Outcome, near: NDArray[np.void], culprit: Culprit) -> None:
    """Draw the reported traffic of each flow into the longest queue, and the link rate."""
    own = near[(near["node"] == culprit.node) & (near["egress"] == culprit.egress)]
    bin_ms = 1000 * outcome.scale.burst_s * BIN
    edges_ms = bin_ms * np.arange(round(-BEFORE / BIN), round(AFTER / BIN) + 1)
    below = np.zeros(len(edges_ms) - 1)
    for name, flow in outcome.flows.items():
        some = own[own["flow"] == flow.port]
        if len(some):
            at_ms = (some["time_ns"] - outcome.burst_ns) / 1e6
            bits, _ = np.histogram(at_ms, edges_ms, weights=some["bits"])
            rates = bits / bin_ms / 1000
            axes.stairs(below + rates, edges_ms, baseline=below, fill=True, label=name,
                        color=COLOURS[name])  # fmt: skip
            below = below + rates
    if not outcome.clock_errors_us:
        axes.axhline(RATE_BPS / 1e6, color="black", linewidth=0.8, linestyle="--",
                     label="link rate")  # fmt: skip
    axes.set_ylabel(f"Traffic into queue of s{culprit.node} (Mbit/s)")


def caption(options: argparse.Namespace, outcome: Outcome, culprit: Culprit) -> str:
    """Return the caption of the figure."""
    scale, links = outcome.scale, f"links of {RATE_BPS / 1e6:g} Mbit/s"
    truth = "ground truth from captures (dotted)"
    if outcome.clock_errors_us:
        links = f"queues of {BMV2_QUEUE_PPS / scale.slower:,.0f} packets/s"
        truth = "packets ahead in the switch, by captures (dotted)"
    return (
        f"A burst of {BURST_BPS / scale.slower / 1e6:.3g} Mbit/s for {1000 * scale.burst_s:g} ms, "
        f"of one of five flows of {USUAL_BPS / scale.slower / 1e6:.3g} Mbit/s (frames of "
        f"{FRAME_BYTES} bytes) over a chain of five switches with {links}, {options.before:g} s "
        f"after their start, {plots.runs(1, options.time)}. (a) Length of the queue towards the "
        f"next switch, measured by INT-MD with each packet (colours), and {truth}. (b) Traffic "
        f"into the queue of s{culprit.node}, from reports, including INT bytes, in bins of "
        f"{1000 * scale.burst_s * BIN:g} ms."
    )


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
