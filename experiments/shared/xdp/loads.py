"""CPU utilization of candidates at different offered loads (pace.py).

A process that reads from a socket runs on a second core. The process either polls or sleeps until
packets arrive.
"""

import ctypes
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import NamedTuple

from ebpf.loader import load
from experiments.shared.xdp.dropping import CONNTRACK, PORTS, RAW, SOCKETS, passing
from experiments.shared.xdp.interleaved_rounds import Candidate, ReadyCandidate
from experiments.shared.xdp.pace import Offered, Pace, read_waited_ns, start_pace
from experiments.shared.xdp.sockets import RING, AfXdpReceiver
from experiments.shared.xdp.veth_setup import DEVICE, VethPair
from telemark.errors import note_invalid

# size of a socket's ring, for packets that arrive while other processes use the core
LARGE_RING = 4 * RING
MAX_WAITED = 0.3  # a measurement is repeated if others use a core for more than this fraction
MAX_AT_SOCKETS_PPS = 1_000_000  # above this rate, the ring of a process sometimes overflows
TRIES = 20  # max number of tries of a measurement that exceeds MAX_WAITED


class Loaded(NamedTuple):
    """Result of a candidate at one load in one round."""

    round: int
    candidate: str
    offered_pps: int  # offered load; 0 means max rate
    sent: int
    counted: int
    carried_pps: float
    busy: float  # number of busy cores, for packet arrivals and for the process
    process_busy: float  # number of busy cores for the process only; 0 without a process
    waited: float  # fraction of time in which other processes used the cores
    tries: int  # number of tries; all tries except the last exceeded MAX_WAITED


class Plan(NamedTuple):
    """Offered loads of each round in packets/s, and duration of each load."""

    frames: Sequence[bytes]
    loads_pps: Sequence[int]
    seconds: float
    rounds: int
    cores: Sequence[int]  # two cores: that of packet arrivals, and that of a process


def _at_socket(*, sleeps: bool) -> Candidate:
    def set_up(veth: VethPair, stack: ExitStack) -> ReadyCandidate:
        passing(stack)
        whole = stack.enter_context(load(SOCKETS))
        receiver = AfXdpReceiver(DEVICE, LARGE_RING)
        stack.callback(receiver.close)
        whole.maps["sockets"][0] = receiver.descriptor
        return ReadyCandidate(whole.programs["to_socket"], lambda: receiver.packets,
                        follow=lambda stops: receiver.follow(stops, sleeps=sleeps))  # fmt: skip

    return Candidate(f"AF_XDP, {'sleeping' if sleeps else 'polling'}", set_up, cores=1)


SLEEPING, POLLING = _at_socket(sleeps=True), _at_socket(sleeps=False)
CANDIDATES = (PORTS, RAW, CONNTRACK, SLEEPING, POLLING)


def measure_loads(plan: Plan, show_progress: Callable[[str], None]) -> Iterator[Loaded]:
    """Run all candidates at all loads in each round.

    Candidates without a process also run at max rate. The run is inconclusive if packets are
    missing or if other processes used the cores for too long.
    """
    with ExitStack() as stack:
        veths = []
        for candidate in CANDIDATES:
            veth = VethPair()
            stack.callback(veth.close)
            with veth.entered():
                ready = candidate.set_up(veth, stack.enter_context(ExitStack()))
            veths.append((candidate.name, veth, ready))
        for number in range(1, plan.rounds + 1):
            for name, veth, ready in veths[:: 1 if number % 2 else -1]:
                show_progress(f"round {number}: {name}")
                with ThreadPoolExecutor(1) as thread:  # a thread in the namespace of the candidate
                    yield from thread.submit(_turn, plan, number, name, veth, ready).result()


def _offers(loads_pps: Sequence[int], ready: ReadyCandidate) -> Sequence[int]:
    """Return the loads that a candidate can receive (the kernel drops packets at a full socket)."""
    if ready.follow is None:
        return (*loads_pps, 0)
    return [pps for pps in loads_pps if pps <= MAX_AT_SOCKETS_PPS]


def _turn(
    plan: Plan, number: int, name: str, veth: VethPair, ready: ReadyCandidate
) -> list[Loaded]:
    """Run a candidate at all loads, in this thread."""
    os.sched_setaffinity(0, plan.cores[:1])
    with veth.entered(), start_pace(ready.program, plan.frames) as pace:
        return [
            _at_last(plan, (number, name, pps), pace, ready)
            for pps in _offers(plan.loads_pps, ready)
        ]


def _at_last(plan: Plan, of: tuple[int, str, int], pace: Pace, ready: ReadyCandidate) -> Loaded:
    """Measure at most TRIES times, until a measurement is valid. Return the last measurement.

    A measurement is valid if all packets were counted, and if other processes used the cores for at
    most MAX_WAITED of the time. If the candidate has no process, lost packets end the tries.
    """
    (number, name, pps), why = of, ""
    for tries in range(1, TRIES + 1):
        before = ready.counted()
        offered, process, process_waited = _offered(plan, pace, ready, pps)
        counted = ready.counted() - before
        waited = max(offered.waited, process_waited)
        pps_carried = offered.packets / offered.wall_ns * 1e9
        loaded = Loaded(number, name, pps, offered.packets, counted, pps_carried,
                        offered.busy + process, process, waited, tries)  # fmt: skip
        if waited <= MAX_WAITED and counted == offered.packets:
            return loaded
        causes = []
        if counted != offered.packets:
            causes.append(f"{offered.packets} packets sent, but {counted} counted")
        if waited > MAX_WAITED:
            causes.append(f"other processes used its cores for {waited:.0%} of the time")
        why = f"{name}: {'; '.join(causes)}"
        if counted != offered.packets and ready.follow is None:
            break
    note_invalid(why)
    return loaded


def _offered(
    plan: Plan, pace: Pace, ready: ReadyCandidate, pps: int
) -> tuple[Offered, float, float]:
    """Offer a load. Return the result, and in which fractions of time a process ran, and waited."""

    def follow() -> tuple[float, float]:
        if ready.follow is None:
            return 0.0, 0.0
        os.sched_setaffinity(0, plan.cores[1:])
        began = time.perf_counter_ns(), time.thread_time_ns(), read_waited_ns()
        ready.follow(stops)
        now = time.perf_counter_ns(), time.thread_time_ns(), read_waited_ns()
        wall, cpu, waited = (after - before for after, before in zip(now, began, strict=True))
        return cpu / (wall - waited), waited / wall

    stops = ctypes.c_int()
    with ThreadPoolExecutor(1) as threads:
        beside = threads.submit(follow)
        try:
            offered = pace.offer(pps, plan.seconds)
        finally:
            stops.value = 1
        return offered, *beside.result()
