"""STF, p4c's simple test framework: scripts of table entries, sent and expected packets.

Each line contains one command; `#` begins a comment. Names may be in double quotes, as p4testgen
writes them. Commands:

    add TABLE [PRIORITY] FIELD:VALUE ... ACTION(NAME:VALUE, ...)   the larger priority wins
    setdefault TABLE ACTION(NAME:VALUE, ...)
    packet PORT HEX...
    expect PORT [HEX...]        `*` matches any nibble; `$` matches the end of the packet
    no_packet                   no unexpected packet may have been sent so far
    mc_mgrp_create GROUP, mc_node_create RID PORT..., mc_node_associate GROUP NODE
    mirroring_add SESSION PORT, mirroring_add_mc SESSION GROUP
    register_write REGISTER INDEX VALUE, register_read REGISTER INDEX [VALUE]
    counter_read COUNTER INDEX [PACKETS BYTES]
    wait                        no effect: packets are processed immediately

The first packet arrives at time 0, as p4testgen assumes. Each further packet arrives one
millisecond after the previous one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from minip4.engine.control.trace import Trace
from minip4.engine.engine import Engine
from minip4.engine.errors import EngineError
from minip4.engine.shared import DROP_PORT
from minip4.errors import Minip4Error
from minip4.stf.names import Call, find, has_parenthesis, parse_call, parse_key, split

PACKET_INTERVAL_NS = 1_000_000
MAX_LINES = 20  # maximum lines of the trace of a packet that is never finished
"""The first number that is not a port number (engine.h)."""


class StfError(Minip4Error):
    """An invalid or failing script: file, line and problem.

    `trace` is the trace of the packet up to the failure, if the engine is traced.
    """

    def __init__(self, text: str, trace: str = "") -> None:
        super().__init__(text)
        self.trace = trace


@dataclass(frozen=True, slots=True)
class Received:
    """A frame that left the switch, with the number of the `packet` command that caused it."""

    frame: bytes
    packet: int


@dataclass(frozen=True, slots=True)
class Expected:
    line: int
    packet: int
    """The last `packet` command before this one."""
    pattern: str | None
    """Hexadecimal digits and `*`; None matches any packet."""
    is_whole: bool = False

    def matches(self, frame: bytes) -> bool:
        if self.pattern is None:
            return True
        text = frame.hex()
        if len(text) < len(self.pattern) or (self.is_whole and len(text) > len(self.pattern)):
            return False
        return all(p in ("*", n) for p, n in zip(self.pattern, text, strict=False))

    def __str__(self) -> str:
        return "any packet" if self.pattern is None else self.pattern + "$" * self.is_whole


@dataclass(slots=True)
class StfRun:
    """One run of a script on a new engine; failures() returns the differences.

    With a traced engine, `traces` has the trace of each packet, by its number in the script, and
    each failure includes the trace of its packet.
    """

    engine: Engine
    name: str
    _line: int = 0
    _packets: int = 0
    traces: dict[int, str] = field(default_factory=dict)
    _explained: set[int] = field(default_factory=set)
    _trace: Trace | None = field(init=False)
    _got: dict[int, list[Received]] = field(default_factory=lambda: defaultdict(list))
    _expected: dict[int, list[Expected]] = field(default_factory=lambda: defaultdict(list))
    _failures: list[str] = field(default_factory=list)
    _nodes: list[tuple[int, list[int]]] = field(default_factory=list)
    _groups: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    _group_sessions: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._trace = Trace(self.engine) if self.engine.generator.trace else None

    def run(self, lines: Iterable[str]) -> None:
        """Run the commands. Raises StfError if one is malformed or rejected."""
        for number, text in enumerate(lines, 1):
            self._line = number
            words = self._words(text)
            if not words:
                continue
            command = _COMMANDS.get(words[0].lower())
            if command is None:
                raise self._error(f"unknown command {words[0]!r}; there are {', '.join(_COMMANDS)}")
            try:
                command(self, words[1:])
            except IndexError as error:
                raise self._error(f"{words[0]}: missing arguments") from error
            except (EngineError, ValueError) as error:
                raise self._error(str(error)) from error

    def failures(self) -> list[str]:
        """Return the differences between expected and received frames since the last call."""
        for port in sorted({*self._expected, *self._got}):
            got, expected = self._got.pop(port, []), self._expected.pop(port, [])
            for came, wanted in zip(got, expected, strict=False):
                if not wanted.matches(came.frame):
                    text = f"port {port}: expected {wanted}, got {came.frame.hex()}"
                    self._fail(text, wanted.line, came.packet)
            for wanted in expected[len(got) :]:
                text = f"port {port}: expected {wanted}, got nothing"
                self._fail(text, wanted.line, wanted.packet)
            for came in got[len(expected) :]:
                self._fail(
                    f"port {port}: unexpected frame {came.frame.hex()}", self._line, came.packet
                )
        failures, self._failures = self._failures, []
        return failures

    def _words(self, text: str) -> list[str]:
        try:
            return split(text)
        except ValueError as error:
            raise self._error(str(error)) from error

    def _error(self, text: str, trace: str = "") -> StfError:
        return StfError(f"{self.name}:{self._line}: error: {text}", trace)

    def _fail(self, text: str, line: int, packet: int = 0) -> None:
        # the first failure of a packet includes its trace
        trace = "" if packet in self._explained else self.traces.get(packet, "")
        self._explained.add(packet)
        self._failures.append(f"{self.name}:{line}: {text}" + (f"\n{trace}" if trace else ""))

    # --- commands --------------------------------------------------------------------------

    def add(self, words: list[str]) -> None:
        table = find(self.engine.program.tables, words[0], "table")
        rest = words[1:]
        priority = int(rest.pop(0)) if rest[0].isdigit() else 0
        at = next((i for i, word in enumerate(rest) if has_parenthesis(word)), None)
        if at is None:
            raise ValueError("add: no ACTION(NAME:VALUE, ...) at its end")
        call = self._call(table.name, " ".join(rest[at:]))
        key = parse_key(table, rest[:at])
        if table.profile is None:
            self.engine.table_add(table.name, key, call.action, call.params, priority)
        else:  # the action becomes a member of the profile
            member = self.engine.member_add(table.profile, call.action, call.params)
            self.engine.table_add_member(table.name, key, member, priority)

    def set_default(self, words: list[str]) -> None:
        table = find(self.engine.program.tables, words[0], "table")
        call = self._call(table.name, " ".join(words[1:]))
        self.engine.table_set_default(table.name, call.action, call.params)

    def _call(self, table: str, text: str) -> Call:
        return parse_call(self.engine.program.tables[table].actions, text)

    def packet(self, words: list[str]) -> None:
        frame = bytes.fromhex("".join(words[1:]))
        port_in = int(words[0])
        if not 0 <= port_in < DROP_PORT:
            raise ValueError(f"port {port_in}: expected 0 to {DROP_PORT - 1}")
        now_ns = self._packets * PACKET_INTERVAL_NS
        self._packets += 1
        try:
            left = self.engine.process(port_in, frame, now_ns)
        except EngineError as error:
            raise self._error(str(error), self._beginning()) from error
        for port, sent in left:
            self._got[port].append(Received(sent, self._packets))
        if self._trace is not None:
            self.traces[self._packets] = "\n".join(self._trace.blocks())

    def _beginning(self) -> str:
        """Return the start of the trace of a packet that is still in the switch."""
        if self._trace is None:
            return ""
        ended = list(self._trace.blocks())
        lines = "\n".join([*self._trace.unfinished(), *ended]).splitlines()
        return "\n".join([*lines[:MAX_LINES], "..."] if len(lines) > MAX_LINES else lines)

    def expect(self, words: list[str]) -> None:
        pattern = "".join(words[1:]).lower()
        is_whole = pattern.endswith("$")
        pattern = pattern.rstrip("$")
        if re.fullmatch(r"[0-9a-f*]*", pattern) is None:
            raise ValueError(f"{pattern!r}: expected hexadecimal digits and *")
        has_pattern = len(words) > 1  # a `$` alone means an empty packet
        wanted = Expected(self._line, self._packets, pattern if has_pattern else None, is_whole)
        self._expected[int(words[0])].append(wanted)

    def no_packet(self, words: list[str]) -> None:
        if words:
            raise ValueError("no_packet has no arguments")
        failures = self.failures()
        self._failures = failures

    def wait(self, words: list[str]) -> None:
        """Do nothing, because process() returns only when no work is due."""

    def create_group(self, words: list[str]) -> None:
        self._groups[int(words[0])] = []
        self._set_groups()

    def create_node(self, words: list[str]) -> None:
        self._nodes.append((int(words[0]), [int(port) for port in words[1:]]))

    def associate(self, words: list[str]) -> None:
        group, node = int(words[0]), int(words[1])
        if group not in self._groups or not 0 <= node < len(self._nodes):
            raise ValueError(
                f"mc_node_associate: group {group} or node {node} was not created before"
            )
        rid, ports = self._nodes[node]
        self._groups[group] += [(port, rid) for port in ports]
        self._set_groups()

    def mirror(self, words: list[str]) -> None:
        self.engine.mirror_set(int(words[0]), [(int(words[1]), 0)])

    def mirror_group(self, words: list[str]) -> None:
        self._group_sessions[int(words[0])] = int(words[1])
        self._set_groups()

    def _set_groups(self) -> None:
        for group, replicas in self._groups.items():
            self.engine.multicast_set(group, replicas)
        for session, group in self._group_sessions.items():
            self.engine.mirror_set(session, self._groups.get(group, []))

    def write_register(self, words: list[str]) -> None:
        register = find(self.engine.program.registers, words[0], "register")
        self.engine.register_write(register.name, int(words[1], 0), int(words[2], 0))

    def read_register(self, words: list[str]) -> None:
        register = find(self.engine.program.registers, words[0], "register")
        value = self.engine.register_read(register.name, int(words[1], 0))
        if len(words) > 2 and value != int(words[2], 0):
            self._fail(f"register {words[0]}[{words[1]}] is {value}, not {words[2]}", self._line)

    def read_counter(self, words: list[str]) -> None:
        counter = find(self.engine.program.counters, words[0], "counter")
        value = self.engine.counter_read(counter.name, int(words[1], 0))
        if len(words) > 2 and value != (int(words[2], 0), int(words[3], 0)):
            self._fail(f"counter {words[0]}[{words[1]}] is {value}", self._line)


_COMMANDS: dict[str, Callable[[StfRun, list[str]], None]] = {
    "add": StfRun.add,
    "setdefault": StfRun.set_default,
    "packet": StfRun.packet,
    "expect": StfRun.expect,
    "no_packet": StfRun.no_packet,
    "wait": StfRun.wait,
    "mc_mgrp_create": StfRun.create_group,
    "mc_node_create": StfRun.create_node,
    "mc_node_associate": StfRun.associate,
    "mirroring_add": StfRun.mirror,
    "mirroring_add_mc": StfRun.mirror_group,
    "register_write": StfRun.write_register,
    "register_read": StfRun.read_register,
    "counter_read": StfRun.read_counter,
}


def run_stf(engine: Engine, script: Path) -> list[str]:
    """Run a script on a new engine and return its failures. Raises StfError."""
    return run_script(engine, script).failures()


def run_script(engine: Engine, script: Path) -> StfRun:
    """Run the commands of a script on a new engine. Raises StfError."""
    try:
        lines = script.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StfError(f"{script}: cannot read the file: {error}") from error
    run = StfRun(engine, script.name)
    run.run(lines)
    return run
