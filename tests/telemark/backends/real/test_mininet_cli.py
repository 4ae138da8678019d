"""Mininet's command line on a terminal: every command works, or prints why it does not."""

import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mininet.node import Node
from terminal import PROMPT, Terminal

from telemark.backends.real import mininet_cli
from telemark.backends.real.shell import Shell
from telemark.errors import TestbedError

SCRIPT = f"""
from mininet.topo import Topo
from telemark.session import cli
from telemark.network import Network
from telemark.backends.real import mininet_cli
from telemark.backends.real.shell import Shell
from telemark.results.report import Check, Report

mininet_cli.IPERF_S = 1

class Pair(Topo):
    def build(self):
        s1, s2 = self.addSwitch("s1"), self.addSwitch("s2")
        self.addLink(self.addHost("h1", ip="10.0.1.1/24"), s1)
        self.addLink(s1, s2)
        self.addLink(s2, self.addHost("h2", ip="10.0.2.1/24"))

def experiment(options, run):
    with Network(Pair(), run, program={str(Path(__file__).parents[2] / "programs" / "wire.p4")!r}):
        pass
    return Report([], [Check("c", 0, 0)])

cli.main(__file__, None, experiment)
"""
PING = ("h1 ping -c 1 -W 5 h2", "1 received")

WORKING = [
    ("help", "Documented commands"),
    ("nodes", "h1 h2 s1 s2"),
    ("net", "s1 lo: s1-eth1:h1-eth0 s1-eth2:s2-eth1"),
    ("links", "h1-eth0<->s1-eth1 (OK OK)"),
    ("ports", "s2 lo:0 s2-eth1:1 s2-eth2:2"),
    ("intfs", "s1: lo,s1-eth1,s1-eth2"),
    ("dump", "<Host h1: h1-eth0:10.0.1.1"),
    PING,
    ("s1 ip -o link show s1-eth1", "s1-eth1@"),
    ("pingall", "0% dropped (2/2 received)"),
    ("pingallfull", "h2->h1: 1/1"),
    ("pingpair", "0% dropped (2/2 received)"),
    ("pingpairfull", "h1->h2: 1/1"),
    ("py h1.IP()", "10.0.1.1"),
    ("py 1 / 0", "division by zero"),
    ("px print(6 * 7)", "42"),
    ("sh echo $((6 * 7))", "42"),
    ("sh minip4 --help", "A P4 software switch."),
    ("h1 python -c 'import minip4, sys; print(sys.prefix)'", sys.prefix),
    ("noecho h1 echo well", "well"),
    ("time h1 true", "Elapsed time"),
    ("source commands", "from a file"),
    ("wait", "all switches run"),
    ("iperf", "bits/sec"),
    ("iperf h2 h1", "bits/sec"),
    ("iperfudp 1M h1 h2", "Server Report"),
]
REFUSED = [
    ("dpctl show", "*** dpctl show: only for Open vSwitch; for minip4 switches use e.g."),
    ("xterm h1", "*** xterm h1: needs an X display"),
    ("gterm h1", "*** gterm h1: needs an X display"),
    ("x h1", "*** x h1: needs an X display"),
    ("iperf h1", "*** iperf h1: expected two of the hosts h1, h2"),
    ("iperfudp 1M h1 s2", "expected two of the hosts h1, h2"),
    ("switch s9 start", "*** switch s9 start: expected a switch (s1, s2) and start or stop"),
    ("switch s1 start", "*** switch s1 start: switch s1 is already running"),
    ("link h1 h2 down", "src and dst not connected: h1 h2"),
    ("source no/such", "*** source no/such: no/such: cannot read commands: No such file"),
    ("nonsense", "*** Unknown command: nonsense"),
    ("h1", "Please enter a command"),
    ("h1 exit", "*** h1 exit: a node's shell must not exit; use `exit` to end the CLI"),
    ("px import os; os.environ['DISPLAY'] = ':7'", ""),
    ("x h9", "*** x h9: KeyError: 'h9'"),
]  # fmt: skip
OUTAGES = [
    ("link h1 s1 down", ""),
    ("h1 ping -c 1 -W 1 h2", "ping:"),
    ("link h1 s1 up", ""),
    ("h1 ip neigh", "PERMANENT"),
    ("h1 ip route", "10.0.2.1 dev h1-eth0"),
    PING,
    ("link s1 s2 down", ""),
    ("h1 ping -c 1 -W 1 h2", "0 received"),
    ("link s1 s2 up", ""),
    PING,
    ("switch s2 stop", ""),
    ("h1 ping -c 1 -W 1 h2", "0 received"),
    ("wait", "stopped: s2"),
    ("switch s2 stop", "*** switch s2 stop: switch s2 is already stopped"),
    ("switch s2 start", "s2 runs again, with new counters"),
    PING,
    ("switch s1 stop", ""),  # the switch is still stopped at the end of the run
]


