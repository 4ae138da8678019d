"""Measurement of forwarding latency with timestamps on arrival and at the end of the path.

Two programs timestamp each packet with the same clock: one just before the candidate's program, the
other just before the counter of departing packets. All programs run on one core with real-time
priority (SCHED_FIFO).
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np

from ebpf.loader import ProgramObject, Sent, attach_tc, attach_xdp, chain, live, load
from experiments.shared.xdp.forwarding import REDIRECT, RESTORED, TX
from experiments.shared.xdp.interleaved_rounds import Candidate, ReadyCandidate
from experiments.shared.xdp.settings import set_realtime_priority
from experiments.shared.xdp.veth_setup import DEVICE, OUT, PEER, SINK, VethPair
from telemark.errors import note_invalid

SOURCE = "ebpf/datapath/latency.bpf.c"
BATCH = 64  # frames per burst, as a driver receives them under load
GAP_S = 0.001  # interval between single packets, and between bursts
FIRST = 8  # number of packets or bursts of the warm-up
ALONE, BATCHES = "alone", "in batches"
# candidates whose packets are counted by XDP; packets of other candidates are counted by tc at
# SINK
ENDS = {TX: PEER, REDIRECT: SINK}


class Delay(NamedTuple):
    """Latency of a candidate in one round."""

    round: int
    candidate: str
    arrived: str
    packets: int
    median_ns: float
    p99_ns: float


class Plan(NamedTuple):
    """Packets that are sent in each round."""

    frames: Sequence[bytes]
    times: int  # number of single packets, which is also the number of bursts
    rounds: int
    core: int


class Measured(NamedTuple):
    """Candidate that is set up, with the program that records the latencies of its packets."""

    candidate: Candidate
    veth: VethPair
    ready: ReadyCandidate
    ended: ProgramObject


def delays(
    candidates: Sequence[Candidate], plan: Plan, show_progress: Callable[[str], None]
) -> Iterator[Delay]:
    """Measure all candidates in each round; the run is inconclusive if a packet is missing."""
    with ExitStack() as stack:
        ready = [_ready(candidate, plan, stack) for candidate in candidates]
        for number in range(1, plan.rounds + 1):
            for each in ready[:: 1 if number % 2 else -1]:
                show_progress(f"round {number}: {each.candidate.name}")
                with ThreadPoolExecutor(1) as thread:  # a thread in the namespace of the candidate
                    yield from thread.submit(_turn, number, each, plan).result()


def _ready(candidate: Candidate, plan: Plan, stack: ExitStack) -> Measured:
    veth = VethPair()
    stack.callback(veth.close)
    with veth.entered():
        limit = (plan.times + FIRST) * BATCH
        ended = stack.enter_context(load(SOURCE, sizes={"took_ns": limit}))
        if (
            candidate in ENDS
        ):  # attached earlier than the candidate's program, because programs run in this order
            stack.enter_context(attach_xdp(ended.programs["end_at_xdp"], ENDS[candidate]))
        else:
            stack.enter_context(attach_tc(ended.programs["end_at_tc"], SINK))
        ready = candidate.set_up(veth, stack.enter_context(ExitStack()))
    return Measured(candidate, veth, ready, ended)


def _turn(number: int, of: Measured, plan: Plan) -> list[Delay]:
    os.sched_setaffinity(0, [plan.core])
    set_realtime_priority(0, 1)
    with of.veth.entered(), load(SOURCE) as whole:
        stamp = whole.programs["stamp"]
        chain.enter(stamp, of.ready.program)
        try:
            with live(stamp, plan.frames, ingress=DEVICE, batch=BATCH, restored=RESTORED,
                      held_at=OUT) as arrive:  # fmt: skip
                return [_delay(number, each, of, arrive, plan.times) for each in (ALONE, BATCHES)]
        finally:
            chain.leave(stamp)


def _delay(
    number: int, arrived: str, of: Measured, arrive: Callable[[int], Sent], times: int
) -> Delay:
    """Return the latency, ignoring the warm-up."""
    together = {ALONE: 1, BATCHES: BATCH}[arrived]
    counter = of.ended.maps[".bss"].mapped()
    counter["ended"] = 0
    for _ in range(times + FIRST):
        arrive(together)
        if of.ready.take:
            of.ready.take(together)
        time.sleep(GAP_S)
    ended, sent = int(counter["ended"][0]), (times + FIRST) * together
    if ended != sent:
        note_invalid(f"{of.candidate.name}: {sent} packets sent, but {ended} received")
    took_ns = of.ended.maps["took_ns"].mapped()[FIRST * together : ended]
    median_ns, p99_ns = np.percentile(took_ns, [50, 99])
    return Delay(number, of.candidate.name, arrived, len(took_ns), float(median_ns), float(p99_ns))
