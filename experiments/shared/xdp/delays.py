"""How long packets take through contenders of forwarding: a stamp as they come, one at the end.

Both are of the same clock, by programs before the contender's own and before what counts its
packets where they leave. All of it is on one core, before all else there (SCHED_FIFO).
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
from experiments.shared.xdp.interleaved_rounds import Candidate, Standing
from experiments.shared.xdp.settings import come_first
from experiments.shared.xdp.veth_setup import DEVICE, OUT, PEER, SINK, VethPair
from telemark.errors import InvalidRunError

SOURCE = "ebpf/datapath/latency.bpf.c"
BATCH = 64  # frames that come at once, as a driver takes them under load
GAP_S = 0.001  # between packets that come alone, and between batches
FIRST = 8  # packets, or batches, that only warm up
ALONE, BATCHES = "alone", "in batches"
ENDS = {TX: PEER, REDIRECT: SINK}  # where XDP sees packets that leave; of others tc, at SINK


class Delay(NamedTuple):
    """What packets of a contender took in a round."""

    round: int
    candidate: str
    came: str
    packets: int
    median_ns: float
    p99_ns: float


class Plan(NamedTuple):
    """What comes in each round."""

    frames: Sequence[bytes]
    times: int  # that a packet comes alone, and that a batch does
    rounds: int
    core: int


class Measured(NamedTuple):
    """A contender that is ready, and the times of its packets."""

    candidate: Candidate
    ground: VethPair
    standing: Standing
    ended: ProgramObject


def delays(
    candidates: Sequence[Candidate], plan: Plan, told: Callable[[str], None]
) -> Iterator[Delay]:
    """All contenders in each round. Raises TestbedError where a packet did not end."""
    with ExitStack() as stack:
        ready = [_ready(candidate, plan, stack) for candidate in candidates]
        for number in range(1, plan.rounds + 1):
            for each in ready[:: 1 if number % 2 else -1]:
                told(f"round {number}: {each.candidate.name}")
                with ThreadPoolExecutor(1) as thread:  # which is in the contender's namespace
                    yield from thread.submit(_turn, number, each, plan).result()


def _ready(candidate: Candidate, plan: Plan, stack: ExitStack) -> Measured:
    ground = VethPair()
    stack.callback(ground.close)
    with ground.entered():
        most = (plan.times + FIRST) * BATCH
        ended = stack.enter_context(load(SOURCE, sizes={"took_ns": most}))
        if candidate in ENDS:  # before the contender's own, as it comes first
            stack.enter_context(attach_xdp(ended.programs["end_at_xdp"], ENDS[candidate]))
        else:
            stack.enter_context(attach_tc(ended.programs["end_at_tc"], SINK))
        standing = candidate.set_up(ground, stack.enter_context(ExitStack()))
    return Measured(candidate, ground, standing, ended)


def _turn(number: int, of: Measured, plan: Plan) -> list[Delay]:
    os.sched_setaffinity(0, [plan.core])
    come_first(0, 1)
    with of.ground.entered(), load(SOURCE) as whole:
        stamp = whole.programs["stamp"]
        chain.enter(stamp, of.standing.program)
        try:
            with live(stamp, plan.frames, ingress=DEVICE, batch=BATCH, restored=RESTORED,
                      held_at=OUT) as arrive:  # fmt: skip
                return [_delay(number, each, of, arrive, plan.times) for each in (ALONE, BATCHES)]
        finally:
            chain.leave(stamp)


def _delay(
    number: int, came: str, of: Measured, arrive: Callable[[int], Sent], times: int
) -> Delay:
    """Of all packets but the first. Raises TestbedError."""
    together = {ALONE: 1, BATCHES: BATCH}[came]
    counter = of.ended.maps[".bss"].mapped()
    counter["ended"] = 0
    for _ in range(times + FIRST):
        arrive(together)
        if of.standing.take:
            of.standing.take(together)
        time.sleep(GAP_S)
    ended, sent = int(counter["ended"][0]), (times + FIRST) * together
    if ended != sent:
        raise InvalidRunError(
            f"{of.candidate.name} was sent {sent} packets, of which {ended} ended"
        )
    took_ns = of.ended.maps["took_ns"].mapped()[FIRST * together : ended]
    median_ns, p99_ns = np.percentile(took_ns, [50, 99])
    return Delay(number, of.candidate.name, came, len(took_ns), float(median_ns), float(p99_ns))