def example(folder: Path) -> Terminal:
    """Write SCRIPT, and a file of commands next to it."""
    (folder / "example.py").write_text(SCRIPT)
    (folder / "commands").write_text("sh echo from a file\n")
    return Terminal(folder, "example.py")


@pytest.fixture
def open_terminal(tmp_path: Path) -> Iterator[Callable[[], Terminal]]:
    opened: list[Terminal] = []

    def open_it() -> Terminal:
        opened.append(example(tmp_path))
        return opened[0]

    yield open_it
    for terminal in opened:
        terminal.kill()


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A terminal for all tests that return to its prompt. It must exit without an error."""
    terminal = example(tmp_path_factory.mktemp("terminal"))
    try:
        yield terminal
        terminal.leave()
    finally:
        terminal.kill()


@pytest.mark.parametrize("commands", [WORKING, REFUSED, OUTAGES], ids=["work", "refuse", "outage"])
def test_each_command_works_or_says_why_not(
    terminal: Terminal, commands: list[tuple[str, str]]
) -> None:
    for command, words in commands:
        said = terminal.do(command)
        assert words in said, f"{command}: {said}"
        assert "Traceback" not in said


def begin_sleeping(terminal: Terminal) -> None:
    """Start a long command at a host; return when the command runs."""
    terminal.type("h1 echo begun; sleep 60\n")
    terminal.until(b"\nbegun")


def test_ctrl_c_ends_a_command_each_time_and_never_the_run(terminal: Terminal) -> None:
    for _ in range(2):
        begin_sleeping(terminal)
        for _ in range(2):
            terminal.type("\x03")
            terminal.until(PROMPT)


@pytest.mark.parametrize("busy", [False, True])
def test_a_signal_ends_the_run(open_terminal: Callable[[], Terminal], busy: bool) -> None:
    terminal = open_terminal()
    if busy:
        begin_sleeping(terminal)
    os.kill(terminal.pid, signal.SIGTERM)
    terminal.until(b"example: interrupted")
    assert terminal.status() == 128 + signal.SIGTERM


def test_a_signal_that_a_log_handler_swallows_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal ends the run even if Mininet's log handler swallows the exception.

    This handler has a bare `except`.
    """

    def swallow(_net: object) -> None:
        with contextlib.suppress(BaseException):
            signal.raise_signal(signal.SIGTERM)
        time.sleep(60)

    ended: list[int] = []
    monkeypatch.setattr(mininet_cli, "CommandLine", swallow)
    before = signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    try:
        mininet_cli.run_cli({})
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended == [signal.SIGTERM]


def test_a_command_is_interrupted_until_it_ends() -> None:
    host = Node("h1", inNamespace=False)
    try:
        # The command ignores the first interrupt. If pytest ignores interrupts, the command would
        # ignore all of them, so env restores the default.
        command = 'trap "trap - INT" INT; echo ready; while :; do echo on; done'
        host.sendCmd(f"env --default-signal=INT sh -c '{command}'")
        while "ready" not in host.monitor():
            pass
        mininet_cli.end_command(host)
        assert not host.waiting
    finally:
        host.terminate()


class Interrupted(Shell, Node):
    """A shell that gets a signal just after it has received a command."""

    def write(self, data: str) -> None:
        super().write(data)
        if "sleep" in data:
            signal.raise_signal(signal.SIGTERM)


def test_no_signal_comes_between_a_command_and_its_note() -> None:
    waiting = []
    before = signal.signal(signal.SIGTERM, lambda *_: waiting.append(host.waiting))
    host = Interrupted("h1", inNamespace=False)
    try:
        host.sendCmd("sleep 0")
        assert waiting == [True]
    finally:
        signal.signal(signal.SIGTERM, before)
        host.terminate()


class Hosting(Shell, Node):
    """A shell in the namespaces of the test."""


@pytest.fixture
def host() -> Iterator[Hosting]:
    host = Hosting("h1", inNamespace=False)
    yield host
    host.terminate()


@pytest.mark.parametrize("command", ["echo said; exit 3", "kill -9 $$", "exec true"])
def test_a_command_that_ends_its_shell_is_told_then_and_at_each_later_one(
    host: Hosting, command: str
) -> None:
    assert host.cmd("echo before").strip() == "before"
    for later in (command, "echo on"):
        with pytest.raises(TestbedError, match=rf"^h1: `{re.escape(command)}` ended its shell"):
            host.cmd(later)
    mininet_cli.end_command(host)  # as after a signal; the shell has ended


def test_the_command_line_waits_for_no_shell_that_has_ended(host: Hosting) -> None:
    typed, typing = os.pipe()
    with open(typed) as stdin, open(typing, "w"):
        line = mininet_cli.CommandLine.__new__(mininet_cli.CommandLine)
        line.stdin = stdin
        host.sendCmd("sleep 0.05; echo said")
        line.waitForNode(host)
        host.sendCmd("sleep 0.05; exit")
        with pytest.raises(TestbedError, match=r"^h1: .* ended its shell"):
            line.waitForNode(host)
