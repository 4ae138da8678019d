"""Speed-up of one network in virtual time on several threads, and the limits of the speed-up.

The benchmark simulates flows over leaf-spine fabrics of IPv4 routers, alternately with one thread
and with several threads. The records of both runs must be identical. Rates are per wall time, so
the machine must be idle. Cores share caches and memory, which limits the speed-up. To measure the
largest possible speed-up, the benchmark also runs independent one-thread simulations in parallel.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import contextlib
import hashlib
import json
import os
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.speed.shared.claims import AtLeast, AtMost, claims_table
from benchmarks.speed.virtual import (
    FABRICS,
    RATE_PPS,
    ROUTER,
    draw_rounds,
    make_flows,
    resident_mb,
    scale_by_switches,
)
from controllers.connection import connection
from controllers.routing import routing_entries
from minip4.simulator.virtual import Partition
from telemark.backends.virtual.network import VirtualBackend
from telemark.errors import BusyMachineError, note_invalid
from telemark.network import Network
from telemark.results import plots
from telemark.results.report import Check, Report, Table, table
from telemark.session import cli
from telemark.session.run import Run, SweepOptions
from telemark.sweep.runs import sweep
from telemark.traffic.flows import FIRST_PORT, Flow, FlowRecord, Traffic
from topologies.leaf_spine import LeafSpine

SIZES = {**FABRICS, 10_000: {"pods": 100, "leaves": 93, "spines": 5, "cores": 40}}
RATE_BPS, DELAY_US, DELAYS_US = 10**11, 10.0, (1.0, 3.0, 10.0, 30.0, 100.0)
CLAIMED = 1000  # number of switches, with links of DELAY_US
MIN_SPEED_UP = 1.7
# min fraction of time for which a thread must have a core; if one thread waits, all others wait for
# it
HAD_CORES = 0.95
WORKER = "minip4-virtual"  # name of the threads of the simulator
MEMORY_MB = 8000
MAX_FLOWS = 50_000  # max flows per batch, because flow ids and ports have 16 bits


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--switches", type=int, choices=SIZES, nargs="+", metavar="N", default=[10, 100, CLAIMED],
        help=f"fabric sizes: {', '.join(map(str, SIZES))} (default: 10 100 {CLAIMED})",
    )  # fmt: skip
    parser.add_argument(
        "--flows", type=cli.positive_int, default=10_000, metavar="N",
        help="flows between random hosts (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--packets", type=cli.positive_int, default=30, metavar="N",
        help="packets per flow (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--rounds", type=cli.positive_int, default=3, metavar="N",
        help="runs of each size (default: %(default)s)",
    )  # fmt: skip


@dataclass(frozen=True)
class Case:
    switches: int
    delay_us: float  # delay of links between switches
    threads: int


@dataclass(frozen=True)
class Sample:
    """Results of one run of one fabric."""

    round: int
    switches: int
    delay_us: float
    threads: int
    events: int
    wall_s: float
    cpu_s: float  # CPU time of all threads
    waited: float  # fraction of time that threads spent waiting for each other
    busiest: float  # number of events of the busiest partition, divided by the mean per partition
    crossed: float  # number of frames between partitions, divided by the number of events
    at_once: float  # fraction of events processed while all threads ran
    memory_mb: float  # memory of the whole process, which includes earlier runs
    digest: str  # digest of all records and counters
    apart: int = 1  # number of independent runs in parallel
    # running time / (running time + run-queue wait), of the thread that waited most
    core_share: float = 1.0
    preemptions: int = 0  # number of involuntary context switches of all threads

    @property
    def events_per_s(self) -> float:
        return self.events / self.wall_s


async def experiment(options: argparse.Namespace, run: Run) -> Report:
    cli.require_time(options, "virtual", "this benchmark measures virtual time")
    threads = max(2, options.threads)
    sizes = [10] if options.quick else sorted(options.switches)
    cases = [(switches, DELAY_US) for switches in sizes]
    if CLAIMED in sizes:
        cases += [(CLAIMED, delay_us) for delay_us in DELAYS_US if delay_us != DELAY_US]
    samples = []
    for number in range(1 if options.quick else options.rounds):
        samples += [
            await measure(number, Case(switches, delay_us, count), options, run)
            for switches, delay_us in cases
            for count in (1, threads)
        ]
        if CLAIMED in sizes or options.quick:
            one = Case(sizes[0] if options.quick else CLAIMED, DELAY_US, 1)
            samples += await side_by_side(number, one, threads, options, run)
    digests = {(s.switches, s.delay_us): s.digest for s in samples}
    others = [s for s in samples if s.digest != digests[s.switches, s.delay_us]]
    promised = claims(samples)
    return Report(
        samples=[asdict(sample) for sample in samples],
        checks=[Check("runs with different results", len(others), 0), *promised],
        figure=draw(samples, threads),
        caption=f"Virtual time on 1 and {threads} threads: {options.flows:,} flows over a "
        f"leaf-spine fabric; median, minimum and maximum of {plots.count(options.rounds, 'round')}."
        f" (a) Events per second of wall time, links of {DELAY_US:g} us. (b) Speed-up and waiting "
        "time of threads against link delay.",
        tables=[summary(samples), claims_table(promised)],
    )


async def side_by_side(
    number: int, case: Case, count: int, options: argparse.Namespace, run: Run
) -> list[Sample]:
    """Run `count` independent processes in parallel."""
    alone = replace(run, sweep_options=SweepOptions(jobs=count, again=True))
    samples = await sweep(measure, [(number, case, options)] * count, alone)
    return [replace(sample, apart=count) for sample in samples]


async def measure(number: int, case: Case, options: argparse.Namespace, run: Run) -> Sample:
    """Run one fabric."""
    run.threads = case.threads
    topo = LeafSpine(**SIZES[case.switches], rate_bps=RATE_BPS, delay_us=case.delay_us)
    name = f"{case.switches}-{case.delay_us:g}-{case.threads}-{number}"
    with Network(topo, run, program=ROUTER, name=name, capture=False) as net:
        for switch in topo.switches():
            async with connection(net, switch) as controller:
                entries = routing_entries(net, switch, topo.routes(switch))
                await controller.write([+entry for entry in entries])
        assert isinstance(net.backend, VirtualBackend)
        start_ns = run.clock.now_ns()
        async with AsyncExitStack() as stack:
            traffics = [
                await stack.enter_async_context(Traffic(net, flows, start_ns))
                for flows in batches(topo, options, run.seed)
            ]
            before = net.backend.events
            scheduled = scheduling()
            began = time.perf_counter(), time.process_time()
            await run.clock.sleep_until(start_ns + round(1e9 * options.packets / RATE_PPS) + 10**8)
            wall_s, cpu_s = time.perf_counter() - began[0], time.process_time() - began[1]
            core_share, preemptions = contention(scheduled, scheduling())
            events, partitions = net.backend.events - before, net.backend.partitions
            at_once = net.backend.events_at_once / events
            records = [record for traffic in traffics
                       for record in (await traffic.finish()).values()]  # fmt: skip
            memory = resident_mb()
    mean = statistics.mean(partition.events for partition in partitions)
    return Sample(
        round=number,
        **asdict(case),
        events=events,
        wall_s=wall_s,
        cpu_s=cpu_s,
        waited=waited(partitions, wall_s),
        busiest=max(partition.events for partition in partitions) / mean,
        crossed=sum(partition.sent for partition in partitions) / events,
        at_once=at_once,
        memory_mb=memory,
        digest=digest(records, net.counters, start_ns),
        core_share=core_share,
        preemptions=preemptions,
    )


@dataclass(frozen=True)
class Scheduling:
    """Kernel counters of a thread, from schedstat and status in proc(5)."""

    running_ns: int
    waiting_ns: int  # time in which the thread was runnable, but another thread had the core
    preemptions: int


def scheduling() -> dict[int, Scheduling]:
    """Return the counters of this thread and of the threads of the simulator, by thread id."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has exited
            if (task / "comm").read_text().strip() != WORKER and int(task.name) != os.getpid():
                continue
            running_ns, waiting_ns, _ = map(int, (task / "schedstat").read_text().split())
            counted = (task / "status").read_text().partition("nonvoluntary_ctxt_switches:")[2]
            found[int(task.name)] = Scheduling(running_ns, waiting_ns, int(counted.split()[0]))
    return found


