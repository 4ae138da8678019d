"""Live frames at a given rate. A program in front of the candidate drops frames that are not due.

Starting and stopping live frames takes milliseconds, so a thread cannot sleep between packets. The
thread therefore never sleeps, and the program measures the fraction of time used by frames that
were due.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ebpf.loader import Program, chain, live, load
from experiments.shared.xdp.veth_setup import DEVICE
from telemark.errors import InvalidRunError

SOURCE = "ebpf/datapath/pace.bpf.c"
BATCH = 64  # frames per burst
TRIAL_S, NEVER_PPS = 0.002, 1
SHORTEST_NS = 20  # min time per frame, which bounds the number of frames
# ratio of injected to estimated frames, so that the frames last long enough
ENOUGH = 1.2
STATE = ("began_ns", "passed_ns", "lost_ns", "used_ns", "frames", "offered", "last_offered")


class Offered(NamedTuple):
    """Number of offered packets, and the time that was used for them."""

    packets: int
    wall_ns: int
    busy: float  # fraction of the time of this thread used for packets, including their arrival
    waited: float  # fraction of time in which other processes used the core


class Pace:
    """Source of packets. It runs in this thread, and offers packets to a program at given rates."""

    def __init__(self, shared: Any, arrive: Any) -> None:
        self._shared, self._arrive = shared, arrive
        self._frame_ns = float(SHORTEST_NS)
        self.offer(NEVER_PPS, TRIAL_S)
        self._frame_ns = max(shared["passed_ns"] / shared["frames"] / ENOUGH, SHORTEST_NS)

    def offer(self, pps: int, seconds: float) -> Offered:
        """Offer packets at a rate (0 means max rate) for a time. Raises TestbedError."""
        shared = self._shared
        for name in STATE:
            shared[name] = 0
        shared["interval_ps"] = shared["due_ps"] = 10**12 // pps if pps else 0
        shared["length_ns"] = int(seconds * 1e9)
        self._arrive(int(seconds * 1e9 / self._frame_ns) + 1)
        passed_ns = int(shared["passed_ns"])
        had_ns = passed_ns - int(shared["lost_ns"])
        if had_ns <= 0:
            raise InvalidRunError("no packet arrived in time")
        return Offered(int(shared["offered"]), passed_ns, int(shared["used_ns"]) / had_ns,
                       1 - had_ns / passed_ns)  # fmt: skip


def read_waited_ns() -> int:
    """Return the run-queue wait of this thread in ns (schedstat in proc(5))."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1])


@contextmanager
def start_pace(program: Program, frames: Sequence[bytes], restored: int = 0) -> Iterator[Pace]:
    """Yield a source of packets in this thread, at the device of this namespace.

    Raises LoadError, and TestbedError if no packet arrives in time.
    """
    with load(SOURCE, {"batch": BATCH}) as whole:
        before = whole.programs["pace"]
        chain.enter(before, program)
        try:
            with live(before, frames, ingress=DEVICE, batch=BATCH, restored=restored) as arrive:
                yield Pace(whole.maps[".bss"].mapped()[0], arrive)
        finally:
            chain.leave(before)
