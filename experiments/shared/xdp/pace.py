"""Live frames at a pace: by a program before the contender's, which drops those that are not due.

A thread that sleeps between packets would pay milliseconds for each time that live frames begin and
end. So it never sleeps, and the program tells which part of the time frames that were due took.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ebpf.loader import Program, chain, live, load
from experiments.shared.xdp.veth_setup import DEVICE
from telemark.errors import InvalidRunError

SOURCE = "ebpf/datapath/pace.bpf.c"
BATCH = 64  # frames
TRIAL_S, NEVER_PPS = 0.002, 1
SHORTEST_NS = 20  # that a frame may take: bounds how many there are
ENOUGH = 1.2  # times as many frames as one takes that is not due, so that the time gets full
STATE = ("began_ns", "passed_ns", "lost_ns", "used_ns", "frames", "offered", "last_offered")


class Offered(NamedTuple):
    """What was offered, in which time, and how much of that was needed for it."""

    packets: int
    wall_ns: int
    busy: float  # part of the time that this thread had; what packets take to come is part of it
    waited: float  # part of the time in which others had its core


class Pace:
    """Has packets arrive for a program, at rates, in this thread."""

    def __init__(self, shared: Any, arrive: Any) -> None:
        self._shared, self._arrive = shared, arrive
        self._frame_ns = float(SHORTEST_NS)
        self.offer(NEVER_PPS, TRIAL_S)
        self._frame_ns = max(shared["passed_ns"] / shared["frames"] / ENOUGH, SHORTEST_NS)

    def offer(self, pps: int, seconds: float) -> Offered:
        """At a rate for so long; 0: as fast as it goes. Raises TestbedError."""
        shared = self._shared
        for name in STATE:
            shared[name] = 0
        shared["interval_ps"] = shared["due_ps"] = 10**12 // pps if pps else 0
        shared["length_ns"] = int(seconds * 1e9)
        self._arrive(int(seconds * 1e9 / self._frame_ns) + 1)
        passed_ns = int(shared["passed_ns"])
        had_ns = passed_ns - int(shared["lost_ns"])
        if had_ns <= 0:
            raise InvalidRunError("no packet came in time")
        return Offered(int(shared["offered"]), passed_ns, int(shared["used_ns"]) / had_ns,
                       1 - had_ns / passed_ns)  # fmt: skip


def waited_ns() -> int:
    """Time that this thread was ready and others had its core (proc(5): schedstat)."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1])


@contextmanager
def paced(program: Program, frames: Sequence[bytes], restored: int = 0) -> Iterator[Pace]:
    """A pace at which packets arrive in this thread, at the device of this namespace.

    Raises LoadError, and TestbedError where no time is left for any packet.
    """
    with load(SOURCE, {"batch": BATCH}) as whole:
        before = whole.programs["pace"]
        chain.enter(before, program)
        try:
            with live(before, frames, ingress=DEVICE, batch=BATCH, restored=restored) as arrive:
                yield Pace(whole.maps[".bss"].mapped()[0], arrive)
        finally:
            chain.leave(before)
