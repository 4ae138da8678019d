"""Mininet's CLI, adapted to Telemark's switches. A failed command does not end the run."""

import contextlib
import itertools
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from mininet.cli import CLI
from mininet.log import error, output
from mininet.net import Mininet
from mininet.node import Node
from mininet.util import quietRun

from telemark.backends.real.isolation import LOOK_S, STOPPING, end_interrupt, interruptible
from telemark.errors import TestbedError

IPERF_PORT, IPERF_S, UDP_RATE = 5001, 5, "10M"
LISTENING_S = 5.0
ANSWER_S = 30.0  # maximum duration of iperf
INTERRUPT_S = 0.1  # time between the first and the second interrupt of a command
SENTINEL = chr(127)  # prompt of the shells in Mininet's nodes
READ_CHARS = 1024
TERMINALS = {"xterm": "xterm", "gterm": "gnome-terminal"}


class _Ended(BaseException):
    """Signal that ends the run.

    Mininet does not catch this exception, because it is no KeyboardInterrupt.
    """


def run_cli(mininet: Mininet, script: Path | None = None) -> None:
    """Run the interactive CLI until `exit`, or the commands of a script.

    In the interactive CLI, Ctrl-C ends only the current command; other signals end the run. During
    a script, any signal ends the run.
    """
    before = {number: signal.getsignal(number) for number in (*STOPPING, signal.SIGALRM)}
    number = None
    interruptible(_Ended, LOOK_S)
    try:
        if script is None:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            CommandLine(mininet)
        else:
            with _silent_input() as stdin:
                CommandLine(mininet, stdin=stdin, script=script)
    except _Ended:
        number = end_interrupt()
    finally:
        number = end_interrupt() or number
        for each, handler in before.items():
            signal.signal(each, handler)
    if number is None:
        return
    for node in mininet.values():
        end_command(node)
    signal.raise_signal(number)


def end_command(node: Node) -> None:
    """End the current command of a node's shell. Otherwise, Mininet could not stop the node.

    A prompt does not prove that the command has ended: an interrupt just before the start of the
    command also causes a prompt. Therefore, the shell is interrupted until it executes `echo`. The
    timeout grows with each attempt. An empty line precedes `echo`, because bash may discard the
    first character that it reads after an interrupt.
    """
    for attempt in itertools.count():
        if not node.waiting or node.shell.poll() is not None:
            return
        node.sendInt()
        node.write(f"\necho idle {attempt}\n")

        answer = f"idle {attempt}\r\n{SENTINEL}"
        node.waiting = not _wait_for_answer(node, answer, INTERRUPT_S * 2**attempt)


def _wait_for_answer(node: Node, answer: str, timeout_s: float) -> bool:
    """Read the output of a node's shell until it ends with `answer`; return False on timeout."""
    received = ""
    until = time.monotonic() + timeout_s
    while (left_s := until - time.monotonic()) > 0:
        if not select.select([node.stdout], [], [], left_s)[0]:
            break
        received += node.read(READ_CHARS)
        if received.endswith(answer):
            return True
    return False


@contextlib.contextmanager
def _silent_input() -> Iterator[TextIO]:
    """Open an input that never has data or EOF. Mininet would poll an input at EOF forever."""
    reading, writing = os.pipe()
    with open(reading) as silent, open(writing, "w"):
        yield silent