def contention(
    before: Mapping[int, Scheduling], after: Mapping[int, Scheduling]
) -> tuple[float, int]:
    """Return the core share of the worst thread and the preemptions of all threads.

    The core share is the running time divided by the time in which the thread was runnable.
    """
    share, preemptions = 1.0, 0
    for thread in before.keys() & after.keys():
        old, new = before[thread], after[thread]
        running_ns, waiting_ns = new.running_ns - old.running_ns, new.waiting_ns - old.waiting_ns
        if waiting_ns:
            share = min(share, running_ns / (running_ns + waiting_ns))
        preemptions += new.preemptions - old.preemptions
    return share, preemptions


def batches(topo: LeafSpine, options: argparse.Namespace, seed: int) -> Iterator[list[Flow]]:
    """Yield flows between random hosts in batches of MAX_FLOWS; ports are numbered per host."""
    ports: Counter[str] = Counter()
    for first in range(0, options.flows, MAX_FLOWS):
        count = min(MAX_FLOWS, options.flows - first)
        some = argparse.Namespace(flows=count, packets=options.packets)
        flows = make_flows(topo, some, seed + first)
        for number, flow in enumerate(flows):
            ports[flow.destination] += 1
            flows[number] = replace(flow, port=FIRST_PORT + ports[flow.destination])
        yield flows


