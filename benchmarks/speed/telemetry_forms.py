"""Cost of telemetry on a host: packets, records or sketches, one program or a chain?

Packets of flows with Zipf-distributed sizes pass through the programs that hosts also use. The
benchmark computes the exact number of bytes per window that user space receives. The forms are
whole packets, the first 128 bytes of packets (a truncated mirror), a record per flow (a key and a
count), and sketches. The CPU time per packet is measured in interleaved rounds on one core, for six
kinds of statistics in one program and for the same six as a chain of six programs.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import statistics
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebpf.loader import chain
from ebpf.statistics.offer import ROW, UDP, load_stream, pin_to_core
from ebpf.statistics.program import Kept, Setting, Statistics, load_statistics
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run

PACKETS, QUICK_PACKETS, FLOWS, ROUNDS = 400_000, 50_000, 20_000, 7
EXPONENT = 1.1
RECORD_BYTES, MIRRORED_BYTES = 48, 128  # bytes of a record (with a key of 40 bytes) and of a packet
KINDS = (Kept.COUNTERS, Kept.QUANTILES, Kept.SAMPLES, Kept.DISTINCT, Kept.MINIMA, Kept.NORMS)
# maps of statistics other than the counters per flow
SKETCHES = ("lengths", "sample", "ranks", "leasts", "sketches", "totals")


class Costs(NamedTuple):
    """CPU time per packet above an empty program in one round, in ns."""

    one_pass: float
    chained: float
    missed: int  # number of packets that at least one of the seven programs did not count


def experiment(options: argparse.Namespace, run: Run) -> Report:
    packets = QUICK_PACKETS if options.quick else PACKETS
    rng = np.random.default_rng(run.seed)
    weights = np.arange(1, FLOWS + 1) ** -EXPONENT
    numbers = rng.choice(FLOWS, size=packets, p=weights / weights.sum())
    each = np.zeros(FLOWS, ROW)
    for name, end in (("source", 1 << 32), ("destination", 1 << 32), ("source_port", 1 << 16)):
        each[name] = rng.integers(end, size=FLOWS)
    each["protocol"] = UDP
    each["length"] = rng.choice((64, 576, 1500), p=(0.5, 0.2, 0.3), size=FLOWS)
    rows = each[numbers]
    forms = measure_bytes(rows, run.seed)
    rows["length"] = 64
    measured = measure_costs(rows, run.seed)
    ratio = [each.chained / each.one_pass for each in measured]
    return Report(
        samples=[each._asdict() for each in measured],
        checks=[
            Check("packets missed by a program", sum(each.missed for each in measured), 0),
            Check("cost of one program (normalized to a program per statistic), at most 1 / 1.2",
                  1 / statistics.median(ratio), 0, 1 / 1.2),
        ],
        metrics={"bytes_per_packet": forms, "chained_to_one_pass": statistics.median(ratio)},
        tables=[
            table("Bytes per packet for user space", ["form", "bytes", "normalized to packets"],
                  [[name, size, size / forms["packets"]] for name, size in forms.items()]),
            table("Cost of six programs (normalized to one program)",
                  ["median", "min", "max"],
                  [[statistics.median(ratio), min(ratio), max(ratio)]]),
        ],
    )  # fmt: skip


def measure_bytes(rows: NDArray[np.void], seed: int) -> dict[str, float]:
    """Return the bytes per packet of each form of telemetry, for a window of these packets."""
    with load_stream(rows) as offer, load_statistics(Setting(Kept.ALL, seed=seed)) as kept:
        offer.through(kept.at_xdp, len(rows))
        sketches = sum(kept.buffers.maps[name][0, 0].nbytes for name in SKETCHES)
        counted = kept.flip().counted
    flows = len(counted.counts) if counted else 0
    lengths = rows["length"].astype(np.int64)
    whole = {
        "packets": int(lengths.sum()),
        "mirror of 128 bytes": int(np.minimum(lengths, MIRRORED_BYTES).sum()),
        "flow records": RECORD_BYTES * flows,
        "sketches": sketches,
    }
    return {name: size / len(rows) for name, size in whole.items()}


def measure_costs(rows: NDArray[np.void], seed: int) -> list[Costs]:
    """Measure one program and the chain of six programs in interleaved rounds on one core."""
    with pin_to_core(), ExitStack() as stack:
        offer = stack.enter_context(load_stream(rows))

        def ready(kept: Kept) -> Statistics:
            return stack.enter_context(load_statistics(Setting(kept, seed=seed)))

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


if __name__ == "__main__":
    cli.main(f"benchmark_{Path(__file__).name}", __doc__, experiment)
