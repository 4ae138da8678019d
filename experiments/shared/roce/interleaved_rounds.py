"""A sender and a collector of records, a process and a core each: what a record costs both.

Each turn has a veth of its own, from the sender's namespace to this one. What the kernel does with
a frame up to the collector's socket, its softirq, it does within the sender's call, and so in the
sender's name: none of the CPU time of both processes is left out.
"""

import subprocess
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
from telemark.errors import InvalidRunError, TestbedError

C_FOLDER = Path(__file__).parent / "c"
SENDER_CORE, COLLECTOR_CORE = 0, 1
INTERFACE, SENDERS_INTERFACE = "collector", "sender"
NAP_US = 50  # as the responder's (collectors/roce/c/raw_socket.c)
PATIENCE_S = 2.0
SOFTNET, BACKLOG = Path("/proc/net/softnet_stat"), 11  # frames that wait, a line for each core
SENT_DROPPED = 11  # of the numbers of an interface in /proc/net/dev
# In a namespace of its own, where the kernel sends nothing by itself.
ALONE = ("unshare", "-n", "sh", "-c", 'off=/proc/sys/net/ipv6/conf/default/disable_ipv6; '
         '[ ! -e $off ] || echo 1 > $off; exec "$0" "$@"')  # fmt: skip


@dataclass(frozen=True, eq=False)
class Kind:
    """A collector, and what it is offered: a program in C, or in Python; or, without either, none.

    `way` is how take.c gets at frames ("": it does not run), and `keeps` what it does with them,
    one of keep_*.c. `python` has the arguments of takers.py, before what depends on the turn.
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
        """Whether anybody takes the frames."""
        return bool(self.way or self.python)

    def command(self, folder: Path) -> list[object]:
        """Raises ToolchainError."""
        if self.way:
            tool = _tool("take", f"keep_{self.keeps}")
            port = 0 if isinstance(self.offered, Writes) else self.offered.port
            return [tool, self.way, COLLECTOR, INTERFACE, port, self.nap_us]
        memory = [INTERFACE, _memory(folder, self.offered)] if self.python == "roce" else []
        return [sys.executable, "-m", receivers.__name__, self.python, *memory]


class Turn(NamedTuple):
    """What became of the records that one collector was offered, and what they cost."""

    collector: str
    asked_per_s: int  # 0: as fast as they go
    sent: int
    seconds: float
    received: int
    dropped: int  # by the kernel, between them or at the collector's socket
    wrong: int  # records in memory
    sender_ns: float  # CPU time a frame
    collector_ns: float  # CPU time a record
    waited: float  # for a core: of the turn's time, the larger share of both


class Used(NamedTuple):
    """CPU time of a process's threads, and how long they were ready and had to wait (ns)."""

    cpu_ns: int
    waited_ns: int

    @classmethod
    def by(cls, pid: int) -> "Used":
        """So far (proc(5), schedstat)."""
        tasks = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
        return cls(sum(int(each[0]) for each in tasks), sum(int(each[1]) for each in tasks))

    def since(self, before: "Used") -> "Used":
        return Used(self.cpu_ns - before.cpu_ns, self.waited_ns - before.waited_ns)


class Process:
    """One that answers a line with a line of numbers, and ends with its input."""

    def __init__(self, core: int, *command: object) -> None:
        self._process = subprocess.Popen(
            ["taskset", "-c", str(core), *map(str, command)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.pid = self._process.pid
        self._before = Used(0, 0)

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.kill()
        self._process.communicate()

    def await_word(self, word: str) -> None:
        """What it used, it uses from then on. Raises TestbedError."""
        if self._line() != word:
            raise TestbedError(f"{self._process.args!r}: it did not start")
        self._before = Used.by(self.pid)

    def answer(self) -> tuple[list[int], Used]:
        """Have it do its work; its numbers, and what it used since it was ready.

        Raises TestbedError.
        """
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        line = self._line()
        if not line:
            raise TestbedError(f"{self._process.args!r}: it failed")
        return [int(word) for word in line.split()], Used.by(self.pid).since(self._before)

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def frames_of(folder: Path, kind: Kind) -> Path:
    """The file of the frames that a collector is offered, made once."""
    path = folder / f"{kind.offered.name}_{kind.mac}"
    if not path.exists():
        write_frames(path, kind.offered.frames(kind.mac))
    return path


def _memory(folder: Path, offered: Offered) -> Path:
    """The file of what a region is then, made once."""
    assert isinstance(offered, Writes)
    path = folder / f"{offered.name}.npy"
    if not path.exists():
        np.save(path, offered.records)
    return path


def turn(folder: Path, kind: Kind, asked_per_s: int, seconds: float) -> Turn:
    """Offer records to a collector, at a pace or (0) as fast as they go. Raises TestbedError."""
    frames = frames_of(folder, kind)
    offer = (_tool("offer"), SENDERS_INTERFACE, frames, asked_per_s, seconds)
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
        kind.name, asked_per_s, sent, elapsed_ns / 1e9, received, dropped, sum(wrong),
        used.cpu_ns / max(sent, 1), own.cpu_ns / max(received, 1),
        max(used.waited_ns, own.waited_ns) / elapsed_ns,
    )  # fmt: skip


def _await_backlog() -> None:
    """Until no frame waits for a softirq that a busy core puts off. Raises TestbedError."""
    deadline_s = time.monotonic() + PATIENCE_S
    while any(int(line.split()[BACKLOG], 16) for line in SOFTNET.read_text().splitlines()):
        if time.monotonic() > deadline_s:
            raise InvalidRunError(
                f"for {PATIENCE_S:g} s a core did not come to frames that wait in the kernel"
            )
        time.sleep(0.001)


def _dropped_between(pid: int) -> int:
    """Frames that a veth's end, in the namespace of a process, could not hand over."""
    for line in Path(f"/proc/{pid}/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == SENDERS_INTERFACE:
            return int(counts.split()[SENT_DROPPED])
    raise TestbedError(f"there is no {SENDERS_INTERFACE} any more")


@contextmanager
def _veth(pid: int) -> Iterator[None]:
    """From the namespace of a process to this one; there as long as the block."""
    _run(f"ip link add {INTERFACE} address {MAC} type veth peer {SENDERS_INTERFACE} "
         f"address {SENDER_MAC} netns {pid}")  # fmt: skip
    try:
        _run(f"ip address add {COLLECTOR}/24 dev {INTERFACE}")
        _run(f"ip link set {INTERFACE} up")
        yield
    finally:
        _run(f"ip link delete {INTERFACE}")


def _tool(*names: str) -> Path:
    """The path of one of our C programs, compiled of these files."""
    return program([C_FOLDER / f"{name}.c" for name in names])


def _run(command: str) -> None:
    done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise TestbedError(f"{command}: {done.stderr.strip()}")