class CommandLine(CLI):
    """Mininet's CLI; docs/how-to/run-experiments.md describes the differences."""

    def onecmd(self, line: str) -> Any:
        """Run one command; errors are reported in one line."""
        try:
            return super().onecmd(line)
        except Exception as wrong:
            kind = "" if isinstance(wrong, TestbedError) else f"{type(wrong).__name__}: "
            error(f"*** {line.strip()}: {kind}{' '.join(str(wrong).split())}\n")
            return None

    def do_source(self, line: object) -> None:
        """Run the commands of a file, one per line; lines that begin with # are comments.
        Usage: source FILE
        """
        for command in script_lines(Path(str(line))):
            if not self.isatty():  # print the command, as a terminal would show it
                output(f"{self.prompt}{command}\n")
            if self.onecmd(command):
                return

    def default(self, line: str) -> None:
        """Run a command at a node."""
        words = line.split()
        if words[1:2] in (["exit"], ["logout"]):
            error(f"*** {line.strip()}: a node's shell must not exit; use `exit` to end the CLI\n")
        else:
            super().default(line)

    def waitForNode(self, node: Node) -> None:
        """Print the output of a command at a node, and forward typed input, until the command ends.

        Raises TestbedError if the shell has ended. Mininet's method does not detect this.
        """
        if self.isatty():
            quietRun("stty -icanon min 1")  # the terminal forwards each key immediately
        typed, poller = self.stdin.fileno(), select.poll()
        for descriptor in (typed, node.stdout, node.end):
            poller.register(descriptor, select.POLLIN)
        while node.waiting:
            try:
                ready = {descriptor for descriptor, _ in poller.poll()}
                if typed in ready:
                    node.write(self.stdin.read(1))
                if ready - {typed}:
                    output(node.monitor())
            except KeyboardInterrupt:
                node.sendInt()

    def do_iperf(self, line: str) -> None:
        """Send TCP for 5 seconds between two hosts (default: from the first to the last).
        Usage: iperf [node1 node2]
        """
        self._iperf(line.split())

    def do_iperfudp(self, line: str) -> None:
        """Send UDP for 5 seconds between two hosts (default: from the first to the last).
        Usage: iperfudp [bw node1 node2], bw e.g. 10M
        """
        words = line.split() or [UDP_RATE]
        self._iperf(words[1:], "-u", "-b", words[0])

    def do_links(self, line: str) -> None:
        """Print the links, and whether frames pass through their interfaces."""
        super().do_links(line)
        if any(switch.memory_links() for switch in self.mn.switches):
            output("Frames between switches pass through memory. Their interfaces show only the "
                   "state of the link, and tcpdump sees no frames there; for that, use "
                   "--wires veth\n")  # fmt: skip

    def do_link(self, line: str) -> None:
        """Bring the links between two nodes up or down.
        Usage: link node1 node2 up|down
        """
        super().do_link(line)
        words = line.split()
        # configure the host again: when its interface went down, routes and neighbours were lost
        if words[2:] == ["up"]:
            for host in self.mn.hosts:
                if host.name in words:
                    host.configure(self.mn.hosts)

    def do_switch(self, line: str) -> None:
        """Stop or start the process of a switch.
        Usage: switch name start|stop
        """
        words = line.split()
        switches = {switch.name: switch for switch in self.mn.switches}
        if len(words) != 2 or words[0] not in switches or words[1] not in ("start", "stop"):
            raise TestbedError(f"expected a switch ({', '.join(switches)}) and start or stop")
        switch = switches[words[0]]
        if switch.connected() == (words[1] == "start"):
            state = "running" if switch.connected() else "stopped"
            raise TestbedError(f"switch {switch} is already {state}")
        if words[1] == "stop":
            switch.request_end()
            switch.finish()
            switch.stop(deleteIntfs=False)
            return
        switch.start([])
        switch.wait_ready()
        output(f"{switch} runs again, with new counters and captures; its tables are empty, and "
               f"its controller does not refill them\n")  # fmt: skip

    def do_wait(self, _line: str) -> None:
        """Print the switches that are stopped."""
        stopped = [switch.name for switch in self.mn.switches if not switch.connected()]
        output(f"stopped: {', '.join(stopped)}\n" if stopped else "all switches run\n")

    def do_dpctl(self, _line: str) -> None:
        """Report that dpctl is not available."""
        switch = self.mn.switches[0]
        raise TestbedError(
            "only for Open vSwitch; for minip4 switches use e.g. `sh minip4 tables "
            f"--grpc-server-addr {switch.grpc_address} --device-id {switch.device_id}` or "
            f"`sh minip4 control {switch.control_path} counters`"
        )

    def do_xterm(self, line: str, term: str = "xterm") -> None:
        """Open a terminal at each of the nodes.
        Usage: xterm node1 node2 ...
        """
        _need_display()
        _need_program(TERMINALS[term])
        super().do_xterm(line, term)

    def do_x(self, line: str) -> None:
        """Run an X11 client at a node.
        Usage: x node [cmd args]
        """
        _need_display()
        super().do_x(line)

    def _iperf(self, names: Sequence[str], *options: str) -> None:
        _need_program("iperf")
        hosts = {host.name: host for host in self.mn.hosts}
        names = names or [*hosts][:: max(len(hosts) - 1, 1)]
        if len(names) != 2 or not hosts.keys() >= {*names}:
            raise TestbedError(f"expected two of the hosts {', '.join(hosts)}")
        client, server = (hosts[name] for name in names)
        protocol = "udp" if options else "tcp"
        command = ["iperf", "-p", str(IPERF_PORT), *options[:1]]
        listener = server.popen([*command, "-s"])
        try:
            _await_listener(listener.pid, protocol)
            address = server.IP()
            sending = [*client.enter(), *command, "-t", str(IPERF_S), "-c", address, *options[1:]]
            subprocess.run(sending, timeout=ANSWER_S, check=True, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            raise TestbedError(f"{server}: no response within {ANSWER_S:g} s") from None
        except subprocess.CalledProcessError:
            raise TestbedError(f"no connection from {client} to {server}") from None
        finally:
            listener.kill()
            listener.communicate()


def script_lines(path: Path) -> list[str]:
    """Read the commands of a script, without comments. Raises TestbedError."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise TestbedError(f"{path}: cannot read commands: {cause}") from None
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def _await_listener(pid: int, protocol: str) -> None:
    deadline = time.monotonic() + LISTENING_S
    while time.monotonic() < deadline:
        with open(f"/proc/{pid}/net/{protocol}") as sockets:
            if f":{IPERF_PORT:04X} " in sockets.read():
                return
        time.sleep(0.02)
    raise TestbedError(f"iperf: did not listen within {LISTENING_S:g} s")


def _need_display() -> None:
    if "DISPLAY" not in os.environ:
        raise TestbedError("needs an X display; set DISPLAY")


def _need_program(name: str) -> None:
    if shutil.which(name) is None:
        raise TestbedError(f"needs {name}, which is not installed; install it")
