"""bmv2's simple_switch as a switch for tests: packets, tables, counters, registers and clock.

simple_switch is a process with TAP interfaces as ports. Its wall clock is replaced (clock.c), so
that the test sets the time of each packet. simple_switch_CLI writes entries and reads counters.
"""

import fcntl
import itertools
import json
import mmap
import os
import re
import select
import shutil
import struct
import subprocess
import tempfile
import time
import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from wire import TIMEOUT_S, await_true, run

from minip4.engine.codegen.generator import Generator
from minip4.engine.engine import Engine
from minip4.engine.keys import Exact, Lpm, MatchKey, Range, Ternary
from minip4.engine.model import Program
from minip4.native.build import shared_object

COMMANDS = ("simple_switch", "simple_switch_CLI")
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 2, 0x1000
PROMPT = b"RuntimeCmd: "
LAST_PRIORITY = 1 << 20  # minip4 prefers the largest priority, simple_switch the smallest
SHORTEST_FRAME, LONGEST_FRAME = 14, 2048  # lengths that an interface can transfer
TURN_NS = 1000 << 48  # time after which the clock of a P4 program wraps around
MAX_TURNS = 10  # the clock of a process can wrap about 24 times; a test may need ten
numbers = itertools.count()


def installed() -> bool:
    """Return whether simple_switch and simple_switch_CLI are on PATH."""
    return all(map(shutil.which, COMMANDS))


