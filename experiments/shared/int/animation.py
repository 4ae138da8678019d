"""Animation of the microburst for index.html: node positions and packet times."""

import numpy as np
from numpy.typing import NDArray

from experiments.shared.int.microburst import PATHS, SWITCHES, Outcome, flow_path
from telemark.results.replay import Replay, ReplayedFlow

BEFORE_NS, AFTER_NS = (
    10_000_000,
    270_000_000,
)  # begins with the burst, ends when the queue is empty
COLOURS = dict(zip(PATHS, ("#D55E00", "#0072B2", "#56B4E9", "#009E73", "#E69F00"), strict=True))


def make_replay(outcome: Outcome) -> Replay:
    """Return the replay of all packets near the burst, with links from left to right."""
    switches = {f"s{n}": (n / (SWITCHES + 1), 0.6) for n in range(1, SWITCHES + 1)}
    used = {node for source, destination, *_ in PATHS.values() for node in (source, destination)}
    crossing = {f"x{n}": (n / (SWITCHES + 1), 0.1) for n in range(1, SWITCHES + 1)}
    hosts = {"h1": (0.02, 0.6), "h2": (0.98, 0.6)} | crossing
    return Replay(
        caption="Burst of one of five flows in a chain of five switches, from captures of the "
        "switch ports. A dot is a packet; its link transit is slowed down. A bar is a queue, in "
        "the colours of the queued flows.",
        places=switches | {node: hosts[node] for node in hosts if node in used},
        flows=[
            ReplayedFlow(name, COLOURS[name], [source, *flow_path(name), destination],
                         packet_times(outcome, name))
            for name, (source, destination, *_) in PATHS.items()
        ],
        zero_ns=outcome.burst_ns,
        begin_ns=outcome.burst_ns - BEFORE_NS,
        end_ns=outcome.burst_ns + AFTER_NS,
    )  # fmt: skip


def packet_times(outcome: Outcome, name: str) -> NDArray[np.int64]:
    """Return packet times in the layout of ReplayedFlow."""
    record = outcome.records[outcome.flows[name].id]
    sent_ns, received_ns = np.zeros((2, record.flow.count), np.int64)
    sent_ns[record.sent["sequence"]] = record.sent["sent_ns"]
    received_ns[record.received["sequence"]] = record.received["received_ns"]
    passages = [times for each in outcome.truth[name] for times in (each.arrived_ns, each.left_ns)]
    return np.column_stack([sent_ns, *passages, received_ns])
