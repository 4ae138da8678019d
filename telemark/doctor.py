"""List installed and missing dependencies, and the commands that install missing ones. Then list
the experiments that can run on this machine in virtual time, in real time, and on bmv2.
"""

import argparse
import ctypes
import os
import platform
import shutil
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from telemark import REPOSITORY
from telemark.backends.real.bmv2_thrift import bindings
from telemark.backends.real.isolation import can_isolate
from telemark.backends.real.p4utils import environment
from telemark.backends.real.targets import bmv2
from telemark.backends.real.vm import machine
from telemark.errors import TestbedError
from telemark.results.report import table
from telemark.run_all.catalogue import Experiment, experiments
from telemark.session import cli

MAX_LOAD = 0.5  # load average per CPU; if it is higher, runs may be inconclusive
MIN_MB = 2000
SETUP = "./setup.sh"
P4UTILS, THRIFT = "p4-utils", "Thrift bindings"
REAL_TIME, EBPF = "real time", "XDP and eBPF"


@dataclass(frozen=True)
class Finding:
    """Result of the search for one dependency."""

    name: str
    use: str
    found: str  # version or location; "" if missing
    remedy: str
    needed_for: str = ""  # REAL_TIME or EBPF if all experiments of this kind need the dependency

    @property
    def shown(self) -> str:
        """Text of the finding in the table."""
        return self.found or f"missing: {self.remedy}"


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Add no options."""


def run(_options: argparse.Namespace) -> int:
    """Print the tables. Return 2 if a dependency of real time is missing, else 0."""
    found = findings()
    available = {finding.name for finding in found if finding.found}
    missing = {finding.needed_for for finding in found if not finding.found}
    if bmv2.PROGRAM not in available:
        missing.add(bmv2.PROGRAM)
    rows = [(finding.name, finding.use, finding.shown) for finding in found]
    known = experiments(REPOSITORY / "experiments")
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    console.print(table("This machine", ("dependency", "used for", "found"), rows))
    console.print(
        table("Experiments", ("name", "virtual time", "real time", "bmv2"),
              [(each.name, *availability(each, missing)) for each in known])
    )  # fmt: skip
    return cli.UNUSABLE if REAL_TIME in missing else cli.PASSED


def findings() -> list[Finding]:
    """Search for all dependencies. The dependencies of experiments come first."""
    return [
        Finding("namespaces", "real time",
                f"yes, Linux {platform.release()}" if can_isolate() else "",
                "use sudo (in a container: --privileged)", REAL_TIME),
        _program("mnexec", "real time: Mininet", SETUP, REAL_TIME),
        _program("cc", "switches, senders and receivers", SETUP, REAL_TIME),
        _program("clang", "XDP and eBPF", SETUP, EBPF),
        _libbpf(),
        _program("iptables-legacy", "XDP: comparison", SETUP, EBPF),
        _program("nft", "XDP: comparison", SETUP, EBPF),
        _load(),
        _memory(),
        _program(
            bmv2.PROGRAM, "--target bmv2, targets.py, tests of bmv2", "./provision.sh, on Ubuntu"
        ),
        _program("p4c-bm2-ss", "tests against p4c", "./provision.sh, on Ubuntu"),
        _thrift(),
        _p4utils(),
        _machine(),
        _program("tshark", "tests of the dissector", "apt install tshark"),
        _program("chromium", "tests of results/index.html", "apt install chromium"),
        _program("nfcapd", "tests of IPFIX", "apt install nfdump"),
    ]  # fmt: skip


def availability(experiment: Experiment, missing: Collection[str]) -> list[str]:
    """Return "yes", or why the experiment cannot run: for virtual time, real time and bmv2.

    `missing` is the subset of REAL_TIME, EBPF and bmv2.PROGRAM whose dependencies are incomplete.
    """
    real = {REAL_TIME, EBPF} if experiment.is_ebpf else {REAL_TIME}
    settings = {
        ("virtual", "minip4"): set[str](),
        ("real", "minip4"): real,
        ("real", "bmv2"): real | {bmv2.PROGRAM},
    }
    return [
        _availability(experiment, *setting, is_missing=not needed.isdisjoint(missing))
        for setting, needed in settings.items()
    ]


def _availability(experiment: Experiment, time: str, target: str, *, is_missing: bool) -> str:
    if reason := experiment.reason_to_skip(argparse.Namespace(time=time, target=target)):
        return f"no: {reason}"
    return "no: see above" if is_missing else "yes"


def _program(name: str, use: str, remedy: str, needed_for: str = "") -> Finding:
    return Finding(name, use, shutil.which(name) or "", remedy, needed_for)


def _libbpf() -> Finding:
    name = "libbpf.so.1"
    try:
        ctypes.CDLL(name)
    except OSError:
        name = ""
    remedy = f"{SETUP} (Ubuntu 22.04's is too old)"
    return Finding("libbpf", "XDP and eBPF", name, remedy, EBPF)


def _load() -> Finding:
    processors = os.cpu_count() or 1
    load, _, _ = os.getloadavg()
    text = f"{processors} processors, load {load:.1f}"
    if load > MAX_LOAD * processors:
        text += ": runs in real time may be inconclusive"
    return Finding("processors", "real time", text, "")


def _memory() -> Finding:
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    free_mb = int(lines["MemAvailable"].split()[0]) // 1024
    warning = f": expected {MIN_MB:,} MB" if free_mb < MIN_MB else ""
    return Finding("memory", "all", f"{free_mb:,} MB free{warning}", "")


def _thrift() -> Finding:
    """Search for bmv2's Thrift API; most experiments on bmv2 do not need it."""
    use = "queues and registers of bmv2 (--target bmv2)"
    if not bindings.has_thrift():
        return Finding(THRIFT, use, "", "bmv2, built with Thrift")
    try:
        found = bindings.interpreter()
    except TestbedError:
        found = ""
    return Finding(THRIFT, use, found, "apt install python3-thrift; bmv2's Python modules")


def _p4utils() -> Finding:
    try:
        found = environment.interpreter()
    except TestbedError:
        found = ""
    return Finding(P4UTILS, "NetworkAPI scripts", found, "./provision.sh")


def _machine() -> Finding:
    problem = machine.missing()
    found = "yes" if problem is None else ""
    return Finding("VM with RDMA", "RoCE: comparison with Linux (rxe)", found, problem or "")
