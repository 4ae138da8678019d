"""Switches in rows between a generator and a sink, and the tools that load them."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from minip4.native.build import program
from telemark.errors import TestbedError

FOLDER = Path(__file__).parents[1]
GENERATOR_CORE, SWITCH_CORE, ANY_CORE = 0, 1, -1
ADVANTAGE = -19  # nice: a busy machine shall disturb little, and all rows alike
TIMEOUT_S = 20.0
FRAME_BYTES = 64
TRAIN = 16  # frames in a row to the same address, as flows send them
NO_SWITCH, FORWARDER, MINIP4 = "no switch", "plain forwarder", "minip4"
BMV2 = ("simple_switch", "simple_switch_grpc")
ROUTER = "ipv4_lpm"


def tool(name: str) -> str:
    """The path of one of our C programs, compiled."""
    return str(program([FOLDER / "c" / f"{name}.c"]))


def run(command: str) -> str:
    """Run a command that must succeed; return what it prints."""
    done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise TestbedError(f"{command}: {done.stderr.strip()}")
    return done.stdout


def await_true(condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds. Raises TestbedError."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TestbedError(f"waited {TIMEOUT_S:g} s in vain: {what}")
        time.sleep(0.005)


def prefer(pid: int) -> None:
    """Let a process, and its session where the kernel schedules by sessions, come before others."""
    os.setpriority(os.PRIO_PROCESS, pid, ADVANTAGE)
    group = Path(f"/proc/{pid}/autogroup")
    if group.exists():
        group.write_text(str(ADVANTAGE))


class Processes:
    """Processes that end with the `with` block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.all: list[subprocess.Popen[str]] = []
        self._stack = ExitStack()

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_error: object) -> None:
        for process in self.all:
            process.kill()
            process.wait()
        self._stack.close()

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        """Start one, with its stderr in a file."""
        log = self._stack.enter_context((self.folder / "benchmark.log").open("a"))
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, stderr=log, text=True,
            start_new_session=True, **options,
        )  # fmt: skip
        prefer(process.pid)
        self.all.append(process)
        return process

    def start_ready(self, command: Sequence[str]) -> subprocess.Popen[str]:
        """Start one that prints a line when it is ready."""
        process = self.start(command)
        assert process.stdout is not None
        if "ready" not in process.stdout.readline():
            log = (self.folder / "benchmark.log").read_text().strip()
            raise TestbedError(f"{command[0]} did not start: {log[-500:]}")
        return process

    def finish(self, process: subprocess.Popen[str]) -> list[int]:
        """Wait for one, and return the numbers that it printed."""
        output = process.communicate(timeout=60)[0]
        if process.returncode:
            log = (self.folder / "benchmark.log").read_text().strip()
            raise TestbedError(f"{process.args!r}: exit status {process.returncode}: {log[-500:]}")
        return [int(word) for word in output.split()]


