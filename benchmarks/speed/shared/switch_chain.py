"""Chains of switches between a generator and a sink, and tools that generate load."""

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
from telemark.backends.real.scheduling import set_priority
from telemark.backends.real.switch_group import GroupedSwitch, SwitchGroup
from telemark.errors import TestbedError
from telemark.processes import run_command

FOLDER = Path(__file__).parents[1]
GENERATOR_CORE, SWITCH_CORE, ANY_CORE = 0, 1, -1
NICE = -19  # priority at which other load has little effect, and the same effect on all chains
TIMEOUT_S = 20.0
FRAME_BYTES = 64
TRAIN = 16  # number of consecutive frames to the same address, as in real flows
NO_SWITCH, FORWARDER, MINIP4 = "no switch", "plain forwarder", "minip4"
BMV2 = ("simple_switch", "simple_switch_grpc")
ROUTER = "ipv4_lpm"
ADDRESS = ("--grpc-server-addr", "127.0.0.1:0", "--counters", "/dev/null")


def tool(name: str) -> str:
    """Return the path of a compiled C program of benchmarks/speed/c/."""
    return str(program([FOLDER / "c" / f"{name}.c"]))


def await_true(condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds. Raises TestbedError after TIMEOUT_S."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise TestbedError(f"{what}: not ready after {TIMEOUT_S:g} s")
        time.sleep(0.005)


class Processes:
    """Processes that are killed when the `with` block ends."""

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
        """Start a process that writes its stderr to benchmark.log in the folder."""
        log = self._stack.enter_context((self.folder / "benchmark.log").open("a"))
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, stderr=log, text=True,
            start_new_session=True, **options,
        )  # fmt: skip
        set_priority(process.pid, NICE)
        self.all.append(process)
        return process

    def start_ready(self, command: Sequence[str]) -> subprocess.Popen[str]:
        """Start a process and wait for its line `ready`."""
        process = self.start(command)
        assert process.stdout is not None
        if "ready" not in process.stdout.readline():
            log = (self.folder / "benchmark.log").read_text().strip()
            raise TestbedError(f"{command[0]}: did not start: {log[-500:]}")
        return process

    def finish(self, process: subprocess.Popen[str]) -> list[int]:
        """Wait for a process; return the numbers that it printed."""
        output = process.communicate(timeout=60)[0]
        if process.returncode:
            log = (self.folder / "benchmark.log").read_text().strip()
            raise TestbedError(f"{process.args!r}: exit status {process.returncode}: {log[-500:]}")
        return [int(word) for word in output.split()]


