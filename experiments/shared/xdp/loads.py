"""Contenders under loads that are offered at a pace (pace.py): how busy a core is with them.

A process behind a socket has another core for itself, and polls it or sleeps until something comes.
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
from experiments.shared.xdp.interleaved_rounds import Candidate, Standing
from experiments.shared.xdp.pace import Offered, Pace, paced, waited_ns
from experiments.shared.xdp.sockets import RING, AfXdpReceiver
from experiments.shared.xdp.veth_setup import DEVICE, VethPair
from telemark.errors import InvalidRunError

LARGE_RING = 4 * RING  # of a socket: what comes while others have its process's core
MOST_WAITED = 0.3  # part of the time for which others may have a thread's core
MOST_AT_SOCKETS_PPS = 1_000_000  # beyond it a process sometimes finds its ring full
TRIES = 20  # of a measurement in which they had it for longer


class Loaded(NamedTuple):
    """What a contender did with a load in a round."""

    round: int
    candidate: str
    offered_pps: int  # 0: as fast as it went
    sent: int
    counted: int
    carried_pps: float
    busy: float  # cores: that which packets arrive at, and the process's
    process_busy: float  # the latter alone; 0 without a process
    waited: float  # part of the time in which others had their cores
    tries: int  # others had them for too long in all but the last


class Plan(NamedTuple):
    """What is offered in each round: loads (packets a second), each for so long."""

    frames: Sequence[bytes]
    loads_pps: Sequence[int]
    seconds: float
    rounds: int
    cores: Sequence[int]  # that packets arrive at, and that a process takes them at


def _at_socket(*, sleeps: bool) -> Candidate:
    def set_up(ground: VethPair, stack: ExitStack) -> Standing:
        passing(stack)
        whole = stack.enter_context(load(SOCKETS))
        taker = AfXdpReceiver(DEVICE, LARGE_RING)
        stack.callback(taker.close)
        whole.maps["sockets"][0] = taker.descriptor
        return Standing(whole.programs["to_socket"], lambda: taker.packets,
                        follow=lambda stops: taker.follow(stops, sleeps=sleeps))  # fmt: skip

    return Candidate(f"AF_XDP, {'sleeping' if sleeps else 'polling'}", set_up, cores=1)


SLEEPING, POLLING = _at_socket(sleeps=True), _at_socket(sleeps=False)
CONTENDERS = (PORTS, RAW, CONNTRACK, SLEEPING, POLLING)


def under_loads(plan: Plan, told: Callable[[str], None]) -> Iterator[Loaded]:
    """All contenders, at all loads, in each round; those without a process at full speed, too.

    Raises TestbedError where packets are missing, or others had the cores for too long.
    """
    with ExitStack() as stack:
        grounds = []
        for candidate in CONTENDERS:
            ground = VethPair()
            stack.callback(ground.close)
            with ground.entered():
                standing = candidate.set_up(ground, stack.enter_context(ExitStack()))
            grounds.append((candidate.name, ground, standing))
        for number in range(1, plan.rounds + 1):
            for name, ground, standing in grounds[:: 1 if number % 2 else -1]:
                told(f"round {number}: {name}")
                with ThreadPoolExecutor(1) as thread:  # which is in the contender's namespace
                    yield from thread.submit(_turn, plan, number, name, ground, standing).result()


def _offers(loads_pps: Sequence[int], standing: Standing) -> Sequence[int]:
    """What it can take: its kernel drops what a socket has no room for."""
    if standing.follow is None:
        return (*loads_pps, 0)
    return [pps for pps in loads_pps if pps <= MOST_AT_SOCKETS_PPS]


def _turn(plan: Plan, number: int, name: str, ground: VethPair, standing: Standing) -> list[Loaded]:
    """A contender at all loads, in this thread."""
    os.sched_setaffinity(0, plan.cores[:1])
    with ground.entered(), paced(standing.program, plan.frames) as pace:
        return [
            _at_last(plan, (number, name, pps), pace, standing)
            for pps in _offers(plan.loads_pps, standing)
        ]


def _at_last(plan: Plan, of: tuple[int, str, int], pace: Pace, standing: Standing) -> Loaded:
    """The first measurement in which threads had their cores."""
    (number, name, pps), why = of, ""
    for tries in range(1, TRIES + 1):
        before = standing.counted()
        offered, process, process_waited = _offered(plan, pace, standing, pps)
        counted = standing.counted() - before
        waited = max(offered.waited, process_waited)
        if waited <= MOST_WAITED and counted == offered.packets:
            pps_carried = offered.packets / offered.wall_ns * 1e9
            return Loaded(number, name, pps, offered.packets, counted, pps_carried,
                          offered.busy + process, process, waited, tries)  # fmt: skip
        why = (f"{name} was sent {offered.packets} packets and counted {counted}, and others had "
               f"its cores for {waited:.0%} of the time")  # fmt: skip
        if counted != offered.packets and standing.follow is None:
            break
    raise InvalidRunError(why)


def _offered(plan: Plan, pace: Pace, standing: Standing, pps: int) -> tuple[Offered, float, float]:
    """What became of a load; how busy the process was, and for which part of the time it waited."""

    def follow() -> tuple[float, float]:
        if standing.follow is None:
            return 0.0, 0.0
        os.sched_setaffinity(0, plan.cores[1:])
        began = time.perf_counter_ns(), time.thread_time_ns(), waited_ns()
        standing.follow(stops)
        now = time.perf_counter_ns(), time.thread_time_ns(), waited_ns()
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