class Row:
    """`count` switches of a kind, between interfaces "g" (generator) and "t" (sink)."""

    def __init__(
        self, kind: str, count: int, core: int, processes: Processes, paths: dict[str, str],
        *, program: str = ROUTER, options: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """A switch that has one thread for packets is pinned to `core`; `paths` are bmv2's.

        `program`: <program>.json in the folder of the processes; `options`: minip4's, further ones.
        """
        self.kind, self.processes = kind, processes
        self._program = str(processes.folder / f"{program}.json")
        self._options = options
        self.switches: list[subprocess.Popen[str]] = []
        self._paths = paths
        ends = ["g", *(f"{side}{i}" for i in range(count) for side in "ab"), "t"]
        self._pairs = list(zip(ends[::2], ends[1::2], strict=True))
        for left, right in self._pairs:
            run(f"ip link add name {left} type veth peer name {right}")
            for end in (left, right):
                run(f"ethtool -K {end} tx off tso off gso off gro off")
                run(f"ip link set dev {end} up")
        for i in range(count):
            self._start(i, f"a{i}", f"b{i}", core)

    def remove(self) -> None:
        """Take the wires away; the processes end by themselves."""
        for pair in self._pairs:
            for end in pair:  # one may be in another namespace, or gone with the other
                subprocess.run(["ip", "link", "del", "dev", end], check=False, capture_output=True)

    def _start(self, number: int, left: str, right: str, core: int) -> None:
        start = self.processes.start_ready
        if self.kind == FORWARDER:
            self.switches.append(start([tool("forward"), left, right, str(core)]))
            return
        bind = ["-i", f"1@{left}", "-i", f"2@{right}"]
        if self.kind == MINIP4:
            address = ["--grpc-server-addr", "127.0.0.1:0", "--counters", "/dev/null"]
            switch = start([sys.executable, "-m", "minip4.cli", "switch", self._program, *bind,
                            *address, *self._options])  # fmt: skip
            pin_threads(switch.pid, core)
        else:  # several threads: on all cores
            thrift_port, grpc_port = 20000 + number, 21000 + number
            options = ["--device-id", str(number), "--thrift-port", str(thrift_port)]
            port = thrift_port
            if self.kind == BMV2[1]:  # it may have been built without Thrift
                options += ["--", "--grpc-server-addr", f"127.0.0.1:{grpc_port}"]
                port = grpc_port
            switch = self.processes.start([self._paths[self.kind], self._program, *bind, *options])
            await_true(lambda: _listens(port), f"{self.kind} to start")
        self.switches.append(switch)

    def generate(self, pace: int, seconds: float, train: int) -> subprocess.Popen[str]:
        """Start to send; pace 0: as fast as it goes."""
        core = GENERATOR_CORE if pace == 0 else ANY_CORE
        return self.processes.start([tool("generate"), "g", str(pace), str(seconds),
                                     str(FRAME_BYTES), str(core), str(train)])  # fmt: skip

    def delivered_pps(self, pace: int, seconds: float, train: int) -> float:
        """Frames a second that reach the sink, which is the kernel: it counts and drops them."""
        _sent, delivered, duration_ns = self.deliver(pace, seconds, train)
        return delivered * 1e9 / duration_ns

    def deliver(self, pace: int, seconds: float, train: int) -> tuple[int, int, int]:
        """Send; return how many frames were sent, how many reached the sink, and in what time."""
        before = received("t")
        sent, duration_ns = self.processes.finish(self.generate(pace, seconds, train))
        count = -1
        while count != (now := received("t")):  # what waits in the switches still comes
            count = now
            time.sleep(0.02)
        return sent, count - before, duration_ns

    def run_at_once(self) -> None:
        """Let the switch, woken, preempt what else runs on its core: delays are then its own.

        Only for one that sleeps, and is pinned away from the probe's core.
        """
        for switch in self.switches:
            for task in Path(f"/proc/{switch.pid}/task").iterdir():
                os.sched_setscheduler(int(task.name), os.SCHED_RR, os.sched_param(1))


def resident_mb(process: subprocess.Popen[str]) -> float:
    """Memory of a process, in 10^6 bytes."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024 / 1e6


def received(interface: str) -> int:
    """Frames that arrived at an interface."""
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == interface:
            return int(numbers.split()[1])
    raise TestbedError(f"no interface {interface}")


def _listens(port: int) -> bool:
    """Whether a TCP port is served: simple_switch opens its own after its interfaces."""
    tables = (Path(f"/proc/self/net/{name}").read_text() for name in ("tcp", "tcp6"))
    return any(f":{port:04X} 0" in table for table in tables)


def pin_threads(pid: int, core: int) -> None:
    """Bind all threads of a process to a core."""
    if core == ANY_CORE:
        return
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), {core})


def compile_router(folder: Path) -> None:
    """Write ROUTER's JSON, with entries."""
    source = FOLDER / "p4" / f"{ROUTER}.p4"
    program_path = folder / f"{ROUTER}.json"
    run(f"{sys.executable} -m minip4.cli compile -DENTRIES {source} -o {program_path}")


def find_bmv2(given: str | None) -> dict[str, str]:
    """The bmv2 switches that are installed, and the one that the user named."""
    found = {name: path for name in BMV2 if (path := shutil.which(name))}
    if given is not None:
        if shutil.which(given) is None:
            raise TestbedError(f"--simple-switch {given}: expected an executable file")
        found[BMV2[0]] = given
    return found
