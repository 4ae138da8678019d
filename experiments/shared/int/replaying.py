"""Collector and sender of reports, as processes on two hosts."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collectors.int.application import PORT
from experiments.shared.int import replay
from telemark.errors import TestbedError
from telemark.processes import LineProcess, run_command

SENDER, COLLECTOR = "10.66.0.1", "10.66.0.2"
SENDER_CORE, COLLECTOR_CORE = 0, 1
QUIET_S = 0.8  # pause before the last datagram, so that the collector can empty its socket
TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Shape:
    """Contents of the sent datagrams, and whether the collector stores reports."""

    reports: int  # number of reports per datagram
    hops: int
    flows: int
    is_stored: bool = False

    @property
    def text(self) -> str:
        """Description for tables."""
        stored = ", stored" if self.is_stored else ""
        return f"{self.reports} per datagram{stored}; {self.hops} hops; {self.flows:,} flows"


@dataclass(frozen=True)
class Taken:
    """Result of a round: fate of datagrams, and CPU time."""

    sent: int  # number of sent datagrams
    received: int
    in_gaps: int  # datagrams that the collector detected as lost
    kernel_drops: int  # datagrams that the kernel dropped because the socket buffer was full
    misread: int  # number of counts (reports, hops, flows, values) that differ from the sent data
    reports: int
    sent_per_s: float
    seconds: float
    user_s: float
    system_s: float
    stored_bytes: int

    @property
    def lost(self) -> int:
        """Number of lost datagrams."""
        return self.sent - self.received

    @property
    def busy(self) -> float:
        """CPU utilization while datagrams were sent; above 1, the backlog in the socket grows."""
        return (self.user_s + self.system_s) / self.seconds

    @property
    def ns_per_report(self) -> float:
        """CPU time per report (ns)."""
        return 1e9 * (self.user_s + self.system_s) / self.reports


class Hosts:
    """Two namespaces with a veth pair: the collector's (this one), and the sender's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._turns = 0

    def __enter__(self) -> "Hosts":
        """Set up both namespaces, and start the sender. Raises TestbedError."""
        if (os.cpu_count() or 1) <= COLLECTOR_CORE:
            raise TestbedError(
                "int_collector: sender and collector need a core each; use a machine with 2 cores"
            )
        run_command("ip link add collector type veth peer name reports")
        run_command(f"ip address add {COLLECTOR}/24 dev collector")
        run_command("ip link set collector up")
        # The sender waits for a line, which it receives when its interface is ready.
        script = f'read; exec "{sys.executable}" "{replay.__file__}" {COLLECTOR} {PORT}'
        self._sender = LineProcess(
            "sender of reports", "taskset", "-c", SENDER_CORE, "unshare", "-n", "bash", "-c", script
        )
        try:
            self._prepare()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _prepare(self) -> None:
        pid, deadline_s = self._sender.pid, time.monotonic() + TIMEOUT_S
        while os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            if time.monotonic() > deadline_s:
                raise TestbedError("the sender of reports has no namespace")
            time.sleep(0.005)
        run_command(f"ip link set reports netns {pid}")
        for command in (f"address add {SENDER}/24 dev reports", "link set reports up"):
            run_command(f"nsenter -t {pid} -n ip {command}")
        self._sender.ask()  # it answers when it is ready

    def __exit__(self, *_error: object) -> None:
        self._sender.close()

    def take(self, shape: Shape, datagrams_per_s: float, seconds: float) -> Taken:
        """Send reports of this shape at this rate to a new collector. Raises TestbedError."""
        self._turns += 1
        run = self._folder / "reports" / f"turn-{self._turns}"
        stored = ["--store", str(run)] if shape.is_stored else []
        collector = subprocess.Popen(
            ["taskset", "-c", str(COLLECTOR_CORE), sys.executable, "-m", "collectors.int",
             "--address", COLLECTOR, *stored],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert collector.stderr is not None
            status = collector.stderr.readline()
            if "listening" not in status:
                raise TestbedError(f"the collector did not start: {status.strip()}")
            given = (shape.reports, shape.hops, shape.flows, datagrams_per_s, seconds, QUIET_S)
            sent = int(self._sender.ask(" ".join(map(str, given))))
            collector.send_signal(signal.SIGINT)
            output, errors = collector.communicate(timeout=TIMEOUT_S)
        finally:
            collector.kill()
            collector.communicate()
        if collector.returncode:
            raise TestbedError(f"the collector failed: {errors.strip().splitlines()[-1:]}")
        size = sum(path.stat().st_size for path in run.parent.glob(f"*/run={run.name}/*"))
        return _taken(shape, sent, seconds, json.loads(output), size)


def _taken(shape: Shape, sent: int, seconds: float, found: dict[str, Any], size: int) -> Taken:
    received = found["datagrams"]
    reports = received * shape.reports
    expected = {"reports": reports, "hops": reports * shape.hops, "duplicates": 0, "reordered": 0,
                "restarts": 0}  # fmt: skip
    if received == sent:
        expected["flows"] = shape.flows
    return Taken(
        sent=sent, received=received, in_gaps=found["lost"], kernel_drops=found["kernel_drops"],
        misread=sum(abs(found[what] - value) for what, value in expected.items())
        + sum(found["malformed"].values()) + sum(found["overflow"].values()),
        reports=max(reports, 1), sent_per_s=(sent - 1) / seconds, seconds=seconds,
        user_s=found["user_s"], system_s=found["system_s"], stored_bytes=size,
    )  # fmt: skip
