"""How many Telemetry Reports a second does the collector of INT take, on one core?

A process sends reports of INT-MD over five hops, of 1,000 flows, over a veth. The collector, on a
core of its own, receives them; then it decodes and indexes them; then it stores them, too. What
counts is its CPU time: the kernel's work for a datagram up to its socket is the sender's.
"""

import _venv  # noqa: F401  isort: skip  runs this script in the project's own environment

import argparse
import gc
import io
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import _int_reports
from _claims import AtMost
from _int_reports import AT_ONCE, HOPS, INT_PORT
from _wires import GENERATOR_CORE, SWITCH_CORE, await_true
from _wires import run as command

from collectors.int.application import PORT, Collector, Encoding, Findings
from testbed import cli
from testbed.application import Application, Host, Place
from testbed.arrivals import Datagrams
from testbed.errors import TestbedError
from testbed.real.application_host import ProcessHost
from testbed.real.applications import Task
from testbed.results.report import Report, table
from testbed.run import Run

SENDER, COLLECTOR = "10.66.0.1", "10.66.0.2"
DATAGRAMS_PER_S = 110_000.0
SECONDS, QUICK_SECONDS = 4.0, 1.0
RECEIVED, INDEXED, STORED = "received", "decoded, indexed", "and stored"
TOGETHER = 0.5  # what a report of many in a datagram may take, to what one alone in it takes


class Receiver(Application):
    """Takes datagrams, and does nothing with them."""

    def __init__(self) -> None:
        self._count = 0

    def start(self, host: Host) -> None:
        host.udp(PORT, self.on_datagrams, hold_us=1000)

    def on_datagrams(self, datagrams: Datagrams) -> None:
        self._count += len(datagrams)

    def result(self) -> int:
        return self._count


class Taken(NamedTuple):
    """What the collector did in one turn."""

    reports_a_datagram: int
    what: str
    offered_per_s: float  # reports
    datagrams_lost: int
    cpu_ns: float  # a report
    bytes: float  # of files, a report

    @property
    def per_s(self) -> float:
        """Reports that one core would take."""
        return 1e9 / self.cpu_ns


def turn(run: Run, reports: int, what: str, seconds: float) -> Taken:
    """Send, and take."""
    run.progress.update(f"{reports} reports a datagram: {what}")
    command("ip link add collector type veth peer name reports")
    command(f"ip address add {COLLECTOR}/24 dev collector")
    script = [_int_reports.__file__, "reports", SENDER, COLLECTOR, PORT, reports, DATAGRAMS_PER_S,
              seconds]  # fmt: skip
    sender = subprocess.Popen(
        ["taskset", "-c", str(GENERATOR_CORE), "unshare", "-n", sys.executable, *map(str, script)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        _expect(sender, "here")
        command(f"ip link set reports netns {sender.pid}")
        command("ip link set collector up")
        _expect(sender, "ready")
        os.sched_setaffinity(0, {SWITCH_CORE})
        with tempfile.TemporaryDirectory(dir=run.folder) as folder:
            return _take(sender, reports, what, seconds, Path(folder))
    finally:
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
        sender.kill()
        sender.wait()
        gc.collect()  # the host with its socket: it and its inlets refer to each other
        await_true(lambda: not _has_interface("collector"), "the veth goes with the sender")


def _expect(sender: subprocess.Popen[str], word: str) -> None:
    assert sender.stdout is not None
    if sender.stdout.readline() != f"{word}\n":
        raise TestbedError("the sender of reports did not start")


def _has_interface(name: str) -> bool:
    return name in (each for _, each in socket.if_nameindex())


def _take(
    sender: subprocess.Popen[str], reports: int, what: str, seconds: float, folder: Path
) -> Taken:
    host = ProcessHost(Task(Place("collector", COLLECTOR, "", 1500, {}), "collector", [], None))
    application: Application = Receiver()
    if what != RECEIVED:
        store = (folder, "run") if what == STORED else None
        application = Collector(Encoding(port=INT_PORT), store=store)
    application.start(host)
    ends, begins = os.pipe()
    sent: list[int] = []

    def wait() -> None:
        """When the sender has ended, so does the collector."""
        sent.append(int(sender.communicate("go\n")[0]))
        time.sleep(0.2)
        os.close(begins)

    thread = threading.Thread(target=wait)
    began_s = time.process_time()
    thread.start()
    with os.fdopen(ends, "rb", buffering=0) as commands:
        host.serve(commands, io.BytesIO())
    found = application.result()
    cpu_s = time.process_time() - began_s
    thread.join()
    if isinstance(found, Findings):
        _check(found, reports)
        found = found.datagrams
    size = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
    taken = found * reports
    return Taken(
        reports, what, sent[0] * reports / seconds, sent[0] - found, cpu_s / taken * 1e9,
        size / taken,
    )  # fmt: skip


def _check(found: Findings, reports: int) -> None:
    """It has done what it was to do."""
    if found.reports != found.datagrams * reports or found.hops != found.reports * HOPS:
        raise AssertionError(f"{found.reports} reports and {found.hops} hops found")
    if len(found.flows) != _int_reports.FLOWS or (found.flows["hops"] != HOPS).any():
        raise AssertionError(f"{len(found.flows)} flows found")


def experiment(options: argparse.Namespace, run: Run) -> Report:
    if options.time != "real":
        raise TestbedError("this benchmark runs in real time")
    seconds = QUICK_SECONDS if options.quick else SECONDS
    return report([
        turn(run, reports, what, seconds)
        for reports in (1, 4, AT_ONCE) for what in (RECEIVED, INDEXED, STORED)
    ])  # fmt: skip


def report(rows: list[Taken]) -> Report:
    """What was measured, and the claim: reports that come together share what a datagram costs."""
    columns = ("reports a datagram", "what", "offered/s", "datagrams lost", "CPU ns a report",
               "bytes stored a report", "reports/s a core")  # fmt: skip
    values: list[tuple[Any, ...]] = [(*row, row.per_s) for row in rows]
    one, many = (
        next(row for row in rows if row.reports_a_datagram == reports and row.what == INDEXED)
        for reports in (1, AT_ONCE)
    )
    return Report(
        samples=[dict(zip(columns, row, strict=True)) for row in values],
        checks=[
            AtMost(f"CPU time of a report of {AT_ONCE} in a datagram to that of one alone, at most",
                   many.cpu_ns / one.cpu_ns, TOGETHER),
        ],
        tables=[table("The collector of INT", columns, values)],
    )  # fmt: skip


if __name__ == "__main__":
    cli.main(f"benchmark_{Path(__file__).name}", __doc__, experiment)