def waited(partitions: list[Partition], wall_s: float) -> float:
    return sum(partition.waited_s for partition in partitions) / wall_s / len(partitions)


def digest(records: Iterable[object], counters: Mapping[str, object], start_ns: int) -> str:
    """Return a digest of all records and counters; times are relative to the start."""
    made = hashlib.sha256(json.dumps(counters, sort_keys=True).encode())
    for record in records:
        assert isinstance(record, FlowRecord)
        made.update(record.received["sequence"].tobytes())
        made.update((record.received["received_ns"] - np.uint64(start_ns)).tobytes())
    return made.hexdigest()[:16]


def select(samples: Iterable[Sample], *, apart: int = 1, **what: float) -> list[Sample]:
    return [s for s in samples if s.apart == apart
            and all(getattr(s, key) == value for key, value in what.items())]  # fmt: skip


def speed_ups(samples: list[Sample], switches: int, delay_us: float) -> list[float]:
    """Return the speed-up in each round; a disturbance affects both runs of a round."""
    ours = select(samples, switches=switches, delay_us=delay_us)
    pairs = zip(select(ours, threads=1), [s for s in ours if s.threads > 1], strict=True)
    return [one.wall_s / several.wall_s for one, several in pairs]


def max_times(samples: list[Sample], switches: int, delay_us: float, apart: int) -> list[float]:
    """Return the largest possible speed-up in each round, from `apart` independent runs."""
    where: dict[str, Any] = {"switches": switches, "delay_us": delay_us, "threads": 1}
    return [
        apart * one.wall_s
        / max(s.wall_s for s in select(samples, apart=apart, round=one.round, **where))
        for one in select(samples, **where)
    ]  # fmt: skip


def claims(samples: list[Sample]) -> list[Check]:
    """Return the claims about the measured sizes."""
    checks: list[Check] = []
    if select(samples, switches=CLAIMED):
        times = speed_ups(samples, CLAIMED, DELAY_US)
        reject_if_shared(samples, times)
        checks.append(
            AtLeast.of_rounds(f"{CLAIMED:,} switches, links of {DELAY_US:g} us: times as fast as "
                              "one thread, at least", times, MIN_SPEED_UP)
        )  # fmt: skip
    memory = max(sample.memory_mb for sample in samples)
    return [*checks, AtMost("memory, MB, at most", memory, MEMORY_MB)]


