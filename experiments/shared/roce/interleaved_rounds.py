"""Measurement of the CPU time per record of a sender and a collector, on one core each.

Each turn uses its own veth pair from the namespace of the sender to this namespace. The kernel
processes a frame up to the socket of the collector in a softirq during the call of the sender.
Therefore the CPU times of both processes contain all of the work.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.shared.roce import receivers
from experiments.shared.roce.offered import (
    COLLECTOR,
    MAC,
    SENDER_MAC,
    Offered,
    Writes,
    write_frames,
)
from minip4.native.build import program
from telemark.errors import TestbedError, note_invalid
from telemark.processes import LineProcess, run_command

C_FOLDER = Path(__file__).parent / "c"
SENDER_CORE, COLLECTOR_CORE = 0, 1
INTERFACE, SENDERS_INTERFACE = "collector", "sender"
NAP_US = 50  # same sleep as the responder (collectors/roce/c/raw_socket.c)
PATIENCE_S = 2.0
# file with a line per core; index of the field that contains the number of queued frames
SOFTNET, BACKLOG = Path("/proc/net/softnet_stat"), 11
SENT_DROPPED = 11  # index in the counters of an interface in /proc/net/dev
# Prefix that runs a command in its own namespace, in which the kernel sends no packets by itself.
ALONE = ("unshare", "-n", "sh", "-c", 'off=/proc/sys/net/ipv6/conf/default/disable_ipv6; '
         '[ ! -e $off ] || echo 1 > $off; exec "$0" "$@"')  # fmt: skip


@dataclass(frozen=True, eq=False)
class Kind:
    """Collector (a program in C or in Python, or none) and its offered load.

    `way` selects the socket from which take.c receives frames; it is "" if take.c is not used.
    `keeps` selects one of keep_*.c, which stores the frames. `python` is the first argument of
    receivers.py.
    """

    name: str
    offered: Offered
    way: str = ""
    keeps: str = "records"
    nap_us: int = 0
    python: str = ""
    mac: str = MAC

    @property
    def is_there(self) -> bool:
        """Return whether this kind has a collector."""
        return bool(self.way or self.python)

    def command(self, folder: Path) -> list[object]:
        """Return the command line. Raises ToolchainError."""
        if self.way:
            tool = _tool("take", f"keep_{self.keeps}")
            port = 0 if isinstance(self.offered, Writes) else self.offered.port
            return [tool, self.way, COLLECTOR, INTERFACE, port, self.nap_us]
        memory = [INTERFACE, _memory(folder, self.offered)] if self.python == "roce" else []
        return [sys.executable, "-m", receivers.__name__, self.python, *memory]


class Turn(NamedTuple):
    """Counts and CPU time of the records offered to one collector."""

    collector: str
    offered_per_s: int  # offered rate; 0 means max rate
    sent: int
    seconds: float
    received: int
    dropped: int  # frames that the kernel dropped on the way to the collector's socket or at it
    wrong: int  # number of wrong records in memory
    sender_ns: float  # CPU time per frame
    collector_ns: float  # CPU time per record
    # fraction of the time for which a process was runnable but had no core: of both, the larger one
    waited: float


class Used(NamedTuple):
    """CPU time and run-queue wait of all threads of a process, in ns."""

    cpu_ns: int
    waited_ns: int

    @classmethod
    def by(cls, pid: int) -> "Used":
        """Return the usage of a process up to now (schedstat in proc(5))."""
        tasks = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
        return cls(sum(int(each[0]) for each in tasks), sum(int(each[1]) for each in tasks))

    def since(self, before: "Used") -> "Used":
        return Used(self.cpu_ns - before.cpu_ns, self.waited_ns - before.waited_ns)


class Process(LineProcess):
    """Process on a core that replies to a line with a line of numbers, and its CPU time."""

    def __init__(self, core: int, *command: object) -> None:
        super().__init__(str(command[0]), "taskset", "-c", core, *command)
        self._before = Used(0, 0)

    def await_word(self, word: str) -> None:
        """Wait for a line of output; the usage is measured from then on. Raises TestbedError."""
        if self.read_line() != word:
            raise TestbedError(f"{self.name}: it did not start")
        self._before = Used.by(self.pid)

    def answer(self) -> tuple[list[int], Used]:
        """Run the process.

        Return its numbers and its usage since it was ready. Raises TestbedError.
        """
        numbers = [int(word) for word in self.ask().split()]
        return numbers, Used.by(self.pid).since(self._before)


def make_frames(folder: Path, kind: Kind) -> Path:
    """Return the file of the frames offered to a collector, created once."""
    path = folder / f"{kind.offered.name}_{kind.mac}"
    if not path.exists():
        write_frames(path, kind.offered.frames(kind.mac))
    return path


def _memory(folder: Path, offered: Offered) -> Path:
    """Return the file of the expected memory region, created once."""
    assert isinstance(offered, Writes)
    path = folder / f"{offered.name}.npy"
    if not path.exists():
        np.save(path, offered.records)
    return path


def turn(folder: Path, kind: Kind, offered_per_s: int, seconds: float) -> Turn:
    """Offer records to a collector at this rate; 0 means max rate. Raises TestbedError."""
    frames = make_frames(folder, kind)
    offer = (_tool("offer"), SENDERS_INTERFACE, frames, offered_per_s, seconds)
    with ExitStack() as stack:
        sender = stack.enter_context(Process(SENDER_CORE, *ALONE, *offer))
        sender.await_word("here")
        stack.enter_context(_veth(sender.pid))
        sender.await_word("ready")
        collector = None
        if kind.is_there:
            collector = stack.enter_context(Process(COLLECTOR_CORE, *kind.command(folder)))
            collector.await_word("ready")
        (sent, elapsed_ns), used = sender.answer()
        _await_backlog()
        (received, dropped, *wrong), own = collector.answer() if collector else ([0, 0], Used(0, 0))
        dropped += _dropped_between(sender.pid)
    return Turn(
        kind.name, offered_per_s, sent, elapsed_ns / 1e9, received, dropped, sum(wrong),
        used.cpu_ns / max(sent, 1), own.cpu_ns / max(received, 1),
        max(used.waited_ns, own.waited_ns) / elapsed_ns,
    )  # fmt: skip


def _await_backlog() -> None:
    """Wait until no frame waits for a softirq; after PATIENCE_S, make the run inconclusive."""
    deadline_s = time.monotonic() + PATIENCE_S
    while any(int(line.split()[BACKLOG], 16) for line in SOFTNET.read_text().splitlines()):
        if time.monotonic() > deadline_s:
            note_invalid(f"a core did not process queued frames of the kernel for {PATIENCE_S:g} s")
            return
        time.sleep(0.001)


def _dropped_between(pid: int) -> int:
    """Return the number of frames that a veth interface in the namespace of a process dropped."""
    for line in Path(f"/proc/{pid}/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == SENDERS_INTERFACE:
            return int(counts.split()[SENT_DROPPED])
    raise TestbedError(f"interface {SENDERS_INTERFACE} has disappeared")


@contextmanager
def _veth(pid: int) -> Iterator[None]:
    """Create a veth pair from the namespace of a process to this namespace, for the with block."""
    run_command(f"ip link add {INTERFACE} address {MAC} type veth peer {SENDERS_INTERFACE} "
         f"address {SENDER_MAC} netns {pid}")  # fmt: skip
    try:
        run_command(f"ip address add {COLLECTOR}/24 dev {INTERFACE}")
        run_command(f"ip link set {INTERFACE} up")
        yield
    finally:
        run_command(f"ip link delete {INTERFACE}")


def _tool(*names: str) -> Path:
    """Compile one of the C programs in this folder from these files and return its path."""
    return program([C_FOLDER / f"{name}.c" for name in names])
