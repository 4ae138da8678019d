"""Mininet's command line: what cannot work on our switches says why, and no error ends a run."""

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
ANSWER_S = 30.0  # for all of iperf
INTERRUPT_S = 0.1  # until a command that goes on is interrupted for the second time
SENTINEL = chr(127)  # the prompt of the shells of Mininet's nodes
READ_CHARS = 1024
TERMINALS = {"xterm": "xterm", "gterm": "gnome-terminal"}


class _Ended(BaseException):
    """A signal that ends the run; Mininet keeps KeyboardInterrupt, and commands keep Exceptions."""


def converse(mininet: Mininet, script: Path | None = None) -> None:
    """Let the user type commands until `exit`. Ctrl-C ends a command, other signals the run.

    Or do the commands of a script; any of the signals ends the run then.
    """
    before = {number: signal.getsignal(number) for number in (*STOPPING, signal.SIGALRM)}
    number = None
    interruptible(_Ended, LOOK_S)
    try:
        if script is None:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            CommandLine(mininet)
        else:
            with _silence() as nobody:
                CommandLine(mininet, stdin=nobody, script=script)
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
    """End the command that a node's shell is at, if any: else Mininet could not stop.

    A prompt does not say that it ended: an interrupt that meets the shell itself, just before it
    begins the command, gets a prompt too. So the shell is asked for a word that only an idle one
    gives, and interrupted again, with more time each time, until it does. An interrupt may take the
    first character that bash reads next, too: an empty line goes before.
    """
    for attempt in itertools.count():
        if not node.waiting or node.shell.poll() is not None:
            return
        node.sendInt()
        node.write(f"\necho idle {attempt}\n")
        node.waiting = not _says(node, f"idle {attempt}\r\n{SENTINEL}", INTERRUPT_S * 2**attempt)


def _says(node: Node, answer: str, timeout_s: float) -> bool:
    """Read what a node's shell says until it ends with an answer."""
    said = ""
    until = time.monotonic() + timeout_s
    while (left_s := until - time.monotonic()) > 0:
        if not select.select([node.stdout], [], [], left_s)[0]:
            break
        said += node.read(READ_CHARS)
        if said.endswith(answer):
            return True
    return False


@contextlib.contextmanager
def _silence() -> Iterator[TextIO]:
    """What nobody types: where input has an end, Mininet looks at it again and again."""
    reading, writing = os.pipe()
    with open(reading) as nobody, open(writing, "w"):
        yield nobody


class CommandLine(CLI):
    """See mininet.cli; docs/running.md has what differs."""

    def onecmd(self, line: str) -> Any:
        """Do one command. An error in it is one line."""
        try:
            return super().onecmd(line)
        except Exception as wrong:
            kind = "" if isinstance(wrong, TestbedError) else f"{type(wrong).__name__}: "
            error(f"*** {line.strip()}: {kind}{' '.join(str(wrong).split())}\n")
            return None

    def do_source(self, line: object) -> None:
        """Do the commands of a file, a line each; those that begin with # are comments.
        Usage: source FILE"""
        for command in script_lines(Path(str(line))):
            if not self.isatty():  # nobody typed, and so nobody sees what is done
                output(f"{self.prompt}{command}\n")
            if self.onecmd(command):
                return

    def default(self, line: str) -> None:
        """A command at a node."""
        words = line.split()
        if words[1:2] in (["exit"], ["logout"]):
            error(f"*** {line.strip()}: {words[0]} lives in its shell; `exit` alone ends all\n")
        else:
            super().default(line)

    def waitForNode(self, node: Node) -> None:
        """Show what a command at a node says, and give it what is typed, until it ends.

        Mininet's does not see that a shell has ended. Raises TestbedError where it has.
        """
        if self.isatty():
            quietRun("stty -icanon min 1")  # each key, and not only lines
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
        """TCP for 5 seconds, from the first host to the last or between two.
        Usage: iperf [node1 node2]"""
        self._iperf(line.split())

    def do_iperfudp(self, line: str) -> None:
        """UDP for 5 seconds, from the first host to the last or between two.
        Usage: iperfudp [bw node1 node2], bw as in 10M"""
        words = line.split() or [UDP_RATE]
        self._iperf(words[1:], "-u", "-b", words[0])

    def do_link(self, line: str) -> None:
        """Bring the links between two nodes up or down.
        Usage: link node1 node2 up|down"""
        super().do_link(line)
        words = line.split()
        if words[2:] == ["up"]:  # with its interface a host lost routes and neighbours
            for host in self.mn.hosts:
                if host.name in words:
                    host.settle(self.mn.hosts)

    def do_switch(self, line: str) -> None:
        """Stop or start the process of a switch.
        Usage: switch name start|stop"""
        words = line.split()
        switches = {switch.name: switch for switch in self.mn.switches}
        if len(words) != 2 or words[0] not in switches or words[1] not in ("start", "stop"):
            raise TestbedError(f"expected one of {', '.join(switches)}, and start or stop")
        switch = switches[words[0]]
        if switch.connected() == (words[1] == "start"):
            raise TestbedError(f"it is {'running' if switch.connected() else 'stopped'} already")
        if words[1] == "stop":
            switch.request_end()
            switch.finish()
            switch.stop(deleteIntfs=False)
            return
        switch.start([])
        switch.wait_ready()
        output(f"{switch} runs again, with empty tables: the controller that filled them has gone; "
               "its counters and captures begin anew\n")  # fmt: skip

    def do_wait(self, _line: str) -> None:
        """Tell whether all switches run: there is nothing to wait for."""
        stopped = [switch.name for switch in self.mn.switches if not switch.connected()]
        output(f"stopped: {', '.join(stopped)}\n" if stopped else "all switches run\n")

    def do_dpctl(self, _line: str) -> None:
        """Not for these switches."""
        switch = self.mn.switches[0]
        raise TestbedError(
            "is Open vSwitch's; of minip4's switches, for example, `sh minip4 tables "
            f"--grpc-server-addr {switch.grpc_address} --device-id {switch.device_id}` or "
            f"`sh minip4 control {switch.control_path} counters`"
        )

    def do_xterm(self, line: str, term: str = "xterm") -> None:
        """Open a terminal at each of the nodes.
        Usage: xterm node1 node2 ..."""
        _need_display()
        _need_program(TERMINALS[term])
        super().do_xterm(line, term)

    def do_x(self, line: str) -> None:
        """Run an X11 client at a node.
        Usage: x node [cmd args]"""
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
            raise TestbedError(f"{server} did not answer within {ANSWER_S:g} s") from None
        except subprocess.CalledProcessError:
            raise TestbedError(f"no connection from {client} to {server}") from None
        finally:
            listener.kill()
            listener.communicate()


def script_lines(path: Path) -> list[str]:
    """The commands of a script, without comments. Raises TestbedError."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise TestbedError(f"cannot read the commands in {path}: {why}") from None
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def _await_listener(pid: int, protocol: str) -> None:
    deadline = time.monotonic() + LISTENING_S
    while time.monotonic() < deadline:
        with open(f"/proc/{pid}/net/{protocol}") as sockets:
            if f":{IPERF_PORT:04X} " in sockets.read():
                return
        time.sleep(0.02)
    raise TestbedError(f"iperf does not listen after {LISTENING_S:g} s")


def _need_display() -> None:
    if "DISPLAY" not in os.environ:
        raise TestbedError("needs an X display, and DISPLAY is not set")


def _need_program(name: str) -> None:
    if shutil.which(name) is None:
        raise TestbedError(f"needs {name}, which is not installed")