class SimpleSwitch:
    """A process of simple_switch, in the network namespace of the test (wire.py)."""

    def __init__(self, bmv2_json: dict[str, Any], ports: Sequence[int]) -> None:
        # Without simple_switch_CLI, a simple_switch would start, and then keep its Thrift port.
        assert installed(), f"{' and '.join(COMMANDS)}: expected both on PATH"
        number = next(numbers)
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        program, clock = folder / "program.json", folder / "clock"
        program.write_text(json.dumps(bmv2_json))
        clock.write_bytes(bytes(8))
        with clock.open("r+b") as file:
            self._clock = mmap.mmap(file.fileno(), 8)
        self._turns, self._last_ns = 0, 0
        names = {port: f"sw{number}p{port}" for port in ports}
        self._taps = {port: _tap(name) for port, name in names.items()}
        self._held = ExitStack()
        preload = self._held.enter_context(shared_object([Path(__file__).with_name("clock.c")]))
        preloaded = {
            "LD_PRELOAD": str(preload),
            "CLOCK_FILE": str(clock),
        }
        bound = [word for port, name in names.items() for word in ("-i", f"{port}@{name}")]
        thrift_port = 20000 + number % 10000
        address = ["--thrift-port", str(thrift_port)]
        self._log = (folder / "log").open("w+")
        self._switch = subprocess.Popen(
            [COMMANDS[0], *address, "--device-id", str(number), *bound, str(program)],
            stdout=self._log, stderr=self._log, env={**os.environ, **preloaded},
        )  # fmt: skip
        await_true(lambda: self._switch.poll() is not None or _listens(thrift_port))
        self._commands = subprocess.Popen(
            [COMMANDS[1], *address],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.close = weakref.finalize(self, _end, self._taps, self._switch, self._commands)
        self._answer()

    def reset(self) -> bool:
        """Restore the initial state. Return whether the switch can be reset once more.

        The clock is not reset, and const entries of the program are lost.
        """
        self.command("reset_state")
        return self._turns < MAX_TURNS

    def table_add(
        self, table: str, key: Sequence[MatchKey], action: str, params: Sequence[int], priority: int
    ) -> None:
        """Add an entry as Engine.table_add() does. The priority 0 means that the entry has none."""
        words = [*map(_key, key), "=>", *map(str, params)]
        if priority:
            words.append(str(LAST_PRIORITY - priority))
        self.command(f"table_add {table} {action} {' '.join(words)}")

    def table_set_default(self, table: str, action: str, params: Sequence[int]) -> None:
        """Set the default action of a table as Engine.table_set_default() does."""
        self.command(f"table_set_default {table} {action} {' '.join(map(str, params))}")

    def mirror_set(self, session: int, port: int) -> None:
        """Send clones of a session to this port."""
        self.command(f"mirroring_add {session} {port}")

    def multicast_set(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        """Set the replicas (port, replica id) of a group that has no replicas yet."""
        self.command(f"mc_mgrp_create {group}")
        for port, replica in replicas:
            answer = self.command(f"mc_node_create {replica} {port}")
            found = re.search(r"handle (\d+)", answer)
            assert found is not None, answer
            self.command(f"mc_node_associate {group} {found[1]}")

    def register_write(self, name: str, index: int, value: int) -> None:
        """Write one cell of a register."""
        self.command(f"register_write {name} {index} {value}")

    def counter_read(self, name: str, index: int) -> tuple[int, int]:
        """Return the packets and the bytes of one cell of a counter."""
        answer = self.command(f"counter_read {name} {index}")
        found = re.search(r"(\d+) bytes, (\d+) packets", answer)
        assert found is not None, answer
        return int(found[2]), int(found[1])

    def register_read(self, name: str) -> list[int]:
        """Return all cells of a register."""
        answer = self.command(f"register_read {name}")
        return [int(word) for word in answer.partition("=")[2].split(",")]

    def process(self, port: int, frame: bytes, time_ns: int, count: int) -> list[tuple[int, bytes]]:
        """Send a frame to a port when the clock shows `time_ns`. Return the frames that leave.

        Wait until at least `count` frames have left, and until the process is idle. Otherwise, a
        recirculating clone, or a frame that is dropped later, would get the time of the next frame.
        """
        while self._turns * TURN_NS + time_ns < self._last_ns:
            self._turns += 1  # the clock must not go back, because then queues would wait
        self._last_ns = self._turns * TURN_NS + time_ns
        self._clock[:] = struct.pack("=Q", self._last_ns)
        os.write(self._taps[port], frame)
        left: list[tuple[int, bytes]] = []
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            ended = self._switch.poll()
            assert ended is None, f"simple_switch ended with {ended}"
            is_idle = _sleeps(self._switch.pid)
            came = self._came()
            left += came
            if is_idle and not came and len(left) >= count:
                break
        return left

    def _came(self) -> list[tuple[int, bytes]]:
        """Return the frames that have left since the last call."""
        ports = {tap: port for port, tap in self._taps.items()}
        return [(ports[tap], os.read(tap, LONGEST_FRAME))
                for tap in select.select(list(ports), [], [], 0)[0]]  # fmt: skip

    def command(self, line: str) -> str:
        """Return the output of a command of simple_switch_CLI.

        Raises AssertionError if the command fails.
        """
        assert self._commands.stdin is not None
        self._commands.stdin.write(line.encode() + b"\n")
        self._commands.stdin.flush()
        answer = self._answer()
        assert not re.search("Invalid|Error", answer), f"{line}: {answer}"
        return answer

    def _answer(self) -> str:
        assert self._commands.stdout is not None
        text = b""
        while not text.endswith(PROMPT):
            more = os.read(self._commands.stdout.fileno(), 65536)
            if not more:
                self._log.seek(0)
                raise AssertionError(f"{text.decode()} {self._log.read()}")
            text += more
        return text[: -len(PROMPT)].decode()


class Twins:
    """An engine and a simple_switch that get the same calls.

    If they differ, AssertionError is raised. Twins has those methods of Engine that the tests of
    p4src/ use.
    """

    def __init__(self, engine: Engine, bmv2_json: dict[str, Any], ports: Sequence[int]) -> None:
        self._engine, self._json, self._ports = engine, bmv2_json, ports
        self._idle: list[SimpleSwitch] = []  # processes to use again: starting one takes long
        self._switch = SimpleSwitch(bmv2_json, ports)

    @property
    def program(self) -> Program:
        """The program that engine and simple_switch run."""
        return self._engine.program

    @property
    def generator(self) -> Generator:
        """The code generator of the engine. STF scripts need it."""
        return self._engine.generator

    def another(self) -> "Twins":
        """Return another pair for the same program. It has its own state."""
        made = Twins.__new__(Twins)
        made._engine, made._idle = self._engine.another(), self._idle
        made._json, made._ports = self._json, self._ports
        made._switch = self._idle.pop() if self._idle else SimpleSwitch(self._json, self._ports)
        return made

    def __del__(self) -> None:
        has_entries = any(table.entries for table in self.program.tables.values())
        if self._switch.close.alive and not has_entries and self._switch.reset():
            self._idle.append(self._switch)
        else:
            self._switch.close()

    def table_add(
        self, table: str, key: Sequence[MatchKey], action: str, params: Sequence[int],
        priority: int = 0,
    ) -> None:  # fmt: skip
        self._engine.table_add(table, key, action, params, priority)
        has_priorities = self.program.tables[table].match_type in ("ternary", "range")
        self._switch.table_add(table, key, action, params, priority if has_priorities else 0)

    def table_set_default(self, table: str, action: str, params: Sequence[int]) -> None:
        self._engine.table_set_default(table, action, params)
        self._switch.table_set_default(table, action, params)

    def mirror_set(self, session: int, replicas: Sequence[tuple[int, int]]) -> None:
        self._engine.mirror_set(session, replicas)
        ((port, _),) = replicas
        self._switch.mirror_set(session, port)

    def multicast_set(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        self._engine.multicast_set(group, replicas)
        self._switch.multicast_set(group, replicas)

    def register_write(self, name: str, index: int, value: int) -> None:
        self._engine.register_write(name, index, value)
        self._switch.register_write(name, index, value)

    def counter_read(self, name: str, index: int) -> tuple[int, int]:
        ours = self._engine.counter_read(name, index)
        deadline = time.monotonic() + TIMEOUT_S
        while (theirs := self._switch.counter_read(name, index)) != ours:
            # nothing shows whether simple_switch still processes a packet that it will drop
            assert time.monotonic() < deadline, (
                f"{name}[{index}]: minip4 {ours}, simple_switch {theirs}"
            )
        return ours

    def register_read(self, name: str, index: int) -> int:
        ours, theirs = self._engine.register_read(name, index), self._switch.register_read(name)
        assert ours == theirs[index], f"{name}[{index}]: minip4 {ours}, simple_switch {theirs}"
        return ours

    def compare_state(self) -> None:
        """Compare all counters, and all registers of at most 63 bits.

        Thrift has no wider integers.
        """
        for name, counter in self._engine.program.counters.items():
            if counter.table is None:
                for index in range(counter.size):
                    self.counter_read(name, index)
        for name, register in self._engine.program.registers.items():
            if register.width > 63:
                continue
            ours, theirs = self._engine.register_read_all(name), self._switch.register_read(name)
            assert ours == theirs, f"{name}: minip4 {ours}, simple_switch {theirs}"

    def process(self, port: int, frame: bytes, time_ns: int) -> list[tuple[int, bytes]]:
        ours = [
            (at, sent)
            for at, sent in self._engine.process(port, frame, time_ns)
            if at in self._ports and len(sent) >= SHORTEST_FRAME
        ]
        theirs = self._switch.process(port, frame, time_ns, len(ours))
        assert sorted(ours) == sorted(theirs), (
            f"{frame.hex()} into port {port} at {time_ns} ns: "
            f"minip4 {_text(ours)}, simple_switch {_text(theirs)}"
        )
        return ours


def _text(left: list[tuple[int, bytes]]) -> str:
    return "; ".join(f"{port}: {data.hex()}" for port, data in sorted(left)) or "nothing"


def _key(key: MatchKey) -> str:
    if isinstance(key, Exact):
        return str(key.value)
    if isinstance(key, Lpm):
        return f"{key.value}/{key.prefix_length}"
    if isinstance(key, Range):
        return f"{key.low}->{key.high}"
    assert isinstance(key, Ternary)
    return f"{key.value}&&&{key.mask}"


def _end(taps: dict[int, int], *processes: "subprocess.Popen[Any]") -> None:
    """End the processes, and close the descriptors of the TAP interfaces, which then disappear."""
    for process in processes:
        process.kill()
        process.communicate()
    for tap in taps.values():
        os.close(tap)


def _sleeps(process: int) -> bool:
    """Return whether all threads of a process are asleep and none ran between two readings."""
    before = _naps(process)
    return before is not None and before == _naps(process)


def _naps(process: int) -> list[str] | None:
    """Return how often each thread of a process has gone to sleep, or None if one is awake."""
    naps = []
    for thread in sorted(Path(f"/proc/{process}/task").iterdir()):
        fields = dict(line.split(":\t", 1) for line in (thread / "status").read_text().splitlines())
        if not fields["State"].startswith("S"):
            return None
        naps.append(f"{thread.name} {fields['voluntary_ctxt_switches']}")
    return naps


def _tap(name: str) -> int:
    """Create a TAP interface.

    Return its descriptor: frames written to it arrive at the interface.
    """
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    run(f"ip link set dev {name} mtu {LONGEST_FRAME - SHORTEST_FRAME} up")
    return tap


def _listens(port: int) -> bool:
    tables = (Path(f"/proc/thread-self/net/{name}").read_text() for name in ("tcp", "tcp6"))
    return any(f":{port:04X} 0" in table for table in tables)