class Chain:
    """Chain of `count` switches of one kind between interfaces "g" (generator) and "t" (sink)."""

    def __init__(
        self, kind: str, count: int, core: int, processes: Processes, paths: dict[str, str],
        *, program: str = ROUTER, options: Sequence[str] = (), memory: bool = False,
    ) -> None:  # fmt: skip
        """Start the switches.

        A switch with one packet thread is pinned to `core`. `paths` maps the name of a bmv2 switch
        to its path. `program` is the name (without suffix) of a JSON file in the folder of the
        processes. `options` are further options of minip4. With `memory`, all switches are minip4
        switches of one process, with memory links between them.
        """
        self.kind, self.processes = kind, processes
        self._program = str(processes.folder / f"{program}.json")
        self._options = options
        self.switches: list[subprocess.Popen[str]] = []
        self._paths = paths
        ends = ["g", *(f"{side}{i}" for i in range(count) for side in "ab"), "t"]
        self._pairs = list(zip(ends[::2], ends[1::2], strict=True))
        for left, right in self._pairs:
            run_command(f"ip link add name {left} type veth peer name {right}")
            for end in (left, right):
                run_command(f"ethtool -K {end} tx off tso off gso off gro off")
                run_command(f"ip link set dev {end} up")
        self._group: SwitchGroup | None = None
        self._grouped: list[GroupedSwitch] = []
        if memory:
            self._start_group(count, core)
            return
        for i in range(count):
            self._start(i, f"a{i}", f"b{i}", core)

    def remove(self) -> None:
        """Delete the links; `processes` stops the switches, except those of a group."""
        if self._group is not None:
            self._group.close()
        for pair in self._pairs:
            # errors are ignored: the interface may be in another namespace, or deleted with its
            # peer
            for end in pair:
                subprocess.run(["ip", "link", "del", "dev", end], check=False, capture_output=True)

    def _start(self, number: int, left: str, right: str, core: int) -> None:
        start = self.processes.start_ready
        if self.kind == FORWARDER:
            self.switches.append(start([tool("forward"), left, right, str(core)]))
            return
        bind = ["-i", f"1@{left}", "-i", f"2@{right}"]
        if self.kind == MINIP4:
            switch = start([sys.executable, "-m", "minip4.cli", "switch", self._program, *bind,
                            *ADDRESS, *self._options])  # fmt: skip
            pin_threads(switch.pid, core)
        else:  # bmv2 is not pinned, because it has several threads
            thrift_port, grpc_port = 20000 + number, 21000 + number
            options = ["--device-id", str(number), "--thrift-port", str(thrift_port)]
            port = thrift_port
            if self.kind == BMV2[1]:  # bmv2 may be built without Thrift
                options += ["--", "--grpc-server-addr", f"127.0.0.1:{grpc_port}"]
                port = grpc_port
            switch = self.processes.start([self._paths[self.kind], self._program, *bind, *options])
            await_true(lambda: _listens(port), f"{self.kind} to start")
        self.switches.append(switch)

    def _start_group(self, count: int, core: int) -> None:
        log = self.processes.folder / "benchmark.log"
        self._group = SwitchGroup(log, interfaces=2, sanitize=False)
        set_priority(self._group.pid, NICE)
        for i in range(count):
            links = {1: (f"{i - 1}", 1)} if i > 0 else {}
            links |= {2: (f"{i}", 0)} if i < count - 1 else {}
            arguments = [
                self._program, "-i", f"1@a{i}", "-i", f"2@b{i}", "--device-id", str(i),
                *ADDRESS, *self._options,
            ]  # fmt: skip
            self._grouped.append(self._group.start(arguments, links, log))
        for switch in self._grouped:
            if not switch.wait_ready():
                raise TestbedError(f"a switch did not start: {log.read_text().strip()[-500:]}")
        pin_threads(self._group.pid, core)

    def generate(self, pace: int, seconds: float, train: int) -> subprocess.Popen[str]:
        """Start the generator; `pace` is in packets/s, 0 for the maximum rate."""
        core = GENERATOR_CORE if pace == 0 else ANY_CORE
        return self.processes.start([tool("generate"), "g", str(pace), str(seconds),
                                     str(FRAME_BYTES), str(core), str(train)])  # fmt: skip

    def delivered_pps(self, pace: int, seconds: float, train: int) -> float:
        """Return the rate at the sink in frames/s; the kernel counts and drops the frames."""
        _sent, delivered, duration_ns = self.deliver(pace, seconds, train)
        return delivered * 1e9 / duration_ns

    def deliver(self, pace: int, seconds: float, train: int) -> tuple[int, int, int]:
        """Send frames.

        Return the numbers of sent and of received frames, and the duration in ns.
        """
        before = received("t")
        sent, duration_ns = self.processes.finish(self.generate(pace, seconds, train))
        count = -1
        while count != (now := received("t")):  # wait until the queues of the switches are empty
            count = now
            time.sleep(0.02)
        return sent, count - before, duration_ns

    def set_realtime_priority(self) -> None:
        """Give the switches real-time priority, so that delays do not include waiting for a core.

        Call this function only for switches that sleep and are not pinned to the core of the probe.
        """
        for switch in self.switches:
            for task in Path(f"/proc/{switch.pid}/task").iterdir():
                os.sched_setscheduler(int(task.name), os.SCHED_RR, os.sched_param(1))


def resident_mb(process: subprocess.Popen[str]) -> float:
    """Return the resident memory of a process in MB (10^6 bytes)."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024 / 1e6


def received(interface: str) -> int:
    """Return the number of frames received by an interface."""
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == interface:
            return int(numbers.split()[1])
    raise TestbedError(f"no interface {interface}")


def _listens(port: int) -> bool:
    """Return whether a TCP port is open; simple_switch opens it after its interfaces."""
    tables = (Path(f"/proc/self/net/{name}").read_text() for name in ("tcp", "tcp6"))
    return any(f":{port:04X} 0" in table for table in tables)


def pin_threads(pid: int, core: int) -> None:
    """Pin all threads of a process to a core."""
    if core == ANY_CORE:
        return
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), {core})


def compile_router(folder: Path) -> None:
    """Compile ROUTER with its constant entries into the folder."""
    source = FOLDER / "p4" / f"{ROUTER}.p4"
    program_path = folder / f"{ROUTER}.json"
    run_command(f"{sys.executable} -m minip4.cli compile -DENTRIES {source} -o {program_path}")


def find_bmv2(given: str | None) -> dict[str, str]:
    """Return the paths of installed bmv2 switches and of the switch that the user gave."""
    found = {name: path for name in BMV2 if (path := shutil.which(name))}
    if given is not None:
        if shutil.which(given) is None:
            raise TestbedError(f"--simple-switch {given}: expected an executable file")
        found[BMV2[0]] = given
    return found
