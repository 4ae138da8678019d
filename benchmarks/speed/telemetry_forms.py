"""What a host's telemetry costs by its form: packets, records or sketches; one program or a chain.

Packets by Zipf's law go through the programs that hosts attach. How many bytes a window has for
user space is exact: each packet, its first 128 bytes (a mirror that is cut), a record of each flow
(a key and a count), or sketches. What a packet takes is measured in turns on one core, as ratios
of the same round: six kinds of statistics in one program, and the same six as a program each, one
handing on to the next.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import os
import statistics
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebpf.loader import chain
from ebpf.statistics.offer import ROW, UDP, offering
from ebpf.statistics.program import Kept, Setting, Statistics, counting
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run

PACKETS, QUICK_PACKETS, FLOWS, ROUNDS = 400_000, 50_000, 20_000, 7
EXPONENT = 1.1
RECORD_BYTES, MIRRORED_BYTES = 48, 128  # a key of 40 bytes and a count
KINDS = (Kept.COUNTERS, Kept.QUANTILES, Kept.SAMPLES, Kept.DISTINCT, Kept.MINIMA, Kept.NORMS)
SKETCHES = ("lengths", "sample", "ranks", "leasts", "sketches", "totals")  # the maps of all others


class Costs(NamedTuple):
    """ns a packet over a program that does nothing, of one round."""

    one_pass: float
    chained: float
    missed: int  # packets that a program of the seven did not count


def experiment(options: argparse.Namespace, run: Run) -> Report:
    packets = QUICK_PACKETS if options.quick else PACKETS
    rng = np.random.default_rng(run.seed)
    weights = np.arange(1, FLOWS + 1) ** -EXPONENT
    numbers = rng.choice(FLOWS, size=packets, p=weights / weights.sum())
    each = np.zeros(FLOWS, ROW)
    for name, most in (("source", 1 << 32), ("destination", 1 << 32), ("source_port", 1 << 16)):
        each[name] = rng.integers(most, size=FLOWS)
    each["protocol"] = UDP
    each["length"] = rng.choice((64, 576, 1500), p=(0.5, 0.2, 0.3), size=FLOWS)
    rows = each[numbers]
    forms = bytes_by_form(rows, run.seed)
    rows["length"] = 64
    measured = costs(rows, run.seed)
    ratio = [each.chained / each.one_pass for each in measured]
    return Report(
        samples=[each._asdict() for each in measured],
        checks=[
            Check("packets that a program did not count", sum(each.missed for each in measured), 0),
            Check("one program for six statistics to a program each: cost, at most 1 / 1.2",
                  1 / statistics.median(ratio), 0, 1 / 1.2),
        ],
        metrics={"bytes_a_packet": forms, "chained_to_one_pass": statistics.median(ratio)},
        tables=[
            table("Bytes a packet for user space", ["form", "bytes", "part of the packets"],
                  [[name, size, size / forms["packets"]] for name, size in forms.items()]),
            table("A program for each of six statistics, to one for all",
                  ["median", "least", "most"],
                  [[statistics.median(ratio), min(ratio), max(ratio)]]),
        ],
    )  # fmt: skip


def bytes_by_form(rows: NDArray[np.void], seed: int) -> dict[str, float]:
    """Of a window of these packets, each form's bytes divided by their number."""
    with offering(rows) as offer, counting(Setting(Kept.ALL, seed=seed)) as kept:
        offer.through(kept.at_xdp, len(rows))
        sketches = sum(kept.buffers.maps[name][0, 0].nbytes for name in SKETCHES)
        counted = kept.flip().counted
    flows = len(counted.counts) if counted else 0
    lengths = rows["length"].astype(np.int64)
    whole = {
        "packets": int(lengths.sum()),
        "mirror of 128 bytes": int(np.minimum(lengths, MIRRORED_BYTES).sum()),
        "records of flows": RECORD_BYTES * flows,
        "sketches": sketches,
    }
    return {name: size / len(rows) for name, size in whole.items()}


def costs(rows: NDArray[np.void], seed: int) -> list[Costs]:
    """In turns, on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        with ExitStack() as stack:
            offer = stack.enter_context(offering(rows))

            def ready(kept: Kept) -> Statistics:
                return stack.enter_context(counting(Setting(kept, seed=seed)))

            whole = ready(Kept(sum(KINDS)))
            single = [ready(kind) for kind in KINDS]
            for own, following in zip(single, [*single[1:], None], strict=True):
                chain.enter(own.at_xdp, following.at_xdp if following else None)
                stack.callback(chain.leave, own.at_xdp)
            found = []
            for _ in range(ROUNDS):
                empty = offer.through(None, len(rows))
                one_pass = offer.through(whole.at_xdp, len(rows)) - empty
                chained = offer.through(single[0].at_xdp, len(rows)) - empty
                seen = [each.flip().totals.packets for each in (whole, *single)]
                missed = sum(len(rows) - packets for packets in seen)
                found.append(Costs(one_pass, chained, missed))
            return found
    finally:
        os.sched_setaffinity(0, before)


if __name__ == "__main__":
    cli.main(f"benchmark_{Path(__file__).name}", __doc__, experiment)