def reject_if_shared(samples: list[Sample], times: list[float]) -> None:
    """Make the run inconclusive if threads are too slow because of the machine.

    There are two possible causes. A one-thread run did not have a core of its own, or a thread of a
    parallel run waited for its core. Scheduler counters show the second cause. One-thread runs
    cannot show it, because they do not use the core of this thread.
    """
    if statistics.median(times) >= MIN_SPEED_UP:
        return
    parallel = [s for s in select(samples, switches=CLAIMED, delay_us=DELAY_US) if s.threads > 1]
    share = statistics.median(s.core_share for s in parallel)
    if share < HAD_CORES:
        preemptions = statistics.median(s.preemptions for s in parallel)
        at_once = statistics.median(s.at_once for s in parallel)
        problem = (
            f"{statistics.median(times):.2f} times as fast as one thread, but a "
            f"thread had a core for {share:.0%} of the time in which it could run "
            f"({preemptions:g} involuntary context switches per run, {at_once:.0%} of events in "
            "parallel)"
        )
        note_invalid(BusyMachineError(problem))
        return
    had = statistics.median(s.cpu_s / s.wall_s for s in samples if s.threads == 1)
    if had < HAD_CORES:
        problem = (
            f"{statistics.median(times):.2f} times as fast as one thread, but the one-thread run "
            f"had a core for only {had:.0%} of its time"
        )
        note_invalid(BusyMachineError(problem))


def summary(samples: list[Sample]) -> Table:
    columns = ("switches", "delay, us", "threads", "events/s", "min - max", "speed-up",
               "waited, %", "busiest/mean", "crossed, %", "parallel, %", "had a core, %",
               "memory, MB")  # fmt: skip
    rows = []
    for switches, delay_us, threads, apart in sorted(
        {(s.switches, s.delay_us, s.threads, s.apart) for s in samples}
    ):
        ours = select(samples, apart=apart, switches=switches, delay_us=delay_us, threads=threads)
        rates = [s.events_per_s for s in ours]
        times = 1.0
        if threads > 1:
            times = statistics.median(speed_ups(samples, switches, delay_us))
        elif apart > 1:
            times = statistics.median(max_times(samples, switches, delay_us, apart))
        rows.append((
            switches, delay_us, f"{apart} independent runs" if apart > 1 else str(threads),
            round(statistics.median(rates)),
            f"{min(rates):,.0f} - {max(rates):,.0f}", times,
            *(100 * statistics.median(getattr(s, what) for s in ours) if what != "busiest"
              else statistics.median(s.busiest for s in ours)
              for what in ("waited", "busiest", "crossed", "at_once", "core_share")),
            round(max(s.memory_mb for s in ours)),
        ))  # fmt: skip
    return table("Virtual time on several threads: medians over rounds", columns, rows)


def draw(samples: list[Sample], threads: int) -> Figure:
    """Draw the event rate over switches (left), and speed-up and waiting over delay (right)."""
    figure, (left, right) = plots.figure(2)
    sizes = sorted({sample.switches for sample in samples})
    for count in (1, threads):
        of_sizes = [[s.events_per_s / 1e6 for s in
                     select(samples, switches=size, delay_us=DELAY_US, threads=count)]
                    for size in sizes]  # fmt: skip
        draw_rounds(left, sizes, of_sizes, plots.count(count, "thread"))
    scale_by_switches(left, sizes)
    left.set_ylabel("Event rate (millions/s)")
    left.set_ylim(bottom=0)
    plots.legend(left, 2)
    shown = CLAIMED if CLAIMED in sizes else sizes[-1]
    delays = sorted({sample.delay_us for sample in select(samples, switches=shown)})
    draw_rounds(right, delays, [speed_ups(samples, shown, delay) for delay in delays],
                f"speed-up, {shown:,} switches")  # fmt: skip
    waits = [[s.waited for s in
              select(samples, switches=shown, delay_us=delay, threads=threads)]
             for delay in delays]  # fmt: skip
    draw_rounds(right, delays, waits, "fraction of time spent waiting")
    right.set_xscale("log")
    right.set_xticks(delays, [f"{delay:g}" for delay in delays])
    right.minorticks_off()
    right.set_xlabel("Link delay (µs)")
    right.set_ylim(bottom=0)
    plots.legend(right, 1)
    return figure


if __name__ == "__main__":
    cli.main(__file__, __doc__, experiment, add_options)
