"""Interleaved rounds of candidates (mechanisms under test) with the same frames and cores.

Packets are live frames of BPF_PROG_TEST_RUN, which arrive at a device without a sender. A sending
socket would take more CPU time than XDP. An additional program runs before the program of the
candidate. The additional program replaces each packet by the next frame of a table. All
measurements include its CPU time.
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
from telemark.errors import note_invalid

# A ratio that misses its limit makes the run inconclusive if other processes used the cores for
# more than this fraction of the time.
MAX_WAITED = 0.2


class ReadyCandidate(NamedTuple):
    """Candidate that is set up, with its program and its packet counter."""

    program: Program
    counted: Callable[[], int]
    # called after each burst, to receive the burst in a process
    take: Callable[[int], object] | None = None
    burst: int = 0
    beside_ns: Callable[[], int] = lambda: 0  # CPU time of another thread on the same core
    # function that runs a process on another core while packets arrive
    follow: Callable[[ctypes.c_int], None] | None = None


class Candidate(NamedTuple):
    """Mechanism under test: its name, and a set-up function that runs in its own namespace.

    The function may raise TestbedError.
    """

    name: str
    set_up: Callable[[VethPair, ExitStack], ReadyCandidate]
    cores: int = 2  # max number of cores that the candidate can use


class Turn(NamedTuple):
    """Counts and CPU time of the packets offered to a candidate."""

    round: int
    candidate: str
    cores: int
    sent: int
    counted: int
    ns_per_packet: float  # CPU time per packet, including the packet source
    packets_per_s: float  # rate of all cores together, computed from CPU time
    waited: float  # fraction of time in which other processes used the cores


class Rounds:
    """Results of all rounds, with medians, and ratios of two candidates within a round."""

    def __init__(self, measured: Sequence[Turn]) -> None:
        self._turns = {(t.candidate, t.cores, t.round): t for t in measured}
        self.numbers = sorted({t.round for t in measured})

    def of(self, candidate: Candidate, cores: int = 1) -> list[Turn]:
        """Return the results of a candidate, in the order of rounds."""
        return [self._turns[candidate.name, cores, number] for number in self.numbers]

    def has(self, candidate: Candidate, cores: int) -> bool:
        return (candidate.name, cores, self.numbers[0]) in self._turns

    def ns_per_packet(self, candidate: Candidate, cores: int = 1) -> float:
        """Return the median CPU time per packet, in ns."""
        return statistics.median(turn.ns_per_packet for turn in self.of(candidate, cores))

    def ratios(self, candidate: Candidate, to: Candidate) -> list[float]:
        """Return the ratio of the rates per core of two candidates, in the order of rounds."""
        pairs = zip(self.of(candidate), self.of(to), strict=True)
        return [other.ns_per_packet / own.ns_per_packet for own, other in pairs]

    def cost(self, candidate: Candidate, to: Candidate, times: float) -> float:
        """Return the median ratio of CPU time per packet; the claim is at most 1 / `times`.

        The run is inconclusive if the claim fails and the machine may be the cause. The machine may
        be the cause if other processes used the core and its caches, or if the claim holds in some
        rounds.
        """
        found = self.ratios(candidate, to)
        if statistics.median(found) >= times:
            return 1 / statistics.median(found)
        claim = f"{candidate.name} is {times:g} times as fast as {to.name}"
        missed = f"measured {min(found):.3g} to {max(found):.3g} times"
        waited = max(statistics.median(turn.waited for turn in self.of(each))
                     for each in (candidate, to))  # fmt: skip
        if waited > MAX_WAITED:
            note_invalid(
                f"cannot decide whether {claim} ({missed}), because other processes used the core "
                f"for {waited:.0%} of the time"
            )
        if max(found) >= times:
            note_invalid(f"rounds differ on whether {claim}: {missed}")
        return 1 / statistics.median(found)

    def scalings(self, candidate: Candidate) -> list[float]:
        """Return the speedup on two cores, in the order of rounds."""
        pairs = zip(self.of(candidate, 2), self.of(candidate), strict=True)
        return [two.packets_per_s / one.packets_per_s for two, one in pairs]

    def scaling(self, candidate: Candidate) -> float:
        """Return the median speedup on two cores."""
        return statistics.median(self.scalings(candidate))


class Offer(NamedTuple):
    """Offered load of each candidate in a round."""

    frames: Sequence[bytes]
    packets: int  # number of packets per core
    cores: Sequence[Sequence[int]]  # sets of cores, which are used sequentially
    restored: int = 0  # number of bytes that programs change, see live()


def turns(
    candidates: Sequence[Candidate], offer: Offer, rounds: int, show_progress: Callable[[str], None]
) -> Iterator[Turn]:
    """Run all candidates in each round, on each set of cores; `show_progress` gets the progress.

    The run is inconclusive if a candidate did not count all packets, because its CPU time is then
    meaningless.
    """
    with ExitStack() as stack:
        veths: list[tuple[Candidate, VethPair, ReadyCandidate]] = []
        for candidate in candidates:
            veth = VethPair()
            stack.callback(veth.close)
            with veth.entered():
                ready = candidate.set_up(veth, stack.enter_context(ExitStack()))
            veths.append((candidate, veth, ready))
        for number in range(rounds):
            for candidate, veth, ready in veths[:: 1 if number % 2 else -1]:
                for cores in offer.cores:
                    if len(cores) > candidate.cores:
                        continue
                    show_progress(f"round {number + 1}: {candidate.name}")
                    before = ready.counted()
                    sent = _offered(veth, ready, offer, cores)
                    counted = ready.counted() - before
                    yield _turn(number + 1, candidate.name, sent, counted)


def _turn(number: int, name: str, sent: Sequence[Sent], counted: int) -> Turn:
    packets = sum(each.packets for each in sent)
    if counted != packets:
        note_invalid(f"{name}: {packets} packets sent, but {counted} counted")
    cpu_ns, wall_ns = sum(each.cpu_ns for each in sent), sum(each.wall_ns for each in sent)
    rate = sum(each.packets / each.cpu_ns for each in sent) * 1e9
    return Turn(number, name, len(sent), packets, counted, cpu_ns / packets, rate,
                1 - cpu_ns / wall_ns)  # fmt: skip


def _offered(
    veth: VethPair, ready: ReadyCandidate, offer: Offer, cores: Sequence[int]
) -> list[Sent]:
    """Send on all cores in parallel, with one thread per core; return the results."""
    began = threading.Barrier(len(cores))

    def send(core: int) -> Sent:
        os.sched_setaffinity(0, {core})
        with veth.entered(), live(ready.program, offer.frames, ingress=DEVICE,
                                    restored=offer.restored) as arrive:  # fmt: skip
            began.wait()
            return _in_bursts(arrive, ready, offer.packets)

    with ThreadPoolExecutor(len(cores)) as threads:
        return list(threads.map(send, cores))


def _in_bursts(arrive: Callable[[int], Sent], ready: ReadyCandidate, packets: int) -> Sent:
    """Send packets in bursts; a process receives each burst before the next one is sent."""
    if ready.take is None:
        return arrive(packets)

    def cpu_ns() -> int:
        return time.thread_time_ns() + ready.beside_ns()

    wall_began_ns, cpu_began_ns = time.perf_counter_ns(), cpu_ns()
    for done in range(0, packets, ready.burst):
        burst = min(ready.burst, packets - done)
        arrive(burst)
        ready.take(burst)
    return Sent(packets, time.perf_counter_ns() - wall_began_ns, cpu_ns() - cpu_began_ns)
