"""What this machine has of all that Telemark can use, and how to get what is missing.

Then which experiments can run here: in virtual time, in real time, and on bmv2.
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

BUSY = 0.5  # processes that want to run, for each processor: beyond, runs may be invalid
LEAST_MB = 2000
SETUP = "./setup.sh"
P4UTILS, THRIFT = "p4-utils", "Thrift bindings"
REAL_TIME, IN_THE_KERNEL = "real time", "XDP and eBPF"


@dataclass(frozen=True)
class Finding:
    """Of one thing: what is there, or how to get it."""

    what: str
    use: str
    found: str  # "" where it is missing
    get: str
    needed_for: str = ""  # REAL_TIME, or IN_THE_KERNEL: no experiment of that runs without

    @property
    def shown(self) -> str:
        """What the table says."""
        return self.found or f"missing: {self.get}"


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """It has no options."""


def run(_options: argparse.Namespace) -> int:
    """Print what was found; the exit status is 2 where real time lacks something, else 0."""
    found = findings()
    there = {finding.what for finding in found if finding.found}
    lacks = {finding.needed_for for finding in found if not finding.found}
    if bmv2.PROGRAM not in there:
        lacks.add(bmv2.PROGRAM)
    rows = [(finding.what, finding.use, finding.shown) for finding in found]
    known = experiments(REPOSITORY / "experiments")
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    console.print(table("This machine", ("what", "for", "found"), rows))
    console.print(
        table("Experiments", ("name", "virtual time", "real time", "bmv2"),
              [(each.name, *where(each, lacks)) for each in known])
    )  # fmt: skip
    return cli.UNUSABLE if REAL_TIME in lacks else cli.PASSED


def findings() -> list[Finding]:
    """All that can be looked for, what experiments need first."""
    return [
        Finding("namespaces", "real time",
                f"yes, of Linux {platform.release()}" if can_isolate() else "",
                "use sudo; a container needs --privileged", REAL_TIME),
        _program("mnexec", "real time: Mininet", SETUP, REAL_TIME),
        _program("cc", "switches, senders and receivers", SETUP, REAL_TIME),
        _program("clang", "XDP and eBPF", SETUP, IN_THE_KERNEL),
        _libbpf(),
        _program("iptables-legacy", "XDP: what it is held against", SETUP, IN_THE_KERNEL),
        _program("nft", "XDP: what it is held against", SETUP, IN_THE_KERNEL),
        _load(),
        _memory(),
        _program(bmv2.PROGRAM, "--target bmv2, targets.py", "./provision.sh, on Ubuntu"),
        _program("p4c-bm2-ss", "tests against p4c", "./provision.sh, on Ubuntu"),
        _thrift(),
        _p4utils(),
        _machine(),
        _program("tshark", "tests of the dissector", "apt install tshark"),
        _program("chromium", "tests of results/index.html", "apt install chromium"),
        _program("nfcapd", "tests of IPFIX", "apt install nfdump"),
    ]  # fmt: skip


def where(experiment: Experiment, lacks: Collection[str]) -> list[str]:
    """Whether it runs in virtual time, in real time, and on bmv2; or why not.

    `lacks`: REAL_TIME, IN_THE_KERNEL and bmv2's name, each where something for it is missing.
    """
    takes = {REAL_TIME, IN_THE_KERNEL} if experiment.is_in_the_kernel else {REAL_TIME}
    settings = {
        ("virtual", "minip4"): set[str](),
        ("real", "minip4"): takes,
        ("real", "bmv2"): takes | {bmv2.PROGRAM},
    }
    return [
        _runs(experiment, *setting, lacks=not wanted.isdisjoint(lacks))
        for setting, wanted in settings.items()
    ]


def _runs(experiment: Experiment, time: str, target: str, *, lacks: bool) -> str:
    if why := experiment.unfit(argparse.Namespace(time=time, target=target)):
        return f"no: {why}"
    return "no: see above" if lacks else "yes"


def _program(name: str, use: str, get: str, needed_for: str = "") -> Finding:
    return Finding(name, use, shutil.which(name) or "", get, needed_for)


def _libbpf() -> Finding:
    name = "libbpf.so.1"
    try:
        ctypes.CDLL(name)
    except OSError:
        name = ""
    get = f"{SETUP} (Ubuntu 22.04's is too old)"
    return Finding("libbpf", "XDP and eBPF", name, get, IN_THE_KERNEL)


def _load() -> Finding:
    processors = os.cpu_count() or 1
    load, _, _ = os.getloadavg()
    text = f"{processors} processors, {load:.1f} processes that want to run"
    if load > BUSY * processors:
        text += ": other work may make runs in real time invalid"
    return Finding("processors", "real time", text, "")


def _memory() -> Finding:
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    free_mb = int(lines["MemAvailable"].split()[0]) // 1024
    few = f": expected {LEAST_MB:,} MB" if free_mb < LEAST_MB else ""
    return Finding("memory", "all", f"{free_mb:,} MB free{few}", "")


def _thrift() -> Finding:
    """bmv2's own: what needs none runs without."""
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
    return Finding(P4UTILS, "scripts of NetworkAPI", found, "./provision.sh")


def _machine() -> Finding:
    lacking = machine.missing()
    found = "yes" if lacking is None else ""
    return Finding("a VM with RDMA", "RoCE against Linux's own", found, lacking or "")
