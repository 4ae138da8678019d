"""Speed of minip4 compared with a plain forwarder, with bmv2 and with no switch.

One IPv4 program, compiled once, runs on minip4 and on simple_switch and simple_switch_grpc of bmv2,
if they are installed. Each round measures each switch once. Only ratios within rounds are checked.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.speed.shared.claims import AtLeast, AtMost, ratios
from benchmarks.speed.shared.pipeline import BY_HAND, Pipelines
from benchmarks.speed.shared.startup import first_packet_s, measure_libraries
from benchmarks.speed.shared.switch_chain import (
    ANY_CORE,
    BMV2,
    FORWARDER,
    FRAME_BYTES,
    GENERATOR_CORE,
    MINIP4,
    NO_SWITCH,
    SWITCH_CORE,
    TRAIN,
    Chain,
    Processes,
    compile_router,
    find_bmv2,
    resident_mb,
    tool,
)
from benchmarks.speed.shared.tcp import gbps
from telemark.errors import TestbedError
from telemark.results import plots
from telemark.results.report import Check, Report, table
from telemark.session import cli
from telemark.session.run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ANY_PACE = 0
# An unpaced sender starves bmv2, so bmv2 gets several send rates and the best result counts.
PACES = {BMV2[0]: (60_000, 80_000, 100_000, 130_000), BMV2[1]: (60_000, 80_000, 100_000, 130_000)}
CHAIN_PACES = {BMV2[0]: (25_000, 35_000, 50_000, 70_000), BMV2[1]: (25_000, 35_000, 50_000),
               MINIP4: (ANY_PACE, 250_000, 350_000, 450_000, 550_000)}  # fmt: skip
LATENCY_PACE = 80_000
SATURATED = "64 B, saturated"  # frames are sent in trains, as in real flows
CHAIN, MEMORY_CHAIN = "64 B, chain of three", "64 B, chain of three over memory links"
COMPARED = (SATURATED, CHAIN, "TCP, one stream")  # measures for all switches
SINGLES = "64 B, saturated, no two in a row alike"
LATENCY = "latency at 80 kpps"
# with real-time priority, the latency includes no time of waiting for a core
OWN_LATENCY = "latency at 80 kpps, real-time priority"
COLD, WARM = "source to first packet, cold", "source to first packet, warm"
PYTHON = "Python and gRPC alone"
ROUNDS, QUICK_ROUNDS = 5, 1

Add = Callable[[str, str, str, float], None]  # (measure, unit, switch, value)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--simple-switch", metavar="PATH",
        help="simple_switch of bmv2 (default: simple_switch on PATH, if installed)",
    )  # fmt: skip


@dataclass(frozen=True)
class Sample:
    measure: str
    unit: str
    switch: str
    value: float
    round: int


class Benchmark:
    """Measurement of all switches."""

    def __init__(self, options: argparse.Namespace, run: Run) -> None:
        self.run = run
        self.samples: list[Sample] = []
        self.bmv2 = find_bmv2(options.simple_switch)
        self._seed = options.seed
        self._rounds = QUICK_ROUNDS if options.quick else ROUNDS
        self._seconds = 0.1 if options.quick else 1.0

    def take(self) -> None:
        """Run all measurements."""
        compile_router(self.run.folder)
        for name in ("generate", "forward", "latency", "tcp"):
            tool(name)  # compile before the measurement
        with self.chain(MINIP4, 1):
            pass  # compile before the measurement
        pipelines = Pipelines(self._seed)
        for number in range(self._rounds):
            self._round(number, pipelines)

    def _round(self, number: int, pipelines: Pipelines) -> None:
        def add(measure: str, unit: str, switch: str, value: float) -> None:
            self.samples.append(Sample(measure, unit, switch, value, number))

        def show(what: str) -> None:
            self.run.progress.update(f"round {number + 1} of {self._rounds}: {what}")

        show("pipelines alone")
        costs = pipelines.measure(20 if self._rounds == 1 else 100)
        for (name, kind), cost_ns in costs.items():
            add(f"pipeline, {name}", "ns", kind, cost_ns)
        for kind in (NO_SWITCH, FORWARDER, MINIP4, *self.bmv2):
            show(f"64 B through {kind}")
            with self.chain(kind, 0 if kind == NO_SWITCH else 1) as chain:
                add(SATURATED, "kpps", kind, self._best(chain, PACES, TRAIN))
                add(SINGLES, "kpps", kind, self._best(chain, PACES, 1))
                if kind == MINIP4:
                    add("memory", "MB", kind, resident_mb(chain.switches[0]))
                self._latency(LATENCY, chain, add)
                if kind == MINIP4:
                    chain.set_realtime_priority()
                    self._latency(OWN_LATENCY, chain, add)
        for kind in (MINIP4, *self.bmv2):
            show(f"64 B through three of {kind}")
            with self.chain(kind, 3, ANY_CORE) as chain:
                add(CHAIN, "kpps", kind, self._best(chain, CHAIN_PACES, TRAIN))
        show("64 B through three of minip4 over memory links")
        with self.chain(MINIP4, 3, ANY_CORE, memory=True) as chain:
            add(MEMORY_CHAIN, "kpps", MINIP4, self._best(chain, CHAIN_PACES, TRAIN))
        for kind in (NO_SWITCH, MINIP4, *self.bmv2):
            show(f"TCP through {kind}")
            with self.chain(kind, 0 if kind == NO_SWITCH else 1) as chain:
                add("TCP, one stream", "Gbit/s", kind, gbps(chain, self._seconds * 2))
        self._measure_startup(show, add)

    def _latency(self, measure: str, chain: Chain, add: Add) -> None:
        for name, value in zip(("p50", "p99", "largest"), latency_us(chain, self._seconds),
                               strict=True):  # fmt: skip
            add(f"{measure}, {name}", "us", chain.kind, value)

    def _measure_startup(self, show: Callable[[str], None], add: Add) -> None:
        with Processes(self.run.folder) as processes:
            took_s, memory_mb = measure_libraries(processes)
            add(WARM, "s", PYTHON, took_s)
            add("memory", "MB", PYTHON, memory_mb)
        with tempfile.TemporaryDirectory(dir=self.run.folder) as cache:
            for measure in (COLD, WARM):
                show(measure)
                with Processes(self.run.folder) as processes:
                    took_s = first_packet_s(processes, Path(cache))
                add(measure, "s", MINIP4, took_s)

    def _best(self, chain: Chain, paces: Mapping[str, tuple[int, ...]], train: int) -> float:
        """Return the delivered rate in kpps at the best send rate for this switch."""
        return max(
            chain.delivered_pps(pace, self._seconds, train) / 1e3
            for pace in paces.get(chain.kind, (ANY_PACE,))
        )

    @contextmanager
    def chain(
        self, kind: str, count: int, core: int = SWITCH_CORE, *, memory: bool = False
    ) -> Iterator[Chain]:
        with Processes(self.run.folder) as processes:
            chain = Chain(kind, count, core, processes, self.bmv2, memory=memory)
            try:
                yield chain
            finally:
                chain.remove()


def latency_us(chain: Chain, seconds: float) -> tuple[float, float, float]:
    """Return the median, 99th percentile and maximum of one-way delays."""
    command = [tool("latency"), "g", "t", LATENCY_PACE, seconds, FRAME_BYTES, GENERATOR_CORE]
    probe = chain.processes.start([str(word) for word in command])
    _sent, _received, p50, p99, largest = chain.processes.finish(probe)
    return p50 / 1e3, p99 / 1e3, largest / 1e3


def experiment(options: argparse.Namespace, run: Run) -> Report:
    if options.target != "minip4" or options.time != "real":
        raise TestbedError("this benchmark measures minip4 in real time")
    benchmark = Benchmark(options, run)
    benchmark.take()
    return report(benchmark.samples, tuple(benchmark.bmv2))


Found = dict[tuple[str, str], list[float]]  # (measure, switch) -> value in each round


def report(samples: list[Sample], bmv2: tuple[str, ...]) -> Report:
    """Compare the switches within rounds."""
    grouped: dict[tuple[str, str, str], list[float]] = {}
    for sample in samples:
        grouped.setdefault((sample.measure, sample.switch, sample.unit), []).append(sample.value)
    found = {key[:2]: values for key, values in grouped.items()}
    rows = [
        (measure, switch, statistics.median(values), min(values), max(values), unit,
         ratio_to_minip4(found, measure, switch))
        for (measure, switch, unit), values in grouped.items()
    ]  # fmt: skip
    columns = ("measure", "switch", "median", "min", "max", "unit", "minip4 / switch")
    rounds = max(sample.round for sample in samples) + 1
    return Report(
        samples=[asdict(sample) for sample in samples],
        checks=checks(found, bmv2),
        metrics={f"{measure}: {switch}": statistics.median(values)
                 for (measure, switch), values in found.items()},
        figure=figure(grouped),
        caption="minip4 and other switches with the same packets: median, minimum and maximum of "
        f"{plots.count(rounds, 'round')}. (a) {COMPARED[0]}. (b) {COMPARED[1]}. (c) {COMPARED[2]}.",
        tables=[
            table("64 B with Ethernet header. bmv2 has queues of 64 packets. Queues of minip4 are "
                "empty, because its ports have no rate.", columns, rows),
            table(f"{SATURATED}: minip4 / the better of bmv2's two rows",
                  ("switch", "ratio", "min - max of the rounds"), times_bmv2(samples, bmv2)),
        ],
    )  # fmt: skip


def ratio_to_minip4(found: Found, measure: str, switch: str) -> str:
    if switch == MINIP4:
        return ""
    own, other = found[measure, MINIP4], found[measure, switch]
    return f"{statistics.median(own) / statistics.median(other):.2f}"


def checks(found: Found, bmv2: tuple[str, ...]) -> list[Check]:
    """Return the claims, including claims about bmv2 if bmv2 was measured."""

    def own(measure: str) -> list[float]:
        return found[measure, MINIP4]

    def beside(measure: str, switch: str) -> list[float]:
        return ratios(own(measure), found[measure, switch])

    def grows(kind: str, many: str) -> list[float]:
        return ratios(own(f"pipeline, {kind} {many}"), own(f"pipeline, {kind} 10"))

    by_hand_ns, python_s = found["pipeline, lpm 10", BY_HAND], found[WARM, PYTHON]
    never_sleeps_us = found[f"{LATENCY}, p50", FORWARDER]
    at_least = [
        (f"{SATURATED}: times the plain forwarder", beside(SATURATED, FORWARDER), 0.6),
        (f"{MEMORY_CHAIN}: times the same over veth pairs",
         ratios(own(MEMORY_CHAIN), own(CHAIN)), 1.2),
        ("TCP: times no switch", beside("TCP, one stream", NO_SWITCH), 0.5),
        *((f"{measure}: times {peer}", beside(measure, peer), least) for peer in bmv2
          for measure, least in ((CHAIN, 8), ("TCP, one stream", 4))),
    ]  # fmt: skip
    at_most = [
        (f"{OWN_LATENCY}: p50, times the p50 of the plain forwarder, which never sleeps",
         ratios(own(f"{OWN_LATENCY}, p50"), never_sleeps_us), 10),
        ("pipeline, IPv4 LPM: times the same in C by hand",
         ratios(own("pipeline, lpm 10"), by_hand_ns), 4),
        ("pipeline, telemetry: times IPv4 LPM in C by hand",
         ratios(own("pipeline, telemetry"), by_hand_ns), 8),
        ("10,000 LPM entries: times ten entries", grows("lpm", "10000"), 1.5),
        ("10,000 exact entries: times ten entries", grows("exact", "10000"), 1.5),
        ("1,000 ternary entries: times ten entries", grows("ternary", "1000"), 3),
        (f"{COLD}: times {PYTHON}", ratios(own(COLD), python_s), 20),
        (f"{WARM}: times {PYTHON}", ratios(own(WARM), python_s), 7),
    ]  # fmt: skip
    return [
        *(AtLeast.of_rounds(f"{name}, at least", each, limit) for name, each, limit in at_least),
        *(AtMost.of_rounds(f"{name}, at most", each, limit) for name, each, limit in at_most),
        AtMost(f"memory of a switch: times {PYTHON}, at most",
               statistics.median(beside("memory", PYTHON)), 2),
    ]  # fmt: skip


def times_bmv2(samples: list[Sample], bmv2: tuple[str, ...]) -> list[tuple[str, float, str]]:
    """Return for each bmv2: the saturated rate of minip4, divided by bmv2's higher rate.

    bmv2 has a rate for trains of frames and a rate for single frames. The result is the ratio of
    medians, and its range over rounds. The ratio is reported but not checked: bmv2 has several
    threads, so the ratio depends on other load more than all other values.
    """

    def rates(measure: str, kind: str) -> list[float]:
        return [s.value for s in samples if (s.measure, s.switch) == (measure, kind)]

    rows = []
    for peer in bmv2:
        ours = rates(SATURATED, MINIP4)
        rows_of_peer = [rates(SATURATED, peer), rates(SINGLES, peer)]
        rounds = [a / max(b) for a, *b in zip(ours, *rows_of_peer, strict=True)]
        times = statistics.median(ours) / max(map(statistics.median, rows_of_peer))
        rows.append((peer, times, f"{min(rounds):.1f} - {max(rounds):.1f}"))
    return rows


def figure(grouped: dict[tuple[str, str, str], list[float]]) -> "Figure":
    """Draw the median of each compared measure as a bar, with minimum and maximum."""
    drawn, panels = plots.figure(len(COMPARED), height_in=1.9)
    for measure, axes in zip(COMPARED, panels, strict=True):
        taken = [(k[1], k[2], values) for k, values in grouped.items() if k[0] == measure]
        for place, (switch, _, values) in enumerate(taken):
            middle = statistics.median(values)
            spread = [[middle - min(values)], [max(values) - middle]]
            colour = plots.COLOURS[0] if switch == MINIP4 else plots.COLOURS[5]
            axes.barh(place, middle, xerr=spread, color=colour)
        axes.set_yticks(range(len(taken)), [switch for switch, _, _ in taken])
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(taken[0][1])
    return drawn


if __name__ == "__main__":
    cli.main(f"benchmark_{Path(__file__).name}", __doc__, experiment, add_options)
