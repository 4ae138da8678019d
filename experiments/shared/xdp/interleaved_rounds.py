"""Contenders in turns: the same frames to each, round after round, on the same cores.

Packets are live frames of the kernel's BPF_PROG_TEST_RUN, which come in at a device without any
sender: through a socket they would cost more than XDP does. A program before the contender's own
makes each packet the next frame of a table; that is part of what each of them costs.
"""

import ctypes
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import NamedTuple

from ebpf.loader import Program, Sent, live
from experiments.shared.xdp.veth_setup import DEVICE, VethPair
from telemark.errors import InvalidRunError

MOST_WAITED = 0.2  # part of the time for which others may have the core, where ratios are missed


class Standing(NamedTuple):
    """A contender that is ready: what is run for each packet, and how many it counted so far."""

    program: Program
    counted: Callable[[], int]
    take: Callable[[int], object] | None = None  # what a process does with each burst of so many
    burst: int = 0
    beside_ns: Callable[[], int] = lambda: 0  # CPU time so far of a thread on the same core
    follow: Callable[[ctypes.c_int], None] | None = None  # what one does on another core, meanwhile


class Candidate(NamedTuple):
    """Its name, and what makes it ready, in a namespace of its own. Raises TestbedError."""

    name: str
    set_up: Callable[[VethPair, ExitStack], Standing]
    cores: int = 2  # that it can use


class Turn(NamedTuple):
    """What became of the packets that a contender was offered, and what they cost."""

    round: int
    candidate: str
    cores: int
    sent: int
    counted: int
    ns_per_packet: float  # CPU time of one, the source's included
    packets_per_s: float  # of all cores together, by that time
    waited: float  # part of the time in which they did not have their cores


class Rounds:
    """What all rounds say: medians, and ratios of two contenders in the same round."""

    def __init__(self, measured: Sequence[Turn]) -> None:
        self._turns = {(t.candidate, t.cores, t.round): t for t in measured}
        self.numbers = sorted({t.round for t in measured})

    def of(self, candidate: Candidate, cores: int = 1) -> list[Turn]:
        """Its turns, in the order of rounds."""
        return [self._turns[candidate.name, cores, number] for number in self.numbers]

    def has(self, candidate: Candidate, cores: int) -> bool:
        return (candidate.name, cores, self.numbers[0]) in self._turns

    def ns_per_packet(self, candidate: Candidate, cores: int = 1) -> float:
        """The median of its costs."""
        return statistics.median(turn.ns_per_packet for turn in self.of(candidate, cores))

    def ratios(self, candidate: Candidate, to: Candidate) -> list[float]:
        """How many times as many packets as another a core has, in each round."""
        pairs = zip(self.of(candidate), self.of(to), strict=True)
        return [other.ns_per_packet / own.ns_per_packet for own, other in pairs]

    def cost(self, candidate: Candidate, to: Candidate, times: float) -> float:
        """A packet's cost, to another's: the median of rounds; 1 / `times` at most is asked for.

        Raises TestbedError where that is not so and the machine explains it: others had the core
        for long, and with it its caches; or in some rounds it is so.
        """
        found = self.ratios(candidate, to)
        if statistics.median(found) >= times:
            return 1 / statistics.median(found)
        asked = f"{candidate.name} has {times:g} times as many packets as {to.name}"
        missed = f"from {min(found):.3g} to {max(found):.3g} times"
        waited = max(statistics.median(turn.waited for turn in self.of(each))
                     for each in (candidate, to))  # fmt: skip
        if waited > MOST_WAITED:
            raise InvalidRunError(
                f"whether {asked} cannot be told ({missed}), as others had the core "
                f"for {waited:.0%} of the time"
            )
        if max(found) >= times:
            raise InvalidRunError(f"rounds differ on whether {asked}: {missed}")
        return 1 / statistics.median(found)

    def scalings(self, candidate: Candidate) -> list[float]:
        """How many times as many packets two cores have as one, in each round."""
        pairs = zip(self.of(candidate, 2), self.of(candidate), strict=True)
        return [two.packets_per_s / one.packets_per_s for two, one in pairs]

    def scaling(self, candidate: Candidate) -> float:
        """The median of these."""
        return statistics.median(self.scalings(candidate))


class Offer(NamedTuple):
    """What each contender is offered in a round."""

    frames: Sequence[bytes]
    packets: int  # a core
    cores: Sequence[Sequence[int]]  # sets of them, one after the other
    restored: int = 0  # bytes that programs change: see live()


def turns(
    candidates: Sequence[Candidate], offer: Offer, rounds: int, told: Callable[[str], None]
) -> Iterator[Turn]:
    """All contenders in each round, on each set of cores; `told` gets what is being done.

    Raises TestbedError where one of them did not count each packet, as then nobody knows what it
    was that took the time.
    """
    with ExitStack() as stack:
        grounds: list[tuple[Candidate, VethPair, Standing]] = []
        for candidate in candidates:
            ground = VethPair()
            stack.callback(ground.close)
            with ground.entered():
                standing = candidate.set_up(ground, stack.enter_context(ExitStack()))
            grounds.append((candidate, ground, standing))
        for number in range(rounds):
            for candidate, ground, standing in grounds[:: 1 if number % 2 else -1]:
                for cores in offer.cores:
                    if len(cores) > candidate.cores:
                        continue
                    told(f"round {number + 1}: {candidate.name}")
                    before = standing.counted()
                    sent = _offered(ground, standing, offer, cores)
                    counted = standing.counted() - before
                    yield _turn(number + 1, candidate.name, sent, counted)


def _turn(number: int, name: str, sent: Sequence[Sent], counted: int) -> Turn:
    packets = sum(each.packets for each in sent)
    if counted != packets:
        raise InvalidRunError(f"{name} was sent {packets} packets, and counted {counted}")
    cpu_ns, wall_ns = sum(each.cpu_ns for each in sent), sum(each.wall_ns for each in sent)
    rate = sum(each.packets / each.cpu_ns for each in sent) * 1e9
    return Turn(number, name, len(sent), packets, counted, cpu_ns / packets, rate,
                1 - cpu_ns / wall_ns)  # fmt: skip


def _offered(
    ground: VethPair, standing: Standing, offer: Offer, cores: Sequence[int]
) -> list[Sent]:
    """What each core did: a thread each, and all of them at once."""
    began = threading.Barrier(len(cores))

    def send(core: int) -> Sent:
        os.sched_setaffinity(0, {core})
        with ground.entered(), live(standing.program, offer.frames, ingress=DEVICE,
                                    restored=offer.restored) as arrive:  # fmt: skip
            began.wait()
            return _in_bursts(arrive, standing, offer.packets)

    with ThreadPoolExecutor(len(cores)) as threads:
        return list(threads.map(send, cores))


def _in_bursts(arrive: Callable[[int], Sent], standing: Standing, packets: int) -> Sent:
    """Packets in bursts, each taken from the kernel before the next, where a process does so."""
    if standing.take is None:
        return arrive(packets)

    def cpu_ns() -> int:
        return time.thread_time_ns() + standing.beside_ns()

    wall_began_ns, cpu_began_ns = time.perf_counter_ns(), cpu_ns()
    for done in range(0, packets, standing.burst):
        burst = min(standing.burst, packets - done)
        arrive(burst)
        standing.take(burst)
    return Sent(packets, time.perf_counter_ns() - wall_began_ns, cpu_ns() - cpu_began_ns)
